package demand

import "github.com/otelcol-gpu/otelcol-gpu/internal/signal"

// These are the attribute keys that are not in the signal table.
const (
	// AttributePrefix is the prefix of attributes that a driver publishes.
	AttributePrefix = "dra.attribute."
	// DeviceTaint is the key for the strongest effect of a device's taints.
	DeviceTaint = "dra.device.taint"
)

// Attribute is a key and a value.
type Attribute struct{ Key, Value string }

// Place is the object that a point describes: the cluster (the zero value), a node, a pod or a
// container. Unknown fields are empty.
type Place struct {
	Node                              string
	Namespace, Pod, PodUID, Container string
}

// Point is a value of a metric. Its attributes are shared with other points and must not be
// modified.
type Point struct {
	Metric *signal.Metric
	Place  Place
	// Attributes and More have distinct keys. More contains the attributes that the driver
	// publishes for the device.
	Attributes, More []Attribute
	// Int is the value of an integer metric. Double is the value of any other metric.
	Int    int64
	Double float64
}
