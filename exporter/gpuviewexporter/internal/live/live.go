// Package live converts the store into messages for the page: a snapshot with the newest
// window and the curves of each device, and patches with later changes.
package live

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/store"
	base "github.com/otelcol-gpu/otelcol-gpu/internal/component"
	"github.com/otelcol-gpu/otelcol-gpu/internal/diagnose"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// curvePoints is the maximum number of points of a curve.
const curvePoints = 60

// Snapshot has everything that the page shows. As a patch it has the changes since the last one.
type Snapshot struct {
	// Sequence is the number of the last patch that the snapshot contains. Applying
	// that patch again does no harm.
	Sequence uint64 `json:"seq"`
	// Now, Newest, Window, Retention and Slot are in seconds: the time of the
	// response, the end and the length of the newest window, how long windows are kept,
	// and the time span of one point of a curve.
	Now       float64 `json:"now"`
	Newest    float64 `json:"newest"`
	Window    float64 `json:"window"`
	Retention float64 `json:"retention"`
	Slot      float64 `json:"slot"`
	// Points is the length of a curve, Kept the number of its last points that lie within the stored time.
	Points int `json:"points"`
	Kept   int `json:"kept"`
	// Fields, Gauges and HolderGauges are the names of the numbers of a device's window, of a
	// device and of a holder, by position. They are absent in patches.
	Fields       []store.Name `json:"fields,omitempty"`
	Gauges       []store.Name `json:"gauges,omitempty"`
	HolderGauges []store.Name `json:"holderGauges,omitempty"`
	// Signals and Reasons describe the verdicts. They are absent in patches.
	Signals []Signal `json:"signals,omitempty"`
	Reasons []Reason `json:"reasons,omitempty"`
	// Verdicts are the distinct verdict strings of the devices, with one character per signal:
	// a dash if unknown, a plus if the signal is available, or the letter of the reason's
	// position in Reasons.
	Verdicts []string `json:"verdicts,omitempty"`
	// XIDs describe the codes that the devices counted.
	XIDs    []XIDText              `json:"xids,omitempty"`
	Devices []Device               `json:"devices"`
	Demand  []store.ResourceDemand `json:"demand"`
	// Exporters are the exporters that do not answer. Limits are the limits that refuse
	// items, in gpu_view and in other components of the process.
	Exporters Exporters     `json:"exporters"`
	Limits    []store.Limit `json:"limits"`
	// More is true if more parts follow.
	More bool `json:"more,omitempty"`
}

// maxDevicesPerPart is the maximum number of devices in a part. A browser parses that many in one or two milliseconds.
const maxDevicesPerPart = 100

// part is a later part of a snapshot or a patch.
type part struct {
	Sequence uint64   `json:"seq"`
	Devices  []Device `json:"devices"`
	More     bool     `json:"more,omitempty"`
}

// Parts encodes a snapshot or a patch as several JSON texts with a few devices each, so that the
// page can do other work in between. The first part has all other fields.
func (s *Snapshot) Parts() [][]byte {
	marshal := func(v any) []byte {
		text, _ := json.Marshal(v) // these types cannot fail
		return text
	}
	first, rest := *s, s.Devices
	first.Devices = rest[:min(len(rest), maxDevicesPerPart)]
	rest = rest[len(first.Devices):]
	first.More = len(rest) > 0
	out := [][]byte{marshal(first)}
	for devices := range slices.Chunk(rest, maxDevicesPerPart) {
		rest = rest[len(devices):]
		out = append(out, marshal(part{s.Sequence, devices, len(rest) > 0}))
	}
	return out
}

// Exporters has the number of known exporters and those with a problem.
type Exporters struct {
	// Known is the number of exporters with a recent result. Heard is when the last result arrived,
	// in Unix seconds, or 0 if none did.
	Known int     `json:"known"`
	Heard float64 `json:"heard"`
	// Down are the exporters that do not answer. Silent are those without recent results, so it is
	// unknown whether they answer.
	Down   []Exporter `json:"down"`
	Silent []Exporter `json:"silent"`
}

// Exporter is an exporter that does not answer or is silent.
type Exporter struct {
	Cluster string `json:"cluster,omitempty"`
	Node    string `json:"node,omitempty"`
	URL     string `json:"url"`
	// Since is the time of the first failed scrape, or when the last result of a silent exporter
	// arrived, in Unix seconds.
	Since float64 `json:"since"`
	// Beside is true if another exporter of the same place answers.
	Beside bool `json:"beside,omitempty"`
}

// XIDText is the meaning of an XID code and the recommended action.
type XIDText struct {
	Code    int    `json:"code"`
	Meaning string `json:"meaning"`
	Action  string `json:"action"`
	// Advice is the action and its conditions.
	Advice string `json:"advice"`
}

// Signal is a signal that has verdicts.
type Signal struct {
	// Name is the metric, with the value of its own attribute in braces. Metric and
	// Part are its two parts.
	Name   string `json:"name"`
	Metric string `json:"metric"`
	Part   string `json:"part,omitempty"`
	// Feeds are the windowed metrics that are computed from the signal. Fields are the exporter
	// fields that the signal needs.
	Feeds  []string `json:"feeds,omitempty"`
	Fields []string `json:"fields,omitempty"`
}

