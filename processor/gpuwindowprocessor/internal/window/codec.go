package window

import (
	"encoding/binary"
	"errors"
	"unique"
)

// writer appends values to a snapshot.
type writer struct{ b []byte }

func (w *writer) uint(v uint64)   { w.b = binary.AppendUvarint(w.b, v) }
func (w *writer) int(v int64)     { w.b = binary.AppendVarint(w.b, v) }
func (w *writer) fixed(v uint64)  { w.b = binary.LittleEndian.AppendUint64(w.b, v) }
func (w *writer) byte(v byte)     { w.b = append(w.b, v) }
func (w *writer) string(s string) { w.uint(uint64(len(s))); w.b = append(w.b, s...) }

func (w *writer) bool(v bool) {
	if v {
		w.byte(1)
	} else {
		w.byte(0)
	}
}

func (w *writer) attrs(attrs []Attr) {
	w.uint(uint64(len(attrs)))
	for i := range attrs {
		w.b = appendAttr(w.b, &attrs[i])
	}
}

// errTruncated says that a snapshot holds less, or other things, than it claims.
var errTruncated = errors.New("snapshot is truncated or inconsistent")

// reader takes values from a snapshot. After the first error it returns zeros,
// so that callers need to look at err only where they would loop.
type reader struct {
	b   []byte
	err error
	// keys are attribute keys that were read before: most repeat.
	keys map[string]string
}

func (r *reader) fail() {
	r.err = errTruncated
	r.b = nil
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) fixed() uint64 {
	b := r.take(8)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

func (r *reader) byte() byte {
	b := r.take(1)
	if b == nil {
		return 0
	}
	return b[0]
}

func (r *reader) bool() bool {
	v := r.byte()
	if v > 1 {
		r.fail()
	}
	return v == 1
}

func (r *reader) string() string { return string(r.take(r.uint())) }

// count reads a number of things that take at least size bytes each, so that a
// short input cannot ask for much memory.
func (r *reader) count(size int) int {
	n := r.uint()
	if n > uint64(len(r.b)/size) {
		r.fail()
		return 0
	}
	return int(n)
}

// index reads an index below n.
func (r *reader) index(n int) uint32 {
	v := r.uint()
	if v >= uint64(n) {
		r.fail()
		return 0
	}
	return uint32(v)
}

func (r *reader) attrs() []Attr {
	n := r.count(3)
	if n == 0 {
		return nil
	}
	attrs := make([]Attr, 0, n)
	for range n {
		key := r.take(r.uint())
		k, ok := r.keys[string(key)]
		if !ok {
			k = unique.Make(string(key)).Value()
			r.keys[k] = k
		}
		v := Value{Kind: ValueKind(r.byte())}
		switch {
		case v.Kind >= valueKinds:
			r.fail()
		case v.Kind == IntValue || v.Kind == DoubleValue || v.Kind == BoolValue:
			v.Num = r.fixed()
		default:
			v.Str = r.string()
		}
		if r.err != nil {
			return nil
		}
		attrs = append(attrs, Attr{Key: k, Value: v})
	}
	return attrs
}
