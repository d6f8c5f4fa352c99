package store

import "strconv"

// Time is in Unix nanoseconds. In JSON it is in seconds.
type Time int64

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(t)/1e9, 'f', -1, 64), nil
}

// Numbers is an array of numbers in which NaN means absent. In JSON absent is null.
type Numbers []float32

// MarshalJSON writes six significant digits, which is enough for readers.
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

// Name identifies a field or gauge: a metric and the value of its own attribute.
type Name struct {
	Metric string `json:"metric"`
	Value  string `json:"value,omitempty"`
}

// The names of the fields and gauges.
var (
	FieldNames = names(fields)    // by Field
	GaugeNames = names(gauges[:]) // by Gauge
)

func names(sources []fieldSource) []Name {
	out := make([]Name, len(sources))
	for i, s := range sources {
		out[i] = Name{s.metric.Name, s.value}
	}
	return out
}
