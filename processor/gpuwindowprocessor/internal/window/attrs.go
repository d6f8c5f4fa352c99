package window

import (
	"encoding/binary"
	"iter"
	"math"
	"slices"
	"strings"
)

// Attrs are attributes encoded as one string, so that they can be compared, stored, and used as a
// key without decoding. The empty string contains no attributes.
type Attrs string

// AttrKind is the type of an attribute's value.
type AttrKind byte

// The kinds of attributes.
const (
	TextAttr   AttrKind = iota
	IntAttr             // a decimal integer
	BoolAttr            // true or false
	OpaqueAttr          // any other type, in an encoding that only the caller decodes
)

// Attr is one attribute of Attrs. Its fields are substrings of the encoded string.
type Attr struct {
	Key     string
	Kind    AttrKind
	Value   string
	encoded Attrs
}

// AppendAttr appends an attribute to encoded attributes.
func AppendAttr[V string | []byte](b []byte, key string, kind AttrKind, value V) []byte {
	return appendText(append(appendText(b, key), byte(kind)), value)
}

// appendText appends an encoding of s that is not a prefix of any other encoding.
func appendText[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// All iterates over the attributes. It stops early if the encoding is damaged.
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

// cut returns the first attribute and the remaining attributes.
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

// find returns the attribute with a key.
func (a Attrs) find(key string) (Attr, bool) {
	for attr := range a.All() {
		if attr.Key == key {
			return attr, true
		}
	}
	return Attr{}, false
}

// contains reports whether a contains all attributes of b with the same values.
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

// Sorted returns the attributes in the order of their keys.
func (a Attrs) Sorted() Attrs {
	return join(slices.SortedStableFunc(a.All(), func(a, b Attr) int { return strings.Compare(a.Key, b.Key) }))
}

// partition returns the attributes with these keys, and all other attributes.
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

// maxDescriptive limits the attributes that are stored for one device or Resource, so that keys
// that change constantly do not accumulate.
const maxDescriptive = 128

// details are descriptive attributes and the time of their last sample.
type details struct {
	Time  int64
	Attrs Attrs
}

// merge adds the attributes of a sample at time t. If an attribute has two values, the value of the
// later sample is used. If both samples have the same time, the value that arrived later is used.
// all is true if all attributes of the sample are used.
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

// Number is the value of a point: an integer or a double.
type Number struct {
	Bits    uint64
	Integer bool
}

// Int returns an integer Number.
func Int(v int64) Number { return Number{Bits: uint64(v), Integer: true} }

// Double returns a floating-point Number. NaN means a point without a value.
func Double(v float64) Number { return Number{Bits: math.Float64bits(v)} }

// Float returns the value as a float64, for integers and doubles.
func (n Number) Float() float64 {
	if n.Integer {
		return float64(int64(n.Bits))
	}
	return math.Float64frombits(n.Bits)
}
