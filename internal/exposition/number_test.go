package exposition

import (
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// assertExact compares floats bit by bit, so that 0 and -0 are different.
func assertExact(t assert.TestingT, text string) {
	want, err := strconv.ParseFloat(text, 64)
	got, ok := parseValue([]byte(text))
	assert.Equal(t, err == nil, ok, text)
	if ok {
		assert.Equal(t, math.Float64bits(want), math.Float64bits(got), text)
	}
}

func TestNumbersAreParsedAsByStrconv(t *testing.T) {
	for _, text := range []string{
		"0", "-0", "+0", "0.0", "-0.000000", "1", "00012", "9007199254740991", "9007199254740992", "9007199254740993",
		"9223372036854775792", "9223372036854775807", "9223372036854775809", "9999999999999999999",
		"18446744073709551615", "18446744073709551616", "99999999999999999999", "-9223372036854775793",
		"0.1", "0.3", "112.252", "46067.000000", "140737488355328.000000", "9007199254.740993",
		"1e22", "1e23", "1e-22", "1e-23", "1.28996013e+08", "9007199254740993e1", "5e-324", "1e309", "-1e309", "1e-400",
		"1e", "1e+", "1e1000", "1e0001", "1.7976931348623157e308", ".", "-", "+", "", "e5", ".e5", "1..2", "1.2.3", "--1",
		"inf", "INF", "-inf", "Infinity", "nan", "NaN", "-NaN", "0000000000000000000000001", "0.00000000000000000000001",
	} {
		t.Run(text, func(t *testing.T) { assertExact(t, text) })
	}
}

func TestFormsThatPrometheusRejectsAreNotNumbers(t *testing.T) {
	for _, text := range []string{"0x10", "0X1p-2", "1_000", "0b1", "0o7", "one", "1,5", "<<<NULL>>>"} {
		_, ok := parseValue([]byte(text))
		assert.False(t, ok, text)
	}
}

func TestRandomNumbersAreParsedAsByStrconv(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		assertExact(t, rapid.StringMatching(`[+-]?[0-9]{0,20}(\.[0-9]{0,20})?([eE][+-]?[0-9]{0,3})?`).Draw(t, "text"))
		v := rapid.Float64().Draw(t, "value")
		for _, format := range []byte("feg") {
			assertExact(t, strconv.FormatFloat(v, format, -1, 64))
			assertExact(t, strconv.FormatFloat(v, format, 6, 64))
		}
	})
}
