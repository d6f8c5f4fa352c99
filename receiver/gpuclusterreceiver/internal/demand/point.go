package demand

import "github.com/otelcol-gpu/otelcol-gpu/internal/signal"

// Attribute keys that are not in the signal table.
const (
	// AttributePrefix is the prefix of the driver's attribute names.
	AttributePrefix = "dra.attribute."
	// DeviceTaint is the strongest effect of a device's taints.
	DeviceTaint = "dra.device.taint"
)

// Attribute is a key and a value.
type Attribute struct{ Key, Value string }

// Place is the cluster (the zero value), node, pod or container that a point describes.
// Unknown fields are empty.
type Place struct {
	Node                              string
	Namespace, Pod, PodUID, Container string
}

// Point is one value of a metric. Its attributes are shared with other points
// and must not be modified.
type Point struct {
	Metric *signal.Metric
	Place  Place
	// Attributes and More have distinct keys. More are the driver's attributes of the
	// device.
	Attributes, More []Attribute
	// Int is the value of an integer metric, Double the value of any other metric.
	Int    int64
	Double float64
}
