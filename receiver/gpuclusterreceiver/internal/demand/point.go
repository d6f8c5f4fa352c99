package demand

import "github.com/otelcol-gpu/otelcol-gpu/internal/signal"

// Attribute keys that the contract leaves open.
const (
	// AttributePrefix precedes a driver's name for an attribute of a device.
	AttributePrefix = "dra.attribute."
	// DeviceTaint is the strongest effect of a device's taints.
	DeviceTaint = "dra.device.taint"
)

// Attribute is a key and a value.
type Attribute struct{ Key, Value string }

// Place is what a point is about beside its attributes: the cluster (the zero
// value), a node, a pod, or a container of one. Unknown fields are empty.
type Place struct {
	Node                              string
	Namespace, Pod, PodUID, Container string
}

// Point is one value of a metric. Its attributes are shared with other points
// and must not be changed.
type Point struct {
	Metric *signal.Metric
	Place  Place
	// Attributes and More have distinct keys. More are those that a driver gave
	// its device.
	Attributes, More []Attribute
	// Int is the value of an integer metric, Double of any other.
	Int    int64
	Double float64
}
