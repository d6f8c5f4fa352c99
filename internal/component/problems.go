package component

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Problems gathers what is wrong with the settings of a component. The zero value is
// none.
type Problems struct{ errs []error }

// Check adds a problem unless ok. The text names the setting, its value and what is
// allowed.
func (p *Problems) Check(ok bool, format string, args ...any) {
	if !ok {
		p.errs = append(p.errs, fmt.Errorf(format, args...))
	}
}

// Add adds the errors that are not nil.
func (p *Problems) Add(errs ...error) {
	for _, err := range errs {
		if err != nil {
			p.errs = append(p.errs, err)
		}
	}
}

// Err returns all problems in the order of their texts, nil when there is none.
func (p *Problems) Err() error {
	slices.SortStableFunc(p.errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(p.errs...)
}
