package exposition

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"
)

// chunkSize is how much of a body is in memory at once, in bytes, where its lines are shorter.
const chunkSize = 64 << 10

// chunk is the part of a body that is in memory.
type chunk struct {
	buf   []byte
	given int // buf[:given] are the lines that fill returned last
	// tooLong says that a line longer than MaxLine came before the lines returned last; skipping
	// says that its end has not come yet.
	tooLong, skipping bool
}

var chunks sync.Pool

func newChunk() *chunk {
	if c, ok := chunks.Get().(*chunk); ok {
		return c
	}
	return &chunk{buf: make([]byte, 0, chunkSize)}
}

// release gives the memory back, unless a long line has made it large.
func (c *chunk) release() {
	if cap(c.buf) == chunkSize {
		*c = chunk{buf: c.buf[:0]}
		chunks.Put(c)
	}
}

// fill reads on and returns the lines that are complete now, which may be none. They are valid
// until the next fill. With io.EOF come the last ones.
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
	if c.given == before { // no line has ended
		c.given = 0
		if len(c.buf) > MaxLine {
			c.tooLong, c.skipping = true, true
			c.buf = c.buf[:0]
		}
	}
	return c.buf[:c.given], err
}
