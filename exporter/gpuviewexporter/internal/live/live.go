// Package live tells the store to the page: the newest window of every device
// with a curve of the kept time, and after that what changed.
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

// points is the most points of a curve.
const points = 60

// Snapshot is all that the page shows, Patch what changed since.
type Snapshot struct {
	// Sequence is the number of the last patch that the snapshot contains; a
	// patch that it contains already can be applied again.
	Sequence uint64 `json:"seq"`
	// Now, Newest, Window, Retention and Slot are in seconds: the time of the
	// answer, the end and length of the newest window, how long windows are kept,
	// and the time of one point of a curve.
	Now       float64 `json:"now"`
	Newest    float64 `json:"newest"`
	Window    float64 `json:"window"`
	Retention float64 `json:"retention"`
	Slot      float64 `json:"slot"`
	// Points is the length of a curve, Kept how many of its last points lie in the kept time.
	Points int `json:"points"`
	Kept   int `json:"kept"`
	// Fields, Gauges and HolderGauges name the numbers of a device's window, of a
	// device and of a holder by position; absent in patches.
	Fields       []store.Name `json:"fields,omitempty"`
	Gauges       []store.Name `json:"gauges,omitempty"`
	HolderGauges []store.Name `json:"holderGauges,omitempty"`
	// Signals and Reasons say what verdicts are about; absent in patches.
	Signals []Signal `json:"signals,omitempty"`
	Reasons []Reason `json:"reasons,omitempty"`
	// Verdicts are the distinct ones of the devices: a character a signal, a dash
	// where nothing is known, a plus where the signal is given, else the letter at
	// the reason's position in Reasons.
	Verdicts []string `json:"verdicts,omitempty"`
	// XIDs say what the codes of the devices mean.
	XIDs    []XIDText              `json:"xids,omitempty"`
	Devices []Device               `json:"devices"`
	Demand  []store.ResourceDemand `json:"demand"`
	// Exporters say which exporters do not answer, Limits what refuses something: of
	// gpu_view, and of other components in its process.
	Exporters Exporters     `json:"exporters"`
	Limits    []store.Limit `json:"limits"`
	// More says that further parts of it follow.
	More bool `json:"more,omitempty"`
}

// devicesInPart is the most devices of a part: what a browser reads in a millisecond or two.
const devicesInPart = 100

// part is a further part of a snapshot or a patch.
type part struct {
	Sequence uint64   `json:"seq"`
	Devices  []Device `json:"devices"`
	More     bool     `json:"more,omitempty"`
}

// Parts returns a snapshot or a patch as JSON texts of a few devices each, so that the page
// does something else between them. The first has all but the other devices.
func (s *Snapshot) Parts() [][]byte {
	marshal := func(v any) []byte {
		text, _ := json.Marshal(v) // these types cannot fail
		return text
	}
	first, rest := *s, s.Devices
	first.Devices = rest[:min(len(rest), devicesInPart)]
	rest = rest[len(first.Devices):]
	first.More = len(rest) > 0
	out := [][]byte{marshal(first)}
	for devices := range slices.Chunk(rest, devicesInPart) {
		rest = rest[len(devices):]
		out = append(out, marshal(part{s.Sequence, devices, len(rest) > 0}))
	}
	return out
}

// Exporters are the known exporters and their state.
type Exporters struct {
	// Known is the number of exporters that were seen recently, Heard the last time at which one
	// was seen, in seconds; 0 for never.
	Known int     `json:"known"`
	Heard float64 `json:"heard"`
	// Down do not answer. Of Silent nothing was received for a while, so it is not known whether
	// they answer.
	Down   []Exporter `json:"down"`
	Silent []Exporter `json:"silent"`
}

// Exporter is an exporter that does not answer or is silent.
type Exporter struct {
	Cluster string `json:"cluster,omitempty"`
	Node    string `json:"node,omitempty"`
	URL     string `json:"url"`
	// Since is the time of the first failed scrape, or of the last one that was seen, in
	// seconds.
	Since float64 `json:"since"`
	// Beside says that another exporter of the same place answers.
	Beside bool `json:"beside,omitempty"`
}

// XIDText is what an XID code means and what to do about it.
type XIDText struct {
	Code    int    `json:"code"`
	Meaning string `json:"meaning"`
	Action  string `json:"action"`
	// Advice is the action and what it depends on.
	Advice string `json:"advice"`
}

// Signal is a signal that has verdicts.
type Signal struct {
	// Name is the metric, with the value of its own attribute in braces; Metric and
	// Part are the two.
	Name   string `json:"name"`
	Metric string `json:"metric"`
	Part   string `json:"part,omitempty"`
	// Feeds are the windowed metrics that are made of it, Fields what the exporter
	// has to give for it.
	Feeds  []string `json:"feeds,omitempty"`
	Fields []string `json:"fields,omitempty"`
}