// Reason is why a signal is missing.
type Reason struct {
	Code string `json:"code,omitempty"`
	Text string `json:"text"`
	// Lasting reasons are hardware limits that no setting changes.
	Lasting bool `json:"lasting,omitempty"`
}

// Device is one row of the page.
type Device struct {
	Number  uint64 `json:"n"`
	ID      string `json:"id"`
	Parent  string `json:"parent,omitempty"`
	Name    string `json:"name,omitempty"`
	Model   string `json:"model,omitempty"`
	Cluster string `json:"cluster,omitempty"`
	Node    string `json:"node,omitempty"`
	Profile string `json:"profile,omitempty"`
	// Vendor is the manufacturer.
	Vendor string `json:"vendor,omitempty"`
	// End and Length are those of the device's newest window in seconds, or 0 if
	// it has none. Values are the values of that window.
	End    float64       `json:"end"`
	Length float64       `json:"len"`
	Values store.Numbers `json:"v"`
	Gauges store.Numbers `json:"g"`
	// Seen is the time of the newest point. Due is the time after which the device is
	// lost unless a new point arrives. Both are in Unix seconds.
	Seen float64 `json:"seen"`
	Due  float64 `json:"due"`
	// Throttle is absent if nothing was observed. XIDs are sorted by urgency.
	Throttle *store.Throttle `json:"throttle,omitempty"`
	XIDs     []store.XID     `json:"xids,omitempty"`
	// Curves are the utilization, memory occupancy and throttling, with one character per
	// point, oldest first. They are empty in patches.
	Curves  []string `json:"curves,omitempty"`
	Holders []Holder `json:"holders,omitempty"`
	// Verdict is the position of the device's verdict string in Verdicts, counted from 1,
	// or 0 if there is none.
	Verdict int `json:"verdict,omitempty"`
}

// Holder is a container that holds the device.
type Holder struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	Sharing   string `json:"sharing,omitempty"`
	Claim     string `json:"claim,omitempty"`
	Class     string `json:"class,omitempty"`
	// Kind and Workload identify the owner of the pod.
	Kind     string        `json:"kind,omitempty"`
	Workload string        `json:"workload,omitempty"`
	Gauges   store.Numbers `json:"g"`
}

// verdictLetters has the character of each verdict. The letters stand for reasons.
const verdictLetters = "-+abcdefghijklmnopqrstuvwxyz"

// verdict returns the position of a device's verdict string among the distinct ones,
// counted from 1, or 0 if there is none.
func (s *Snapshot) verdict(known map[string]int, verdicts []store.Verdict) int {
	if verdicts == nil {
		return 0
	}
	text := make([]byte, len(verdicts))
	for i, v := range verdicts {
		text[i] = verdictLetters[v]
	}
	at, ok := known[string(text)]
	if !ok {
		s.Verdicts = append(s.Verdicts, string(text))
		at = len(s.Verdicts)
		known[string(text)] = at
	}
	return at
}

// Snap returns the full state. sequence is the number of the last patch.
func Snap(s *store.Store, now time.Time, sequence uint64) *Snapshot {
	var out *Snapshot
	s.Read(now, func(v *store.View) {
		out = build(v, 0)
		for i, d := range v.Devices(0) {
			out.Devices[i].Curves = curves(d, out.Newest, out.Slot)
		}
	})
	out.Sequence = sequence
	out.Fields, out.Gauges, out.HolderGauges = store.FieldNames, store.GaugeNames[:store.ContainerMemoryUsage], store.GaugeNames[store.ContainerMemoryUsage:]
	for _, d := range store.Diagnosed() {
		out.Signals = append(out.Signals, Signal{Name: d.Name(), Metric: d.Metric.Name, Part: d.Part, Feeds: signal.Names(d.Feeds), Fields: d.Fields()})
	}
	for r := range diagnose.NumReasons {
		out.Reasons = append(out.Reasons, Reason{r.String(), r.Text(), r.Lasting()})
	}
	return out
}

// Patch returns the changes since the store's batch with the number after, and the number
// of the last batch that the patch contains.
func Patch(s *store.Store, now time.Time, sequence, after uint64) (patch *Snapshot, batch uint64) {
	s.Read(now, func(v *store.View) {
		patch, batch = build(v, after), v.Batch()
	})
	patch.Sequence = sequence
	return patch, batch
}

