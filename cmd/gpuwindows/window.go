package main

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// window is what one window says about one device. A value that was not
// observed is NaN.
type window struct {
	start  time.Time // zero when the window does not say it
	end    time.Time
	node   string
	device string   // nvidia0, nvidia0/gi7
	holder []string // namespace/pod/container of each holder, sorted

	utilization                          float64 // ratio
	memoryAvg, memoryMax, memoryPressure float64 // ratios
	throttlePower, throttleThermal       float64 // ratios of the observed time
	reasonName                           string  // the reason with the highest ratio
	reasonRatio                          float64
	sm, dram                             float64 // ratios
	pcieTransmit, pcieReceive            float64 // bytes per second
	xids                                 float64
	coverage                             float64 // ratio
}

// windowKey tells the lines of one request apart.
type windowKey struct {
	place  place
	device string // hw.id
	end    pcommon.Timestamp
}

// place is what a Resource says about where a point belongs.
type place struct {
	node, namespace, pod, container string
}

func placeOf(resource pcommon.Resource) place {
	text := func(key string) string {
		v, ok := resource.Attributes().Get(key)
		if !ok {
			return ""
		}
		return v.AsString()
	}
	node := text(signal.K8sNodeName)
	if node == "" {
		node = text(signal.HostName)
	}
	return place{node, text(signal.K8sNamespaceName), text(signal.K8sPodName), text(signal.K8sContainerName)}
}

// holder returns namespace/pod/container.
func (p place) holder() string {
	parts := []string{p.namespace, p.pod, p.container}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "/")
}

// holding is a container on a device.
type holding struct {
	node, device, holder string
}

// scrape is how the last attempt to read an exporter ended.
type scrape struct {
	at    time.Time
	url   string // without credentials
	works bool
}

// request is what one line of input says that a person wants to see.
type request struct {
	windows []*window // ordered by time, node and device
	scrapes []scrape  // ordered by time
}

// reader turns OTLP/JSON requests into windows. It remembers the holders of
// the devices, which may arrive in another request than the windows.
type reader struct {
	json    pmetric.JSONUnmarshaler
	holders map[holding]time.Time
}

// read returns the windows and the outcomes of scrapes in one request.
func (r *reader) read(line []byte) (request, error) {
	metrics, err := r.json.UnmarshalMetrics(line)
	if err != nil {
		return request{}, err
	}
	var scrapes []scrape
	windows := map[windowKey]*window{}
	r.eachPoint(metrics, func(where place, metric string, point pmetric.NumberDataPoint) {
		if metric == signal.GPUExporterUp.Name {
			scrapes = append(scrapes, scrape{point.Timestamp().AsTime(), attribute(point, signal.URLFull), value(point) != 0})
			return
		}
		r.observe(windows, where, metric, point)
	})
	slices.SortStableFunc(scrapes, func(a, b scrape) int { return a.at.Compare(b.at) })
	ordered := make([]*window, 0, len(windows))
	for key, w := range windows {
		w.holder = r.holdersOf(key, w)
		ordered = append(ordered, w)
	}
	slices.SortFunc(ordered, compare)
	r.forgetHolders(ordered)
	return request{ordered, scrapes}, nil
}

// eachPoint visits the observed gauge points: windows, holders and scrapes are gauges.
func (*reader) eachPoint(metrics pmetric.Metrics, visit func(place, string, pmetric.NumberDataPoint)) {
	for _, resource := range metrics.ResourceMetrics().All() {
		where := placeOf(resource.Resource())
		for _, scope := range resource.ScopeMetrics().All() {
			for _, metric := range scope.Metrics().All() {
				if metric.Type() != pmetric.MetricTypeGauge {
					continue
				}
				for _, point := range metric.Gauge().DataPoints().All() {
					if !point.Flags().NoRecordedValue() && point.ValueType() != pmetric.NumberDataPointValueTypeEmpty {
						visit(where, metric.Name(), point)
					}
				}
			}
		}
	}
}

// observe files one point under its window, or remembers the holder it names.
func (r *reader) observe(windows map[windowKey]*window, where place, metric string, point pmetric.NumberDataPoint) {
	id := attribute(point, signal.HardwareID)
	if metric == signal.GPUDeviceHolder.Name {
		if r.holders == nil {
			r.holders = map[holding]time.Time{}
		}
		r.holders[holding{where.node, id, where.holder()}] = point.Timestamp().AsTime()
		return
	}
	// The series of a holder repeat its device's, whose line names it.
	if m, ok := signal.Lookup(metric); !ok || m.Stage != signal.StageWindow || where.pod != "" {
		return
	}
	key := windowKey{where, id, point.Timestamp()}
	w := windows[key]
	if w == nil {
		w = newWindow(where.node, deviceName(point), point.Timestamp().AsTime())
		if point.StartTimestamp() != 0 {
			w.start = point.StartTimestamp().AsTime()
		}
		windows[key] = w
	}
	w.set(metric, point)
}

