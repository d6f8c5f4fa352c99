package exposition

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"
)

// chunkSize is the maximum number of bytes of a body in memory at a time, except for lines that are
// longer.
const chunkSize = 64 << 10

// chunk is the part of a body that is in memory.
type chunk struct {
	buf   []byte
	given int // buf[:given] contains the lines that the last call of fill returned
	// tooLong is true if the last returned lines follow a line longer than MaxLine. skipping is
	// true until the end of such a line has been read.
	tooLong, skipping bool
}

var chunks sync.Pool

func newChunk() *chunk {
	if c, ok := chunks.Get().(*chunk); ok {
		return c
	}
	return &chunk{buf: make([]byte, 0, chunkSize)}
}

// release frees the buffer if a long line has increased its size.
func (c *chunk) release() {
	if cap(c.buf) == chunkSize {
		*c = chunk{buf: c.buf[:0]}
		chunks.Put(c)
	}
}

// fill reads more data and returns the complete lines, which are valid until the next call. It
// returns io.EOF together with the last lines.
func (c *chunk) fill(r io.Reader) (lines []byte, err error) {
	c.buf = append(c.buf[:0], c.buf[c.given:]...)
	c.given, c.tooLong = 0, false
	if len(c.buf) == cap(c.buf) {
		c.buf = slices.Grow(c.buf, len(c.buf))
	}
	before := len(c.buf)
	n, err := r.Read(c.buf[before:cap(c.buf)])
	c.buf = c.buf[:before+n]
	if c.skipping {
		i := bytes.IndexByte(c.buf, '\n')
		c.skipping = i < 0
		if c.skipping {
			c.buf = c.buf[:0]
			return nil, err
		}
		c.buf = append(c.buf[:0], c.buf[i+1:]...)
		before = 0
	}
	if errors.Is(err, io.EOF) {
		c.given = len(c.buf)
		return c.buf, err
	}
	c.given = before + bytes.LastIndexByte(c.buf[before:], '\n') + 1
	if c.given == before { // the buffer contains no complete line yet
		c.given = 0
		if len(c.buf) > MaxLine {
			c.tooLong, c.skipping = true, true
			c.buf = c.buf[:0]
		}
	}
	return c.buf[:c.given], err
}
