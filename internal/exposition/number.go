package exposition

import (
	"bytes"
	"math"
	"strconv"
)

// maxExactPower is the largest exponent n for which a float64 represents 10^n exactly.
const maxExactPower = 22

// maxExactMantissa is the limit below which a float64 represents every integer exactly.
const maxExactMantissa = 1 << 53

var powersOfTen = [maxExactPower + 1]float64{
	1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}

// parseDecimal parses a plain decimal number ([+-]digits[.digits][e[+-]digits]) at the start of b.
// n is the number of parsed bytes. The result is the same as strconv.ParseFloat's: if the mantissa
// and the power of ten are both exact, the result is rounded only once (Clinger's fast path), and
// so is an integer below 2^64. In all other cases, n is 0.
func parseDecimal(b []byte) (v float64, n int) {
	i, negative := 0, false
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		negative = b[0] == '-'
		i = 1
	}
	var mantissa uint64
	first := i
	for i < len(b) && b[i]-'0' <= 9 {
		mantissa = mantissa*10 + uint64(b[i]-'0')
		i++
	}
	digits, exponent := i-first, 0
	if i < len(b) && b[i] == '.' {
		i++
		first = i
		for i < len(b) && b[i]-'0' <= 9 {
			mantissa = mantissa*10 + uint64(b[i]-'0')
			i++
		}
		exponent = first - i
		digits -= exponent
	}
	// A uint64 can store every number of 19 digits, but not every number of 20 digits.
	if digits == 0 || digits > 19 {
		return 0, 0
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		e, width := parseExponent(b[i+1:])
		if width == 0 {
			return 0, 0
		}
		exponent += e
		i += 1 + width
	}
	v = float64(mantissa)
	if exponent != 0 {
		if mantissa >= maxExactMantissa {
			return 0, 0
		}
		switch {
		case 0 < exponent && exponent <= maxExactPower:
			v *= powersOfTen[exponent]
		case -maxExactPower <= exponent && exponent < 0:
			v /= powersOfTen[-exponent]
		default:
			return 0, 0
		}
	}
	if negative {
		v = -v
	}
	return v, i
}

// parseExponent parses the digits after the e of a number. n is their number, including the sign,
// or 0 if there are no digits or more than three.
func parseExponent(b []byte) (e, n int) {
	i := 0
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		i = 1
	}
	first := i
	for i < len(b) && b[i]-'0' <= 9 && i-first < 4 {
		e = e*10 + int(b[i]-'0')
		i++
	}
	if i == first || i-first > 3 {
		return 0, 0
	}
	if b[0] == '-' {
		e = -e
	}
	return e, i
}

// parseValue parses a token as a sample value. Like Prometheus, it accepts what strconv.ParseFloat
// accepts, except hexadecimal floats, underscores, and numbers outside the range of float64.
func parseValue(token []byte) (float64, bool) {
	if v, n := parseDecimal(token); n > 0 && n == len(token) {
		return v, true
	}
	switch string(token) {
	case "NaN":
		return math.NaN(), true
	case "+Inf":
		return math.Inf(1), true
	case "-Inf":
		return math.Inf(-1), true
	}
	if bytes.ContainsAny(token, "pPxX_") {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(token), 64)
	return v, err == nil
}