// holdersOf returns every container that was named since the window before this
// one began: the name may come in another request than the window that it belongs
// to.
func (r *reader) holdersOf(key windowKey, w *window) []string {
	since := w.end.Add(-holderMemory)
	if !w.start.IsZero() {
		since = w.start.Add(-w.end.Sub(w.start))
	}
	var holders []string
	for h, seen := range r.holders {
		if h.node == key.place.node && h.device == key.device && seen.After(since) {
			holders = append(holders, h.holder)
		}
	}
	slices.Sort(holders)
	return holders
}

// holderMemory outlasts the longest window that anybody watches line by line.
const holderMemory = 10 * time.Minute

// forgetHolders bounds the memory of a reader that runs for days.
func (r *reader) forgetHolders(ordered []*window) {
	if len(ordered) == 0 {
		return
	}
	oldest := ordered[len(ordered)-1].end.Add(-holderMemory)
	maps.DeleteFunc(r.holders, func(_ holding, seen time.Time) bool { return seen.Before(oldest) })
}

func newWindow(node, device string, end time.Time) *window {
	nan := math.NaN()
	return &window{
		end: end, node: node, device: device,
		utilization: nan,
		memoryAvg:   nan, memoryMax: nan, memoryPressure: nan,
		throttlePower: nan, throttleThermal: nan, reasonRatio: nan,
		sm: nan, dram: nan, pcieTransmit: nan, pcieReceive: nan,
		xids: nan, coverage: nan,
	}
}

// set stores the value of one of the signals that a line shows.
func (w *window) set(metric string, point pmetric.NumberDataPoint) {
	v := value(point)
	switch metric {
	case signal.UtilizationAvg.Name:
		w.utilization = v
	case signal.MemoryUtilizationAvg.Name:
		w.memoryAvg = v
	case signal.MemoryUtilizationMax.Name:
		w.memoryMax = v
	case signal.MemoryPressureRatio.Name:
		w.memoryPressure = v
	case signal.ThrottleViolationRatio.Name:
		switch attribute(point, signal.ClockViolation) {
		case "power":
			w.throttlePower = v
		case "thermal":
			w.throttleThermal = v
		}
	case signal.ThrottleReasonRatio.Name:
		// Equal shares are told apart by name, so that a line does not depend
		// on the order of the points.
		name := attribute(point, signal.ClockEventReason)
		if math.IsNaN(w.reasonRatio) || v > w.reasonRatio || (v == w.reasonRatio && name < w.reasonName) {
			w.reasonName, w.reasonRatio = name, v
		}
	case signal.SMActiveAvg.Name:
		w.sm = v
	case signal.DRAMActiveAvg.Name:
		w.dram = v
	case signal.PCIeThroughputAvg.Name:
		if attribute(point, signal.IODirection) == signal.DirectionTransmit {
			w.pcieTransmit = v
		} else {
			w.pcieReceive = v
		}
	case signal.XIDErrors.Name:
		w.xids = v
	case signal.WindowCoverage.Name:
		w.coverage = v
	}
}

func value(point pmetric.NumberDataPoint) float64 {
	if point.ValueType() == pmetric.NumberDataPointValueTypeInt {
		return float64(point.IntValue())
	}
	return point.DoubleValue()
}

func attribute(point pmetric.NumberDataPoint, key string) string {
	v, ok := point.Attributes().Get(key)
	if !ok {
		return ""
	}
	return v.AsString()
}

// deviceName is short enough for a column: the system's name with the MIG
// instance, or the id of a device without a name.
func deviceName(point pmetric.NumberDataPoint) string {
	name := attribute(point, signal.HardwareName)
	if name == "" {
		return attribute(point, signal.HardwareID)
	}
	if instance := attribute(point, signal.MIGInstanceID); instance != "" {
		return dcgm.InstanceID(name, instance)
	}
	return name
}

// compare orders windows by time, node and device; numbers within names count as
// numbers, so that nvidia2 precedes nvidia10.
func compare(a, b *window) int {
	if c := a.end.Compare(b.end); c != 0 {
		return c
	}
	if c := compareNatural(a.node, b.node); c != 0 {
		return c
	}
	return compareNatural(a.device, b.device)
}

// compareNatural compares runs of digits by their value, all else by bytes.
func compareNatural(a, b string) int {
	for a != "" && b != "" {
		na, nb := digits(a), digits(b)
		if na == 0 || nb == 0 {
			if a[0] != b[0] {
				return int(a[0]) - int(b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		// Without leading zeros the longer number is the larger one.
		va, vb := strings.TrimLeft(a[:na], "0"), strings.TrimLeft(b[:nb], "0")
		if len(va) != len(vb) {
			return len(va) - len(vb)
		}
		if c := strings.Compare(va, vb); c != 0 {
			return c
		}
		a, b = a[na:], b[nb:]
	}
	return len(a) - len(b)
}

// digits returns the length of the run of digits that s starts with.
func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
