package window

import (
	"encoding/binary"
	"iter"
	"math"
	"slices"
	"strings"
)

// Attrs is a list of attributes that is encoded as one string, so that it can be compared, stored,
// and used as a key without decoding. The empty string is a list without attributes.
type Attrs string

// AttrKind is the type of an attribute's value.
type AttrKind byte

// The kinds of attributes.
const (
	TextAttr   AttrKind = iota
	IntAttr             // A decimal integer.
	BoolAttr            // The text "true" or "false".
	OpaqueAttr          // Any other type, in an encoding that only the caller can decode.
)

// Attr is one attribute in Attrs. The fields of an Attr are substrings of the encoded string.
type Attr struct {
	Key     string
	Kind    AttrKind
	Value   string
	encoded Attrs
}

// AppendAttr encodes an attribute and appends it to the encoded attributes b.
func AppendAttr[V string | []byte](b []byte, key string, kind AttrKind, value V) []byte {
	return appendText(append(appendText(b, key), byte(kind)), value)
}

// appendText appends s in an encoding in which no encoded string is a prefix of another.
func appendText[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// All returns an iterator over the attributes. The iteration stops early if the encoding is
// damaged.
func (a Attrs) All() iter.Seq[Attr] {
	return func(yield func(Attr) bool) {
		for rest := a; rest != ""; {
			attr, after, ok := rest.cut()
			if !ok || !yield(attr) {
				return
			}
			rest = after
		}
	}
}

// The cut method returns the first attribute and the remaining attributes.
func (a Attrs) cut() (attr Attr, rest Attrs, ok bool) {
	if attr.Key, rest, ok = a.cutText(); !ok || rest == "" {
		return Attr{}, "", false
	}
	attr.Kind = AttrKind(rest[0])
	if attr.Value, rest, ok = rest[1:].cutText(); !ok {
		return Attr{}, "", false
	}
	attr.encoded = a[:len(a)-len(rest)]
	return attr, rest, true
}

func (a Attrs) cutText() (text string, rest Attrs, ok bool) {
	length := uint64(0)
	for i := 0; i < len(a) && i < binary.MaxVarintLen32; i++ {
		length |= uint64(a[i]&0x7f) << (7 * i)
		if a[i] < 0x80 {
			rest = a[i+1:]
			if length > uint64(len(rest)) {
				return "", "", false
			}
			return string(rest[:length]), rest[length:], true
		}
	}
	return "", "", false
}

// Len returns the number of attributes.
func (a Attrs) Len() (n int) {
	for range a.All() {
		n++
	}
	return n
}

// The find method returns the attribute with the given key.
func (a Attrs) find(key string) (Attr, bool) {
	for attr := range a.All() {
		if attr.Key == key {
			return attr, true
		}
	}
	return Attr{}, false
}

// The contains method reports whether the receiver has all attributes of b, with the same values.
func (a Attrs) contains(b Attrs) bool {
	if strings.HasPrefix(string(a), string(b)) {
		return true
	}
	for attr := range b.All() {
		if known, exists := a.find(attr.Key); !exists || known.encoded != attr.encoded {
			return false
		}
	}
	return true
}

// Sorted returns the attributes sorted by key.
func (a Attrs) Sorted() Attrs {
	return join(slices.SortedStableFunc(a.All(), func(a, b Attr) int { return strings.Compare(a.Key, b.Key) }))
}

// partition divides the attributes into those with the given keys (in) and all others (out).
func (a Attrs) partition(keys []string) (in, out Attrs) {
	var inside, outside []Attr
	for attr := range a.All() {
		if slices.Contains(keys, attr.Key) {
			inside = append(inside, attr)
		} else {
			outside = append(outside, attr)
		}
	}
	return join(inside), join(outside)
}

// join encodes attributes.
func join(list []Attr) Attrs {
	var text strings.Builder
	for i := range list {
		text.WriteString(string(list[i].encoded))
	}
	return Attrs(text.String())
}

// maxDescriptive is the maximum number of attributes that are stored for one device or Resource, so
// that keys that change constantly do not accumulate.
const maxDescriptive = 128

// details contains descriptive attributes and the time of the last sample that had them.
type details struct {
	Time  int64
	Attrs Attrs
}

// merge adds the attributes of a sample with the time t. If two samples have different values for
// an attribute, merge keeps the value from the sample with the later time. If both samples have the
// same time, merge keeps the value that arrived last. The result is true if all attributes of the
// sample were kept.
func (d *details) merge(attrs Attrs, t int64) (all bool) {
	all = true
	if !d.Attrs.contains(attrs) {
		list := slices.Collect(d.Attrs.All())
		for attr := range attrs.All() {
			at := slices.IndexFunc(list, func(known Attr) bool { return known.Key == attr.Key })
			switch {
			case at < 0 && len(list) < maxDescriptive:
				list = append(list, attr)
			case at >= 0 && t >= d.Time:
				list[at] = attr
			case at < 0 || list[at].encoded != attr.encoded:
				all = false
			}
		}
		d.Attrs = join(list)
	}
	d.Time = max(d.Time, t)
	return all
}

// Number is the value of a point, which is an integer or a double.
type Number struct {
	Bits    uint64
	Integer bool
}

// Int returns an integer Number.
func Int(v int64) Number { return Number{Bits: uint64(v), Integer: true} }

// Double returns a floating-point Number. The value NaN represents a point without a value.
func Double(v float64) Number { return Number{Bits: math.Float64bits(v)} }

// Float returns the value of an integer or a double as a float64.
func (n Number) Float() float64 {
	if n.Integer {
		return float64(int64(n.Bits))
	}
	return math.Float64frombits(n.Bits)
}
