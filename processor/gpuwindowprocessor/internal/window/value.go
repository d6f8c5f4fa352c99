package window

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"
	"unique"
)

// ValueKind tells how a Value is to be read.
type ValueKind uint8

const (
	// StringValue is text in Str.
	StringValue ValueKind = iota
	// IntValue is an int64 in Num.
	IntValue
	// DoubleValue is the bits of a float64 in Num.
	DoubleValue
	// BoolValue is 0 or 1 in Num.
	BoolValue
	// BytesValue is raw bytes in Str.
	BytesValue
	// OpaqueValue is anything else, in an encoding in Str that only the caller
	// can read.
	OpaqueValue
	valueKinds
)

// Value is an attribute value. Two values are the same when they are ==.
type Value struct {
	Kind ValueKind
	Num  uint64
	Str  string
}

// String returns a Value that holds text.
func String(s string) Value { return Value{Kind: StringValue, Str: s} }

// text returns how a rule's filter sees the value: strings as they are,
// integers and booleans as they are written. Other kinds match no filter.
func (v Value) text() (string, bool) {
	switch v.Kind {
	case StringValue:
		return v.Str, true
	case IntValue:
		return strconv.FormatInt(int64(v.Num), 10), true
	case BoolValue:
		return strconv.FormatBool(v.Num != 0), true
	default:
		return "", false
	}
}

// Attr is one attribute of a Resource, scope or point.
type Attr struct {
	Key   string
	Value Value
}

// appendAttr appends an encoding of a to b that no other attribute shares.
func appendAttr(b []byte, a *Attr) []byte {
	b = binary.AppendUvarint(b, uint64(len(a.Key)))
	b = append(b, a.Key...)
	return appendValue(b, a.Value)
}

// appendValue appends an encoding of v to b that no other value shares.
func appendValue(b []byte, v Value) []byte {
	b = append(b, byte(v.Kind))
	switch v.Kind {
	case IntValue, DoubleValue, BoolValue:
		return binary.LittleEndian.AppendUint64(b, v.Num)
	default:
		b = binary.AppendUvarint(b, uint64(len(v.Str)))
		return append(b, v.Str...)
	}
}

// appendSet appends the encoding of the attributes in the order of their keys,
// and sorts attrs in place for that.
func appendSet(b []byte, attrs []Attr) []byte {
	sortAttrs(attrs)
	for i := range attrs {
		b = appendAttr(b, &attrs[i])
	}
	return b
}

// sortAttrs orders attributes by key. The sets are short and mostly sorted.
func sortAttrs(attrs []Attr) {
	for i := 1; i < len(attrs); i++ {
		for j := i; j > 0 && attrs[j].Key < attrs[j-1].Key; j-- {
			attrs[j], attrs[j-1] = attrs[j-1], attrs[j]
		}
	}
}

// find returns the value of key.
func find(attrs []Attr, key string) (Value, bool) {
	for i := range attrs {
		if attrs[i].Key == key {
			return attrs[i].Value, true
		}
	}
	return Value{}, false
}

// cloneAttrs returns a copy whose strings share no memory with the caller's:
// callers hand in parts of whole messages, which must not be kept alive.
func cloneAttrs(attrs []Attr) []Attr {
	if len(attrs) == 0 {
		return nil
	}
	out := slices.Clone(attrs)
	for i := range out {
		out[i] = cloneAttr(out[i])
	}
	return out
}

// cloneAttr copies one attribute. Keys are interned: they repeat on everything.
func cloneAttr(a Attr) Attr {
	a.Key = unique.Make(a.Key).Value()
	a.Value.Str = strings.Clone(a.Value.Str)
	return a
}

// Number is a point's value: an integer or a double.
type Number struct {
	bits    uint64
	integer bool
}

// Int returns an integer Number.
func Int(v int64) Number { return Number{bits: uint64(v), integer: true} }

// Double returns a floating point Number.
func Double(v float64) Number { return Number{bits: math.Float64bits(v)} }

// IsInt reports whether n is an integer.
func (n Number) IsInt() bool { return n.integer }

// Int returns the value of an integer Number.
func (n Number) Int() int64 { return int64(n.bits) }

// Float returns the value as a float64, whatever n holds.
func (n Number) Float() float64 {
	if n.integer {
		return float64(int64(n.bits))
	}
	return math.Float64frombits(n.bits)
}

// finite reports whether n is neither NaN nor an infinity.
func (n Number) finite() bool {
	f := n.Float()
	return !math.IsNaN(f) && !math.IsInf(f, 0)
}
