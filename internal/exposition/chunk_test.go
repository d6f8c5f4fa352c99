package exposition

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/expositiontest"
)

func TestReadingABodyInPiecesHasTheSameResult(t *testing.T) {
	line := func(length int) string {
		return `a{x="` + strings.Repeat("y", length-len(`a{x=""} 1`)) + "\"} 1"
	}
	for name, body := range map[string]string{
		"nothing":                             "",
		"no newline at the end":               "a 1\nb 2",
		"the body ends in a label":            "a 1\nb{x=\"",
		"carriage returns":                    "a 1\r\nb 2\r\n",
		"many chunks":                         string(expositiontest.Node(8, 7)),
		"a line as long as a chunk":           line(chunkSize-1) + "\nb 2\n",
		"a line one byte longer than a chunk": line(chunkSize) + "\nb 2\n",
		"the longest line":                    "a 1\n" + line(MaxLine) + "\nb 2\n",
		"the longest line, at the end":        line(MaxLine),
		"a line that is too long":             "a 1\n" + line(MaxLine+1) + "\nb 2\n",
		"a line that is too long, at the end": "a 1\n" + line(MaxLine+1),
		"lines that are much too long":        line(3*MaxLine) + "\n" + line(2*MaxLine) + "\nb 2\n",
		"a comment that is too long":          "#" + strings.Repeat("x", 2*MaxLine) + "\nb 2\n",
		"a very long line without a newline":  strings.Repeat("x", 5*MaxLine),
	} {
		t.Run(name, func(t *testing.T) {
			want := NewParser().Parse([]byte(body))
			for _, r := range []io.Reader{
				strings.NewReader(body), iotest.HalfReader(strings.NewReader(body)), iotest.DataErrReader(strings.NewReader(body)),
			} {
				p := NewParser()
				p.Parse([]byte("b 2\na 1\n"))
				got, err := p.Read(r)
				require.NoError(t, err)
				assert.Equal(t, skipped(want), skipped(got))
				assert.Equal(t, want.Samples, got.Samples)
				assert.True(t, canonicalEqual(want, got))
			}
		})
	}
}

// canonicalEqual compares two scrapes. If the scrapes differ, canonicalEqual does not print
// megabytes of text, unlike assert.Equal.
func canonicalEqual(a, b *Scrape) bool { return assert.ObjectsAreEqual(canonical(a), canonical(b)) }

func TestAnErrorInABodyDoesNotAffectTheNextOne(t *testing.T) {
	broken := errors.New("broken")
	body := expositiontest.Node(2, 7)
	p := NewParser()
	_, err := p.Read(io.MultiReader(bytes.NewReader(body[:len(body)/2]), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
	got, err := p.Read(bytes.NewReader(body))
	require.NoError(t, err)
	assert.True(t, canonicalEqual(NewParser().Parse(body), got))
}

func TestABodyThatIsTooLargeIsNotReadToItsEnd(t *testing.T) {
	p := NewParser()
	p.maxItems = 10
	body := strings.NewReader(strings.Repeat("a{x=\"1\"} 1\nb{x=\"1\"} 1\nc{x=\"1\"} 1\n# TYPE d counter\n# TYPE e counter\n# TYPE f counter\n# TYPE g counter\n# TYPE h counter\n# TYPE i counter\n# TYPE j counter\n", 10_000))
	got, err := p.Read(body)
	require.NoError(t, err)
	assert.True(t, got.TooLarge)
	assert.Positive(t, body.Len())
}
