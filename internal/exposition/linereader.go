package exposition

import (
	"bytes"
	"errors"
	"io"
)

// ErrLineTooLong means that a line is longer than [MaxLine].
var ErrLineTooLong = errors.New("the line is too long")

// LineReader reads a body line by line. After a line that is too long, a LineReader continues with
// the next line, as a [Parser] does.
type LineReader struct {
	r     io.Reader
	chunk *chunk
	lines []byte // Lines of the chunk that Next has not returned.
	err   error  // The error after these lines.
}

// NewLineReader returns a LineReader that reads from r.
func NewLineReader(r io.Reader) *LineReader { return &LineReader{r: r, chunk: newChunk()} }

// Next returns the next line without its newline. The line is valid until the next call of Next.
// If the line is longer than MaxLine, Next skips the line and returns ErrLineTooLong. At the end of
// the body, Next returns io.EOF. If reading fails, Next returns the error, and does not return the
// incomplete last line.
func (l *LineReader) Next() ([]byte, error) {
	for len(l.lines) == 0 {
		if l.err != nil {
			return nil, l.err
		}
		if l.lines, l.err = l.chunk.fill(l.r); l.chunk.tooLong {
			return nil, ErrLineTooLong
		}
	}
	var line []byte
	if line, l.lines, _ = bytes.Cut(l.lines, []byte{'\n'}); len(line) > MaxLine {
		return nil, ErrLineTooLong
	}
	return line, nil
}
