package gpushare

import (
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"regexp"

	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	mebi = 1 << 20

	// limit is the maximum quantity: one pebibyte of memory, or far more GPUs than any cluster has.
	// The sum of thousands of quantities up to this limit still fits into an int64.
	limit = 1 << 50
)

// Units converts a quantity to an integer from 0 to 2^50. Fractions are rounded up. Quantity.Value
// is not suitable for user input: for example, Quantity.Value returns 0 for 1e30. For other
// quantities that do not fit into an int64, Quantity.Value may return any number, even a negative
// number.
func Units(q resource.Quantity) int64 {
	if q.Sign() <= 0 {
		return 0
	}
	if f := q.AsApproximateFloat64(); !(f < limit) {
		return limit
	}
	return q.Value()
}

// The times function multiplies two non-negative numbers. If the product exceeds the limit, times
// returns the limit.
func times(a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 || lo > limit {
		return limit
	}
	return int64(lo)
}

// quantityForm matches quantities in annotations. The exponent may have at most three digits,
// because ParseQuantity would take a second to parse 1e-9999999.
var quantityForm = regexp.MustCompile(`^[+-]?(?:[0-9]{1,24}(?:\.[0-9]{0,24})?|\.[0-9]{1,24})(?:[eE][+-]?[0-9]{1,3}|[KMGTPE]i|[numkMGTPE])?$`)

// parseQuantity parses a JSON number or string as a quantity. If the quantity is negative or at
// least the limit, parseQuantity returns an error.
func parseQuantity(raw json.RawMessage) (int64, error) {
	text := string(raw)
	if len(raw) > 0 && raw[0] == '"' {
		_ = json.Unmarshal(raw, &text) // if decoding fails, quantityForm does not match
	}
	if !quantityForm.MatchString(text) {
		return 0, fmt.Errorf("%s is not a quantity", clip(text))
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, fmt.Errorf("%s is not a quantity", clip(text))
	}
	if q.Sign() < 0 {
		return 0, fmt.Errorf("%s is negative", clip(text))
	}
	n := Units(q)
	if n == limit {
		return 0, fmt.Errorf("%s is too large: must be less than 1Pi", clip(text))
	}
	return n, nil
}

// clip truncates text to 48 bytes and quotes it for an error message.
func clip(text string) string {
	if len(text) > 48 {
		text = text[:48] + "…"
	}
	return fmt.Sprintf("%q", text)
}

// MemoryOf returns the size of a memory share in bytes. If the share is declared in bytes, MemoryOf
// returns that number of bytes. If the share is declared as a ratio, MemoryOf multiplies the ratio
// by the device's total memory. If neither bytes nor a ratio is declared, or if only a ratio is
// declared and the total memory is not positive, MemoryOf returns 0. Like Koordinator, MemoryOf
// rounds down.
func MemoryOf(bytes int64, ratio float64, total int64) int64 {
	if bytes == 0 && ratio > 0 && total > 0 {
		return shareOf(ratio, total)
	}
	return bytes
}

// shareOf returns the product of a ratio and a total, rounded down. Most ratios are whole
// percentages. shareOf multiplies whole percentages as integers, because a float such as 0.07 is
// inexact, so the result could be one byte too small.
func shareOf(ratio float64, total int64) int64 {
	if points := math.Round(ratio * 100); math.Abs(ratio*100-points) < 1e-9 && points <= limit {
		hi, lo := bits.Mul64(uint64(points), uint64(total))
		if hi < 100 {
			if q, _ := bits.Div64(hi, lo, 100); q < limit {
				return int64(q)
			}
		}
		return limit
	}
	if f := ratio * float64(total); f < limit {
		return int64(f)
	}
	return limit
}
