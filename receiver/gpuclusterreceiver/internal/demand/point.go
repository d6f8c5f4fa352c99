package demand

import "github.com/otelcol-gpu/otelcol-gpu/internal/signal"

// These constants are attribute keys that the signal table does not contain.
const (
	// AttributePrefix is the prefix for the keys of attributes that a DRA driver publishes.
	AttributePrefix = "dra.attribute."
	// DeviceTaint is the key of the attribute for the strongest effect of a device's taints.
	DeviceTaint = "dra.device.taint"
)

// Attribute is a key and a value.
type Attribute struct{ Key, Value string }

// Place is the object that a point describes: the cluster (the zero value), a node, a namespace, a
// pod, or a container. Unknown fields are empty.
type Place struct {
	Node                              string
	Namespace, Pod, PodUID, Container string
}

// Point is a value of a metric. The attributes of a point are shared with other points, so they
// must not be modified.
type Point struct {
	Metric *signal.Metric
	Place  Place
	// More contains the attributes that the driver publishes for the device. No key is in both
	// Attributes and More.
	Attributes, More []Attribute
	// Int is the value of an integer metric. Double is the value of any other metric.
	Int    int64
	Double float64
}