func build(v *store.View, after uint64) *Snapshot {
	newest, step := v.Newest()
	out := &Snapshot{
		Now: seconds(v.Now), Newest: seconds(newest), Window: step.Seconds(), Retention: v.Retention().Seconds(),
		Points:  curvePoints,
		Devices: []Device{}, Demand: v.Demand(), Limits: v.Refusing(), Exporters: exporters(v),
	}
	out.Slot, out.Kept = slot(v, newest, step)
	for _, l := range base.Reached(time.Unix(0, v.Now)) {
		out.Limits = append(out.Limits, store.Limit{Component: l.Component, Setting: l.Setting, Limit: l.Value, Of: l.What})
	}
	codes := map[int]bool{}
	verdicts := map[string]int{}
	for _, d := range v.Devices(after) {
		row := device(v, d)
		row.Verdict = out.verdict(verdicts, v.Verdicts(d))
		for _, x := range row.XIDs {
			if !codes[x.Code] {
				codes[x.Code] = true
				out.XIDs = append(out.XIDs, xidText(x.Code))
			}
		}
		out.Devices = append(out.Devices, row)
	}
	return out
}

// exporters returns the known exporters that do not answer or are silent.
func exporters(v *store.View) Exporters {
	known := v.Exporters()
	out := Exporters{Known: len(known), Heard: seconds(v.LastExporterPoint()), Down: []Exporter{}, Silent: []Exporter{}}
	type nodeKey struct{ cluster, node string }
	answered := map[nodeKey]bool{}
	for _, e := range known {
		if e.Up && !e.Silent(v.Now) {
			answered[nodeKey{e.Cluster, e.Node}] = true
		}
	}
	for _, e := range known {
		otherAnswers := answered[nodeKey{e.Cluster, e.Node}]
		switch {
		case e.Silent(v.Now):
			out.Silent = append(out.Silent, Exporter{e.Cluster, e.Node, e.URL, seconds(e.ReceivedAt), otherAnswers})
		case !e.Up:
			out.Down = append(out.Down, Exporter{e.Cluster, e.Node, e.URL, seconds(e.Since), otherAnswers})
		}
	}
	return out
}

func seconds(t int64) float64 { return float64(t) / 1e9 }

func device(v *store.View, d *store.Device) Device {
	out := Device{
		Number: d.Number, ID: d.ID, Parent: d.Parent, Name: d.Name, Model: d.Model, Cluster: d.Cluster, Node: d.Node,
		Profile: d.MIGProfile, Vendor: d.Vendor, Values: store.Numbers{}, Gauges: v.Gauges(d), XIDs: d.XIDs(),
		Seen: seconds(d.NewestPoint()), Due: seconds(v.Due(d)),
	}
	slices.SortStableFunc(out.XIDs, func(a, b store.XID) int { return cmp.Compare(xidRank(a.Code), xidRank(b.Code)) })
	if n := d.Len(); n > 0 {
		out.End, out.Length = seconds(d.End(n-1)), float64(d.Length(n-1))
		out.Values = d.Values(n - 1)
		if t := d.Throttled(n - 1); t.Ratio == t.Ratio {
			out.Throttle = &t
		}
	}
	for _, h := range d.Holders() {
		if v.Holds(d, h) {
			out.Holders = append(out.Holders, Holder{h.Namespace, h.Pod, h.Container, h.Sharing, h.Claim, h.Class, h.WorkloadKind, h.Workload, v.HolderGauges(h)})
		}
	}
	return out
}

// slot returns the seconds per point and the number of points that the stored time fills. The
// width is the window's length, doubled until the stored time fits.
func slot(v *store.View, newest int64, step time.Duration) (width float64, kept int) {
	oldest := newest
	for _, d := range v.Devices(0) {
		if d.Len() > 0 {
			oldest = min(oldest, d.End(0))
		}
	}
	width = double(max(step, time.Second), curvePoints, newest-oldest).Seconds()
	return width, min(curvePoints, 1+int(math.Ceil(seconds(newest)/width)-math.Ceil(seconds(oldest)/width)))
}

// double doubles a width until n of them cover a span of nanoseconds.
func double(width time.Duration, n int, span int64) time.Duration {
	for width*time.Duration(n) < time.Duration(span) {
		width *= 2
	}
	return width
}

// alphabet has one character for each of the 62 levels of a ratio. A dash means absent.
const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// curves returns the highest value of each slot. The last slot contains the window that ends
// at newest.
func curves(d *store.Device, newest, slot float64) []string {
	var levels [3][curvePoints]float32
	for c := range levels {
		for i := range levels[c] {
			levels[c][i] = -1
		}
	}
	last := math.Ceil(newest / slot)
	for i := range d.Len() {
		at := curvePoints - 1 - int(last-math.Ceil(seconds(d.End(i))/slot))
		if at < 0 || at >= curvePoints {
			continue
		}
		raise(&levels[0][at], d.Value(i, store.UtilizationAvg))
		raise(&levels[1][at], d.Value(i, store.MemoryAvg))
		raise(&levels[2][at], d.Throttled(i).Ratio)
	}
	out := make([]string, len(levels))
	for c := range levels {
		text := make([]byte, curvePoints)
		for i, v := range levels[c] {
			text[i] = '-'
			if v >= 0 {
				text[i] = alphabet[int(min(v, 1)*float32(len(alphabet)-1)+0.5)]
			}
		}
		out[c] = string(text)
	}
	return out
}

func raise(level *float32, v float32) {
	if v > *level {
		*level = v
	}
}
