package window

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"
	"unique"
)

// ValueKind is the type of a Value.
type ValueKind uint8

// The kinds of values.
const (
	StringValue ValueKind = iota // text in Str
	IntValue                     // an int64 in Num
	BoolValue                    // 0 or 1 in Num
	OpaqueValue                  // anything else, in Str, in an encoding that the caller can read
)

// Value is an attribute value. Values can be compared with ==.
type Value struct {
	Kind ValueKind
	Num  uint64
	Str  string
}

// String returns a Value with a text.
func String(s string) Value { return Value{Kind: StringValue, Str: s} }

// text returns the text that the filter of a rule compares. Opaque values match no filter.
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

// clone returns a copy that shares no memory with the caller's attribute. Callers pass parts of
// entire messages, which must not be kept in memory. Keys are shared, because they repeat.
func (a Attr) clone() Attr {
	a.Key = unique.Make(a.Key).Value()
	a.Value.Str = strings.Clone(a.Value.Str)
	return a
}

func cloneAttrs(attrs []Attr) []Attr {
	out := make([]Attr, len(attrs))
	for i := range attrs {
		out[i] = attrs[i].clone()
	}
	return out
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

func sortAttrs(attrs []Attr) {
	slices.SortStableFunc(attrs, func(a, b Attr) int { return strings.Compare(a.Key, b.Key) })
}

// appendString appends an encoding of s to b that is not a prefix of any other encoding.
func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendValue appends an encoding of v to b that is not a prefix of any other encoding.
func appendValue(b []byte, v Value) []byte {
	return appendString(binary.AppendUvarint(append(b, byte(v.Kind)), v.Num), v.Str)
}

func appendAttrs(b []byte, attrs []Attr) []byte {
	for i := range attrs {
		b = appendValue(appendString(b, attrs[i].Key), attrs[i].Value)
	}
	return b
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
