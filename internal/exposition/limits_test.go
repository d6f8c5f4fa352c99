package exposition

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bodyOf returns a body with n series. No two rounds have a series in common.
func bodyOf(round, n int) []byte {
	var b []byte
	for i := range n {
		b = fmt.Appendf(b, "# TYPE m%d_%d counter\nm%d_%d{pod=\"p-%d-%d\"} 1\n", round, i, round, i, round, i)
	}
	return b
}

func (p *Parser) isEmpty() bool {
	return p.CacheSize() == 0 && len(p.texts) == 0 && len(p.metrics) == 0 && len(p.sets) == 0 && p.first.next == nil
}

func TestAnIncompleteBodyIsDiscarded(t *testing.T) {
	for name, broken := range map[string]error{
		"cut":       io.ErrUnexpectedEOF,
		"too large": errors.New("too large"),
	} {
		t.Run(name, func(t *testing.T) {
			p := NewParser()
			for round := range 50 {
				_, err := p.Read(io.MultiReader(bytes.NewReader(bodyOf(round, 2000)), iotest.ErrReader(broken)))
				require.ErrorIs(t, err, broken)
				require.True(t, p.isEmpty(), "after %d bodies", round+1)
			}
			got, err := p.Read(strings.NewReader("a 1\n"))
			require.NoError(t, err)
			assert.Equal(t, []string{`a{} 1`}, render(got))
			assert.Equal(t, 1, p.CacheSize())
		})
	}
}

func TestOtherSpellingsOfASeriesCountAsItems(t *testing.T) {
	p := NewParser()
	p.maxItems = 100
	var b strings.Builder
	for i := range 200 {
		fmt.Fprintf(&b, "a%s{x=\"1\"} 1\n", strings.Repeat(" ", i))
	}
	assert.True(t, p.Parse([]byte(b.String())).TooLarge)
	assert.True(t, p.isEmpty())
}

func TestSeriesWithIgnoredTimestampsAreNotCached(t *testing.T) {
	p := NewParser()
	p.HonorTimestamps(time.UnixMilli(1000), time.UnixMilli(2000))
	var b []byte
	for i := range 1000 {
		b = fmt.Appendf(b, "a{x=\"%d\"} 1 5000\n", i)
	}
	sc := p.Parse(b)
	assert.Equal(t, map[Reason]int{ReasonTimestamp: 1000}, skipped(sc))
	assert.Zero(t, p.CacheSize())
}

func TestTheLengthOfNamesAndLabelsIsLimited(t *testing.T) {
	long := func(n int) string { return strings.Repeat("y", n) }
	for name, tt := range map[string]struct {
		line string
		read bool
	}{
		"the longest metric name":         {long(MaxName) + " 1", true},
		"a longer metric name":            {long(MaxName+1) + " 1", false},
		"a longer metric name and labels": {long(MaxName+1) + `{x="1"} 1`, false},
		"the longest label name":          {`a{` + long(MaxName) + `="1"} 1`, true},
		"a longer label name":             {`a{` + long(MaxName+1) + `="1"} 1`, false},
		"the longest label value":         {`a{w="1",x="` + long(MaxLabelValue) + `"} 1`, true},
		"a longer label value":            {`a{w="1",x="` + long(MaxLabelValue+1) + `"} 1`, false},
		"a longer value with quotes":      {`a{x="` + strings.Repeat(`"z`, MaxLabelValue) + `"} 1`, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := NewParser()
			for _, state := range []string{"cold", "warm"} {
				sc := p.Parse([]byte(tt.line + "\nb 2\n"))
				want := map[Reason]int{ReasonLabelTooLong: 1}
				if tt.read {
					want = map[Reason]int{}
				}
				assert.Equal(t, want, skipped(sc), state)
				assert.Equal(t, 2-len(want), sc.Samples, state)
			}
			_, reason, ok := ReadLine([]byte(tt.line))
			assert.Equal(t, tt.read, ok)
			if !tt.read {
				assert.Equal(t, ReasonLabelTooLong, reason)
			}
		})
	}
}

func TestATypeLineWithATooLongNameIsIgnored(t *testing.T) {
	p := NewParser()
	p.Parse([]byte("# TYPE " + strings.Repeat("y", MaxName+1) + " counter\n"))
	assert.True(t, p.isEmpty())
}
