package gpushare

import (
	"errors"
	"fmt"
)

// maxAnnotation is the maximum length of a parsed annotation. The API server applies the same limit
// to the total length of an object's annotations.
const maxAnnotation = 256 << 10

// maxProblems is the maximum number of invalid entries that an error lists.
const maxProblems = 16

// problems collects errors about entries that cannot be parsed.
type problems struct {
	errs []error
	more int
}

func (p *problems) add(format string, args ...any) {
	if len(p.errs) == maxProblems {
		p.more++
		return
	}
	p.errs = append(p.errs, fmt.Errorf(format, args...))
}

// tooLong reports whether an annotation is longer than the API server allows. If so, tooLong also
// records a problem.
func (p *problems) tooLong(key, value string) bool {
	if len(value) <= maxAnnotation {
		return false
	}
	p.add("%s: %d bytes, at most %d are read", key, len(value), maxAnnotation)
	return true
}

func (p *problems) err() error {
	if p.more > 0 {
		return errors.Join(append(p.errs, fmt.Errorf("and %d more", p.more))...)
	}
	return errors.Join(p.errs...)
}
