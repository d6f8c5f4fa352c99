package gpuwindowprocessor

import (
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/window"
)

// resourceKeyOf returns the key of a Resource. If a Resource describes a container that runs
// outside Kubernetes and has a name, the key does not include the container ID.
func resourceKeyOf(attrs pcommon.Map) window.ResourceKey {
	key := window.ResourceKey{Place: pdatagpu.PlaceOf(attrs), Holder: gpudata.Holder{
		Namespace: pdatagpu.Text(attrs, signal.K8sNamespaceName), Pod: pdatagpu.Text(attrs, signal.K8sPodName),
		UID: pdatagpu.Text(attrs, signal.K8sPodUID), Container: pdatagpu.Text(attrs, signal.K8sContainerName),
		Name: pdatagpu.Text(attrs, signal.ContainerName), Job: pdatagpu.Text(attrs, signal.HPCJobID),
	}}
	if key.Holder.Name == "" {
		key.Holder.ID = pdatagpu.Text(attrs, signal.ContainerID)
	}
	return key
}

// placedResource is a Resource together with its representations in the engine.
type placedResource struct {
	ofDevices window.PlacedResource
	// The others field contains the representation that is used for points without a device, and
	// for all points if the Resource has no key. The field is nil until it is needed.
	others *window.PlacedResource
	inUse  *window.PlacedResource // The representation that was last passed to the engine.
	// Device attributes that are on the Resource instead of on the points.
	device []rawAttr
}

// rawAttr is an attribute in a batch, before it is encoded.
type rawAttr struct {
	key   string
	value pcommon.Value
}

// set initializes the Resource with the given attributes and schema URL.
func (r *placedResource) set(attrs pcommon.Map, schemaURL string) {
	own := r.ofDevices.Attrs[:0]
	clear(r.device)
	*r = placedResource{device: r.device[:0]}
	_, ofDevice := attrs.Get(signal.HardwareID)
	for k, v := range attrs.All() {
		if role := signal.RoleOf(k); ofDevice && (role == signal.IdentifiesDevice || role == signal.DescribesDevice) {
			r.device = append(r.device, rawAttr{k, v})
		} else {
			own = appendAttr(own, k, v)
		}
	}
	r.ofDevices = window.PlacedResource{Key: resourceKeyOf(attrs), Attrs: own, SchemaURL: schemaURL}
}

// The use method sets the Resource of the following points. The device parameter is the device ID
// of the points, or empty.
func (r *placedResource) use(in *window.Ingest, device string) {
	to := &r.ofDevices
	if device == "" || to.Key == (window.ResourceKey{}) {
		if r.others == nil {
			key := to.Key
			key.All = window.Attrs(to.Attrs).Sorted()
			r.others = &window.PlacedResource{Key: key, Attrs: to.Attrs, SchemaURL: to.SchemaURL}
		}
		to = r.others
	}
	if r.inUse != to {
		in.SetResource(to)
		r.inUse = to
	}
}

// setPoint sets the device, the attributes, and the Resource of a point.
func (r *placedResource) setPoint(in *window.Ingest, p *window.Point, attrs pcommon.Map) {
	setAttributes(p, attrs, r.device)
	r.use(in, p.Device)
}

// setAttributes sets the device and the attributes of a point. The onResource parameter contains
// device attributes that are on the Resource. If an attribute is on both the point and the
// Resource, the value on the point is used.
func setAttributes(p *window.Point, attrs pcommon.Map, onResource []rawAttr) {
	p.Device, p.About, p.Own, p.Notes = "", p.About[:0], p.Own[:0], p.Notes[:0]
	if id, ok := attrs.Get(signal.HardwareID); ok {
		p.Device = id.Str()
	} else if len(onResource) > 0 {
		for _, a := range onResource {
			if a.key == signal.HardwareID {
				p.Device = a.value.Str()
			}
		}
	}
	for k, v := range attrs.All() {
		addAttribute(p, k, v)
	}
	for _, a := range onResource {
		if _, exists := attrs.Get(a.key); !exists {
			addAttribute(p, a.key, a.value)
		}
	}
}

func addAttribute(p *window.Point, key string, v pcommon.Value) {
	role := signal.DistinguishesSeries
	if p.Device != "" {
		role = signal.RoleOf(key)
	}
	switch role {
	case signal.IdentifiesDevice, signal.DescribesDevice:
		p.About = appendAttr(p.About, key, v)
	case signal.DescribesSample:
		p.Notes = appendAttr(p.Notes, key, v)
	case signal.DistinguishesSeries:
		p.Own = appendAttr(p.Own, key, v)
	}
}

// appendAttr encodes an attribute and appends it to the encoded attributes b.
func appendAttr(b []byte, key string, v pcommon.Value) []byte {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		return window.AppendAttr(b, key, window.TextAttr, v.Str())
	case pcommon.ValueTypeInt:
		var digits [20]byte
		return window.AppendAttr(b, key, window.IntAttr, strconv.AppendInt(digits[:0], v.Int(), 10))
	case pcommon.ValueTypeBool:
		return window.AppendAttr(b, key, window.BoolAttr, strconv.FormatBool(v.Bool()))
	default:
		return window.AppendAttr(b, key, window.OpaqueAttr, encodeOpaque(v))
	}
}

func appendAttrs(b []byte, attrs pcommon.Map) []byte {
	for k, v := range attrs.All() {
		b = appendAttr(b, k, v)
	}
	return b
}

// putAttrs decodes attributes and adds them to m.
func putAttrs(m pcommon.Map, attrs window.Attrs) {
	for a := range attrs.All() {
		switch a.Kind {
		case window.TextAttr:
			m.PutStr(a.Key, a.Value)
		case window.IntAttr:
			// Parsing cannot fail, because the value is always a decimal integer.
			n, _ := strconv.ParseInt(a.Value, 10, 64)
			m.PutInt(a.Key, n)
		case window.BoolAttr:
			m.PutBool(a.Key, a.Value == "true")
		case window.OpaqueAttr:
			decodeOpaque(a.Value, m.PutEmpty(a.Key))
		}
	}
}

// encodeOpaque encodes a value as OTLP. This encoding is used for types that are rare in
// attributes, such as maps, lists, and doubles. The value is encoded as an attribute of a Resource,
// because pdata cannot encode a single value.
func encodeOpaque(v pcommon.Value) string {
	md := pmetric.NewMetrics()
	v.CopyTo(md.ResourceMetrics().AppendEmpty().Resource().Attributes().PutEmpty(""))
	// Encoding pdata cannot fail.
	b, _ := (&pmetric.ProtoMarshaler{}).MarshalMetrics(md)
	return string(b)
}

func decodeOpaque(s string, to pcommon.Value) {
	md, err := (&pmetric.ProtoUnmarshaler{}).UnmarshalMetrics([]byte(s))
	if err != nil || md.ResourceMetrics().Len() == 0 {
		return
	}
	if v, ok := md.ResourceMetrics().At(0).Resource().Attributes().Get(""); ok {
		v.CopyTo(to)
	}
}
