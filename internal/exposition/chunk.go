package exposition

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"
)

// chunkSize is the maximum number of bytes of a body that are in memory at the same time. A longer
// line increases the size of the buffer.
const chunkSize = 64 << 10

// chunk contains the part of a body that is currently in memory.
type chunk struct {
	buf      []byte
	returned int // buf[:returned] contains the lines that the last call to fill returned.
	// tooLong is true if the last call to fill found a line longer than MaxLine. skipping is true
	// until the end of that line has been read.
	tooLong, skipping bool
}

var chunks sync.Pool

func newChunk() *chunk {
	if c, ok := chunks.Get().(*chunk); ok {
		return c
	}
	return &chunk{buf: make([]byte, 0, chunkSize)}
}

// release returns the chunk to the pool, unless a long line has increased the size of its buffer.
func (c *chunk) release() {
	if cap(c.buf) == chunkSize {
		*c = chunk{buf: c.buf[:0]}
		chunks.Put(c)
	}
}

// fill reads more data and returns the complete lines. The returned lines are valid until the next
// call to fill. At the end of the body, fill returns the last lines together with io.EOF.
func (c *chunk) fill(r io.Reader) (lines []byte, err error) {
	c.buf = append(c.buf[:0], c.buf[c.returned:]...)
	c.returned, c.tooLong = 0, false
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
		c.returned = len(c.buf)
		return c.buf, err
	}
	c.returned = before + bytes.LastIndexByte(c.buf[before:], '\n') + 1
	if c.returned == before { // the buffer contains no complete line yet
		c.returned = 0
		if len(c.buf) > MaxLine {
			c.tooLong, c.skipping = true, true
			c.buf = c.buf[:0]
		}
	}
	return c.buf[:c.returned], err
}
