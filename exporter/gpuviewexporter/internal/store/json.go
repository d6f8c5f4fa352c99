package store

import "strconv"

// Time is a time in Unix nanoseconds. The JSON encoding of a Time is in seconds.
type Time int64

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(t)/1e9, 'f', -1, 64), nil
}

// Numbers is a list of numbers. NaN stands for an absent number and is encoded in JSON as null.
type Numbers []float32

// MarshalJSON writes each number with six significant digits, which is precise enough for display.
func (n Numbers) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, 2+8*len(n))
	out = append(out, '[')
	for i, v := range n {
		if i > 0 {
			out = append(out, ',')
		}
		switch {
		case v != v:
			out = append(out, "null"...)
		case v == 0:
			out = append(out, '0')
		default:
			out = strconv.AppendFloat(out, float64(v), 'g', 6, 64)
		}
	}
	return append(out, ']'), nil
}

// Name identifies a field or a gauge by the name of a metric and the value of the metric's own
// attribute.
type Name struct {
	Metric string `json:"metric"`
	Value  string `json:"value,omitempty"`
}

// FieldNames and GaugeNames are the names of all fields and gauges.
var (
	FieldNames = names(fields)    // Indexed by Field.
	GaugeNames = names(gauges[:]) // Indexed by Gauge.
)

func names(sources []fieldSource) []Name {
	out := make([]Name, len(sources))
	for i, s := range sources {
		out[i] = Name{s.metric.Name, s.value}
	}
	return out
}
