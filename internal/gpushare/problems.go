package gpushare

import (
	"errors"
	"fmt"
)

// maxAnnotation is the maximum length of an annotation that is parsed. In the API server, this is
// the limit for all annotations of an object together.
const maxAnnotation = 256 << 10

// maxProblems is the maximum number of entries that an error lists.
const maxProblems = 16

// problems collects the entries that could not be parsed.
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

// tooLong rejects an annotation that no API server would store.
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
