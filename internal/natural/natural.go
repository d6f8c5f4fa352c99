// Package natural compares names in natural order, in which nvidia2 comes before nvidia10.
package natural

import (
	"cmp"
	"strings"
)

// Compare compares two strings in natural order: sequences of digits are compared by their numeric
// values. Leading zeros are ignored, so the result is 0 for 1 and 01.
func Compare(a, b string) int {
	for a != "" && b != "" {
		if na, nb := digits(a), digits(b); na > 0 && nb > 0 {
			x, y := strings.TrimLeft(a[:na], "0"), strings.TrimLeft(b[:nb], "0")
			if c := cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y)); c != 0 {
				return c
			}
			a, b = a[na:], b[nb:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// The digits function returns the number of digits at the start of s.
func digits(s string) int {
	return len(s) - len(strings.TrimLeft(s, "0123456789"))
}
