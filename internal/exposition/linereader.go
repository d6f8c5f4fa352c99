package exposition

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// ErrLineTooLong means that a line is longer than [MaxLine].
var ErrLineTooLong = errors.New("the line is too long")

// LineReader reads a body line by line. After a line that is too long, a LineReader continues with
// the next line, as a [Parser] does.
type LineReader struct{ r *bufio.Reader }

// NewLineReader returns a LineReader that reads from r.
func NewLineReader(r io.Reader) *LineReader {
	return &LineReader{bufio.NewReaderSize(r, MaxLine+len("\n"))}
}

// Next returns the next line without its newline. The line is valid until the next call of Next.
// If the line is longer than MaxLine, Next skips the line and returns ErrLineTooLong. At the end of
// the body, Next returns io.EOF. If reading fails, Next returns the error, and does not return the
// incomplete last line.
func (l *LineReader) Next() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	tooLong := errors.Is(err, bufio.ErrBufferFull)
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = l.r.ReadSlice('\n')
	}
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case tooLong:
		return nil, ErrLineTooLong
	case len(line) == 0:
		return nil, io.EOF
	}
	return bytes.TrimSuffix(line, []byte{'\n'}), nil
}