// Reason is why a signal is missing.
type Reason struct {
	Code string `json:"code,omitempty"`
	Text string `json:"text"`
	// Lasting reasons lie in the hardware: nothing turns the signal on.
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
	// Vendor is who made it.
	Vendor string `json:"vendor,omitempty"`
	// End and Length are those of the device's newest window in seconds; 0 while
	// it has none. Values are that window's.
	End    float64       `json:"end"`
	Length float64       `json:"len"`
	Values store.Numbers `json:"v"`
	Gauges store.Numbers `json:"g"`
	// Seen is the newest point and Due the time by which the next one has to come,
	// in seconds: after that the device is lost.
	Seen float64 `json:"seen"`
	Due  float64 `json:"due"`
	// Throttle is absent where nothing was observed. XIDs are by urgency.
	Throttle *store.Throttle `json:"throttle,omitempty"`
	XIDs     []store.XID     `json:"xids,omitempty"`
	// Curves are of utilization, memory occupancy and throttling, one character a
	// point, oldest first; empty in patches.
	Curves  []string `json:"curves,omitempty"`
	Holders []Holder `json:"holders,omitempty"`
	// Verdict is the position of the device's in Verdicts, counted from 1; 0 while
	// there is none.
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
	// Kind and Workload are what made the pod.
	Kind     string        `json:"kind,omitempty"`
	Workload string        `json:"workload,omitempty"`
	Gauges   store.Numbers `json:"g"`
}

// marks has the character of each verdict: the letters are those of the reasons.
const marks = "-+abcdefghijklmnopqrstuvwxyz"

// verdict returns the position of a device's verdicts among the distinct ones,
// counted from 1; 0 when there are none.
func (s *Snapshot) verdict(known map[string]int, verdicts []store.Verdict) int {
	if verdicts == nil {
		return 0
	}
	text := make([]byte, len(verdicts))
	for i, v := range verdicts {
		text[i] = marks[v]
	}
	at, ok := known[string(text)]
	if !ok {
		s.Verdicts = append(s.Verdicts, string(text))
		at = len(s.Verdicts)
		known[string(text)] = at
	}
	return at
}

// Snap returns everything; sequence is the number of the last patch.
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

// Patch returns what changed after that batch of the store, and the last batch
// that it contains.
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
		Points:  points,
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

// exporters returns the exporters that do not answer, and those that are silent.
func exporters(v *store.View) Exporters {
	known := v.Exporters()
	out := Exporters{Known: len(known), Heard: seconds(v.Heard()), Down: []Exporter{}, Silent: []Exporter{}}
	type place struct{ cluster, node string }
	answers := map[place]bool{}
	for _, e := range known {
		if e.Up && !e.Silent(v.Now) {
			answers[place{e.Cluster, e.Node}] = true
		}
	}
	for _, e := range known {
		beside := answers[place{e.Cluster, e.Node}]
		switch {
		case e.Silent(v.Now):
			out.Silent = append(out.Silent, Exporter{e.Cluster, e.Node, e.URL, seconds(e.Heard), beside})
		case !e.Up:
			out.Down = append(out.Down, Exporter{e.Cluster, e.Node, e.URL, seconds(e.Since), beside})
		}
	}
	return out
}

func seconds(t int64) float64 { return float64(t) / 1e9 }

func device(v *store.View, d *store.Device) Device {
	out := Device{
		Number: d.Number, ID: d.ID, Parent: d.Parent, Name: d.Name, Model: d.Model, Cluster: d.Cluster, Node: d.Node,
		Profile: d.MIGProfile, Vendor: d.Vendor, Values: store.Numbers{}, Gauges: v.Gauges(d), XIDs: d.XIDs(),
		Seen: seconds(d.Seen()), Due: seconds(v.Due(d)),
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

// slot returns the seconds of one point, which is the window's length, doubled until the
// kept time has room, and how many points the kept time takes.
func slot(v *store.View, newest int64, step time.Duration) (width float64, kept int) {
	oldest := newest
	for _, d := range v.Devices(0) {
		if d.Len() > 0 {
			oldest = min(oldest, d.End(0))
		}
	}
	width = double(max(step, time.Second), points, newest-oldest).Seconds()
	return width, min(points, 1+int(math.Ceil(seconds(newest)/width)-math.Ceil(seconds(oldest)/width)))
}

// double doubles a width until n of them have room for a span of nanoseconds.
func double(width time.Duration, n int, span int64) time.Duration {
	for width*time.Duration(n) < time.Duration(span) {
		width *= 2
	}
	return width
}

// alphabet has one character for each of 62 levels of a ratio; a dash is absent.
const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// curves returns the greatest value of each slot. The last slot holds the window that ends at
// newest.
func curves(d *store.Device, newest, slot float64) []string {
	var levels [3][points]float32
	for c := range levels {
		for i := range levels[c] {
			levels[c][i] = -1
		}
	}
	last := math.Ceil(newest / slot)
	for i := range d.Len() {
		at := points - 1 - int(last-math.Ceil(seconds(d.End(i))/slot))
		if at < 0 || at >= points {
			continue
		}
		raise(&levels[0][at], d.Value(i, store.UtilizationAvg))
		raise(&levels[1][at], d.Value(i, store.MemoryAvg))
		raise(&levels[2][at], d.Throttled(i).Ratio)
	}
	out := make([]string, len(levels))
	for c := range levels {
		text := make([]byte, points)
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
