package componenthelper

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAllProblemsAreReportedInTheOrderOfTheirTexts(t *testing.T) {
	var p Problems
	assert.NoError(t, p.Err())
	p.Check(true, "interval is %d: must be 1", 1)
	p.Add(nil)
	assert.NoError(t, p.Err())

	unknown := errors.New("an unknown node")
	p.Check(false, "timeout is %d: must be at least %d", 0, 1)
	p.Add(nil, unknown)
	p.Check(false, "endpoint is %q: must have a host", "")
	assert.EqualError(t, p.Err(), "an unknown node\nendpoint is \"\": must have a host\ntimeout is 0: must be at least 1")
	assert.ErrorIs(t, p.Err(), unknown)
}
