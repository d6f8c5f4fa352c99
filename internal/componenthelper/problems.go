package componenthelper

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Problems collects the errors in a component's settings. The zero value contains no errors.
type Problems struct{ errs []error }

// Check adds an error unless ok is true. The format and its arguments must state the setting, its
// value, and the allowed values.
func (p *Problems) Check(ok bool, format string, args ...any) {
	if !ok {
		p.errs = append(p.errs, fmt.Errorf(format, args...))
	}
}

// Between adds an error unless low <= value <= high.
func Between[V cmp.Ordered](p *Problems, setting string, value, low, high V) {
	p.Check(low <= value && value <= high, "%s is %v: must be between %v and %v", setting, value, low, high)
}

// MaxSeries adds an error unless n is a valid value of max_series.
func (p *Problems) MaxSeries(n int) { Between(p, "max_series", n, 1, 10_000_000) }

// Add adds every given error that is not nil.
func (p *Problems) Add(errs ...error) {
	for _, err := range errs {
		if err != nil {
			p.errs = append(p.errs, err)
		}
	}
}

// Err returns all errors, sorted by text, or nil if there are none.
func (p *Problems) Err() error {
	slices.SortStableFunc(p.errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(p.errs...)
}
