package exposition

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
)

// readLines returns the lines that a LineReader returns. Lines that are too long are returned as
// "too long".
func readLines(r io.Reader) (out []string, err error) {
	for lines := NewLineReader(r); ; {
		line, err := lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			return out, nil
		case errors.Is(err, ErrLineTooLong):
			out = append(out, "too long")
		case err != nil:
			return out, err
		default:
			out = append(out, string(line))
		}
	}
}

func TestALineReaderContinuesAfterALineThatIsTooLong(t *testing.T) {
	longest, tooLong := strings.Repeat("x", MaxLine), strings.Repeat("x", MaxLine+1)
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"an empty body":                         {"", nil},
		"a last line without a newline":         {"a\n\nb", []string{"a", "", "b"}},
		"the longest line":                      {longest + "\nb\n", []string{longest, "b"}},
		"the longest line without a newline":    {longest, []string{longest}},
		"a line that is too long":               {"a\n" + tooLong + "\nb\n", []string{"a", "too long", "b"}},
		"a last line that is too long":          {"a\n" + tooLong, []string{"a", "too long"}},
		"lines that are several times too long": {strings.Repeat(tooLong, 3) + "\n" + strings.Repeat(tooLong, 2) + "\nb", []string{"too long", "too long", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readLines(strings.NewReader(tt.text))
			assert.NoError(t, err)
			assert.Equal(t, tt.want, got)

			p := NewParser()
			skipped := 0
			for _, line := range tt.want {
				if line == "too long" {
					skipped++
				}
			}
			assert.Equal(t, skipped, p.Parse([]byte(tt.text)).Skipped[ReasonLineTooLong], "a Parser skips the same lines")
		})
	}
}

func TestALineReaderDropsALineThatIsIncompleteBecauseOfAnError(t *testing.T) {
	broken := errors.New("the connection was closed")
	got, err := readLines(io.MultiReader(strings.NewReader("a 1\nb 12"), iotest.ErrReader(broken)))
	assert.ErrorIs(t, err, broken)
	assert.Equal(t, []string{"a 1"}, got)
}
