// Package live converts the contents of the store into a document for the page and for the
// "gpudoctor top" command. For each device, the document contains the newest window, the curves,
// and everything that can be derived from the device's data.
package live

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/store"
	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/natural"
)

// curvePoints is the number of points in each curve.
const curvePoints = 60

// Document is the state of the store at a point in time. A Document does not contain the time of
// the response. Therefore, a Document changes only when something that clients show has changed.
type Document struct {
	// Newest is the end of the newest window, in Unix seconds. Window is the length of the newest
	// window, in seconds.
	Newest float64 `json:"newest"`
	Window float64 `json:"window"`
	// Until is the time, in Unix seconds, after which all devices are lost unless new points
	// arrive. A client that cannot get a newer document must stop showing numbers at Until.
	Until float64 `json:"until"`
	// The last CurvePoints points of each curve are within the time range of the stored data.
	CurvePoints int `json:"curvePoints"`
	// Fields contains the names of the values in a device's window, Gauges contains the names of a
	// device's gauges, and HolderGauges contains the names of a holder's gauges. Each name has the
	// same position as its value.
	Fields       []store.Name `json:"fields"`
	Gauges       []store.Name `json:"gauges"`
	HolderGauges []store.Name `json:"holderGauges"`
	// Numbers contains the names of all numbers that may be missing. Each name is a column, or a
	// metric followed by the value of the metric's own attribute in braces. Diagnoses contains the
	// distinct diagnoses of all devices. Why and Missing contain the explanations that the
	// diagnoses refer to.
	Numbers   []string    `json:"numbers"`
	Diagnoses []Diagnosis `json:"diagnoses"`
	Why       []Why       `json:"why"`
	Missing   []Missing   `json:"missing"`
	// Lacking is the number of missing signals that could be enabled. If gpu.signal.available is
	// not received, Lacking is absent.
	Lacking *int `json:"lacking,omitempty"`
	// Clients show State and Banners above the devices.
	State   State    `json:"state"`
	Banners []Banner `json:"banners"`
	// XIDs describes the XID codes of the errors that were counted on the devices.
	XIDs   []XIDText `json:"xids"`
	Demand []Demand  `json:"demand"`
	// Unreserved contains, for each DeviceClass, the number of claims that have devices but are not
	// reserved for any pod. It is unknown which devices are allocated to unreserved claims.
	Unreserved []store.UnreservedClaims `json:"unreserved"`
	// Exporters describes the exporters that do not respond. Limits contains the limits that have
	// been reached, both in gpu_view and in other components of the same process.
	Exporters Exporters     `json:"exporters"`
	Limits    []store.Limit `json:"limits"`
	// Devices is sorted by cluster, node and name. The MIG instances of a board follow the board.
	// Devices must be the last field, because Encode appends the devices to the other encoded
	// fields.
	Devices []Device `json:"devices"`
}

// Encode returns the document as JSON. Each device is on a separate line, so that a browser can
// parse one device at a time.
func (d *Document) Encode() []byte {
	head := *d
	head.Devices = []Device{}
	out := bytes.TrimSuffix(marshal(head), []byte("]}"))
	for i := range d.Devices {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(out, '\n'), marshal(&d.Devices[i])...)
	}
	return append(out, "\n]}\n"...)
}

func marshal(v any) []byte {
	text, _ := json.Marshal(v) // values of these types can always be encoded
	return text
}

// Exporters contains the number of exporters, and a list of the exporters that have a problem.
type Exporters struct {
	// Total is the number of exporters with a recent scrape result. Reported is true if any scrape
	// result has arrived since the start of the process. If scrape results no longer arrive,
	// LastResult is the time at which the last result arrived, in Unix seconds.
	Total      int        `json:"total"`
	Reported   bool       `json:"reported"`
	LastResult store.Time `json:"lastResult,omitempty"`
	// Down contains the exporters that do not answer. Stale contains the exporters whose scrape
	// results no longer arrive. It is unknown whether stale exporters answer.
	Down  []Exporter `json:"down"`
	Stale []Exporter `json:"stale"`
}

// Exporter describes an exporter that does not answer or whose scrape results are stale.
type Exporter struct {
	Cluster string `json:"cluster,omitempty"`
	Node    string `json:"node,omitempty"`
	URL     string `json:"url"`
	// Since is the time of the first failed scrape or, for a stale exporter, the arrival time of
	// the last scrape result. The time is in Unix seconds.
	Since store.Time `json:"since"`
	// Cause is the error from the last scrape. If another process scrapes the exporter, Cause is
	// empty.
	Cause string `json:"cause,omitempty"`
}

// XIDText describes the meaning of an XID code and the recommended action.
type XIDText struct {
	Code    int    `json:"code"`
	Meaning string `json:"meaning"`
	Action  string `json:"action"`
	// Advice contains the recommended action, and the conditions under which the action is
	// recommended.
	Advice string `json:"advice"`
}

// Demand is the scheduler's view of one Kubernetes resource. If the view is older than
// maxDemandAge, Old is true.
type Demand struct {
	store.ResourceDemand
	Old bool `json:"old,omitempty"`
	// Warn is true if pods are pending, or if the requested amount exceeds the allocatable amount.
	// If the scheduler's view is old, Warn is false.
	Warn bool `json:"warn,omitempty"`
}

// Loss describes why a device has no current data.
type Loss struct {
	store.Loss
	Why Text `json:"why"`
}

// maxDemandAge is the age above which the scheduler's view counts as old.
const maxDemandAge = 2 * time.Minute

// Device contains the data for one row on the page. If a device is lost, its numbers, holders and
// verdicts are unknown and therefore absent.
type Device struct {
	Number uint64 `json:"n"`
	// Board is the number of the board that a MIG instance belongs to, or 0 if the board is
	// unknown.
	Board   uint64 `json:"board,omitempty"`
	ID      string `json:"id"`
	Parent  string `json:"parent,omitempty"`
	Name    string `json:"name,omitempty"`
	Model   string `json:"model,omitempty"`
	Cluster string `json:"cluster,omitempty"`
	Node    string `json:"node,omitempty"`
	Profile string `json:"profile,omitempty"`
	// Vendor is the manufacturer.
	Vendor string `json:"vendor,omitempty"`
	// End is the end of the device's newest window, in Unix seconds. Length is the length of the
	// newest window, in seconds. If the device has no window, End and Length are 0. Values contains
	// the values in the newest window.
	End    float64       `json:"end"`
	Length float64       `json:"len"`
	Values store.Numbers `json:"v"`
	Gauges store.Numbers `json:"g"`
	// Lost is the reason why the device has no current data. If the device has current data, Lost
	// is absent.
	Lost *Loss `json:"lost,omitempty"`
	// Problems lists the problems of the device, in the order of the Problem constants.
	Problems []Problem `json:"problems,omitempty"`
	// Idle is true if the device was idle during the newest window, according to
	// [signal.IdleShare]. If the utilization was not observed, Idle is absent.
	Idle *bool `json:"idle,omitempty"`
	// Power is the power draw of a board, or the active power of a MIG instance, in watts.
	Power *float32 `json:"power,omitempty"`
	// Health is the worst state that hw.status reports, or empty if the state is unknown.
	Health string `json:"health,omitempty"`
	// Findings lists the findings that gpu_findings reports for the device. If gpu_findings is not
	// running, Findings is absent.
	Findings []string `json:"findings,omitzero"`
	// If throttling was not observed, Throttle is absent. XIDs is sorted by urgency, most urgent
	// first.
	Throttle *store.Throttle `json:"throttle,omitempty"`
	XIDs     []store.XID     `json:"xids,omitempty"`
	// Curves contains the curves of utilization, memory occupancy and throttling. Each curve has
	// one character per point, from oldest to newest.
	Curves  []string `json:"curves"`
	Holders []Holder `json:"holders,omitempty"`
	// Reserved lists the claims that the device is allocated to but whose pods do not hold the
	// device. If the holders are unknown, Reserved is empty.
	Reserved []store.Claim `json:"reserved,omitempty"`
	// Diagnosis is the 1-based position of the device's diagnosis in Diagnoses. A lost device has
	// no diagnosis.
	Diagnosis int `json:"diagnosis,omitempty"`
}

// Holder is a container that holds the device.
type Holder struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	Sharing   string `json:"sharing,omitempty"`
	Claim     string `json:"claim,omitempty"`
	Class     string `json:"class,omitempty"`
	// Kind and Workload identify the workload that owns the pod.
	Kind     string        `json:"kind,omitempty"`
	Workload string        `json:"workload,omitempty"`
	Gauges   store.Numbers `json:"g"`
}

// Build returns a document with the state of the store, and the time at which the next window is
// expected.
func Build(s *store.Store, now time.Time) (out *Document, expected time.Time) {
	out = &Document{
		Fields: store.FieldNames, Gauges: store.GaugeNames[:store.ContainerMemoryUsage], HolderGauges: store.GaugeNames[store.ContainerMemoryUsage:],
		Numbers: numberNames(), Diagnoses: []Diagnosis{}, Why: []Why{}, Missing: []Missing{}, XIDs: []XIDText{}, Demand: []Demand{},
	}
	s.Read(now, func(v *store.View) {
		out.Limits = v.Refusing()
		for _, l := range componenthelper.Reached(now) {
			out.Limits = append(out.Limits, store.Limit{Component: l.Component, Setting: l.Setting, Limit: l.Value, Of: l.What})
		}
		out.read(v)
		out.addBanners(v)
		expected = time.Unix(0, v.Expected())
	})
	return out, expected
}

func (d *Document) read(v *store.View) {
	newest, step := v.Newest()
	devices := v.Devices()
	sortDevices(devices)
	d.Newest, d.Window = seconds(newest), step.Seconds()
	d.Exporters, d.Unreserved = exporters(v), v.UnreservedClaims()
	for _, r := range v.Demand() {
		old := v.Now-int64(r.At) > int64(maxDemandAge)
		d.Demand = append(d.Demand, Demand{r, old, !old && (r.Values[store.PendingPods] > 0 || r.Values[store.RequestedRatio] > 1)})
	}
	slot, points := slot(devices, newest, step)
	d.CurvePoints = points
	// If no windows have arrived for some time, leave a gap at the end of the curves.
	curvesEnd := max(seconds(newest), seconds(v.Now)-3*slot)
	codes := map[int]bool{}
	diagnoses := newDiagnoses(d)
	partitioned := map[board]bool{}
	for _, device := range devices {
		if device.Parent != "" {
			partitioned[boardOf(device)] = true
		}
	}
	boards := map[string]uint64{} // the numbers of the boards on the current node, keyed by board ID
	var until int64
	for i, device := range devices {
		row := describe(v, device)
		row.Curves = curves(device, curvesEnd, slot)
		if row.Lost == nil {
			row.Diagnosis = diagnoses.add(row.circumstances(v.Verdicts(device), device.Parent == "" && partitioned[boardOf(device)]))
			until = max(until, v.Due(device))
		}
		if i > 0 && (device.Node != devices[i-1].Node || device.Cluster != devices[i-1].Cluster) {
			clear(boards)
		}
		if device.Parent == "" {
			boards[device.ID] = device.Number
		}
		row.Board = boards[device.Parent]
		for _, x := range row.XIDs {
			if !codes[x.Code] {
				codes[x.Code] = true
				d.XIDs = append(d.XIDs, xidText(x.Code))
			}
		}
		d.Devices = append(d.Devices, row)
	}
	d.Until = seconds(until)
}

// The board type identifies a board and all its instances.
type board struct{ cluster, node, id string }

func boardOf(d *store.Device) board { return board{d.Cluster, d.Node, cmp.Or(d.Parent, d.ID)} }

// sortDevices sorts devices by cluster, node, board name and ID. Numbers within names are compared
// numerically. The MIG instances of a board follow the board.
func sortDevices(devices []*store.Device) {
	// Use the same name for a board and its instances, even if there is no device for the board
	// itself or if the names of the instances differ.
	names := map[board]string{}
	for _, d := range devices {
		b := boardOf(d)
		if name, ok := names[b]; d.Parent != "" && d.Name != "" && (!ok || d.Name < name) {
			names[b] = d.Name
		}
	}
	for _, d := range devices {
		if d.Parent == "" {
			names[boardOf(d)] = d.Name
		}
	}
	slices.SortFunc(devices, func(x, y *store.Device) int {
		a, b := boardOf(x), boardOf(y)
		if a != b {
			return cmp.Or(compareNames(a.cluster, b.cluster), compareNames(a.node, b.node),
				compareNames(cmp.Or(names[a], a.id), cmp.Or(names[b], b.id)), compareNames(a.id, b.id))
		}
		// A board comes before its instances, because the board has no parent.
		return cmp.Or(cmp.Compare(len(x.Parent), len(y.Parent)), compareNames(x.ID, y.ID))
	})
}

// compareNames defines a total order, so names that differ only in leading zeros are not equal.
func compareNames(a, b string) int {
	if a == b {
		return 0
	}
	return cmp.Or(natural.Compare(a, b), cmp.Compare(a, b))
}

// maxResultAge is how late the next scrape result may be. The length of a window is added to
// maxResultAge, because scrape results may arrive only once per window.
const maxResultAge = 15 * time.Second

// The exporters function returns the number of exporters, and the exporters that do not answer or
// whose scrape results are stale.
func exporters(v *store.View) Exporters {
	all := v.Exporters()
	last := v.LastExporterPoint()
	out := Exporters{Total: len(all), Reported: last > 0, Down: []Exporter{}, Stale: []Exporter{}}
	_, step := v.Newest()
	if last > 0 && v.Now-last > int64(cmp.Or(step, time.Minute)+maxResultAge) {
		out.LastResult = store.Time(last)
	}
	for _, e := range all {
		switch {
		case e.Stale:
			out.Stale = append(out.Stale, Exporter{e.Cluster, e.Node, e.URL, store.Time(e.ReceivedAt), ""})
		case !e.Up:
			out.Down = append(out.Down, Exporter{e.Cluster, e.Node, e.URL, store.Time(e.Since), componenthelper.ScrapeError(e.URL)})
		}
	}
	return out
}

func seconds(t int64) float64 { return float64(t) / 1e9 }

func describe(v *store.View, d *store.Device) Device {
	out := Device{
		Number: d.Number, ID: d.ID, Parent: d.Parent, Name: d.Name, Model: d.Model, Cluster: d.Cluster, Node: d.Node,
		Profile: d.MIGProfile, Vendor: d.Vendor, Values: store.Numbers{}, Gauges: store.Numbers{}, XIDs: d.XIDs(),
	}
	if loss := v.Lost(d); loss != nil {
		out.Lost = &Loss{*loss, lostText(loss)}
	}
	slices.SortStableFunc(out.XIDs, func(a, b store.XID) int { return cmp.Compare(xidRank(a.Code), xidRank(b.Code)) })
	n := d.Len()
	if n > 0 {
		out.End, out.Length = seconds(d.End(n-1)), float64(d.Length(n-1))
	}
	if out.Lost != nil {
		for i := range out.XIDs {
			out.XIDs[i].Count = 0
		}
		out.judge()
		return out
	}
	out.Gauges = v.Gauges(d)
	if n > 0 {
		out.Values = d.Values(n - 1)
		if t := d.Throttled(n - 1); t.Ratio == t.Ratio {
			out.Throttle = &t
		}
	}
	for _, h := range d.Holders() {
		if v.IsCurrentHolder(d, h) {
			out.Holders = append(out.Holders, Holder{h.Namespace, h.Pod, h.Container, h.Sharing, h.Claim, h.Class, h.WorkloadKind, h.Workload, v.HolderGauges(h)})
		}
	}
	out.Reserved = reserved(v, d, out.Holders)
	out.judge()
	return out
}

// The reserved function returns the claims that the device is allocated to, except claims whose
// pods hold the device. If the holders are unknown, the reserved function returns nil, because the
// pods may hold the device.
func reserved(v *store.View, d *store.Device, holders []Holder) []store.Claim {
	if _, known := v.Gauge(d, store.SharingClients); !known {
		return nil
	}
	return slices.DeleteFunc(v.Claims(d), func(c store.Claim) bool {
		return slices.ContainsFunc(holders, func(h Holder) bool { return h.Namespace == c.Namespace && h.Pod == c.Pod })
	})
}

// The slot function returns the width of a curve point in seconds, and the number of points that
// the stored data fills. The width is the length of a window, doubled as often as necessary to fit
// all stored data into curvePoints points.
func slot(devices []*store.Device, newest int64, step time.Duration) (width float64, points int) {
	oldest := newest
	for _, d := range devices {
		if d.Len() > 0 {
			oldest = min(oldest, d.End(0))
		}
	}
	width = double(max(step, time.Second), curvePoints, newest-oldest).Seconds()
	return width, min(curvePoints, 1+int(math.Ceil(seconds(newest)/width)-math.Ceil(seconds(oldest)/width)))
}

// The double function doubles a width repeatedly until n times the width is at least the given
// span, which is in nanoseconds.
func double(width time.Duration, n int, span int64) time.Duration {
	for width*time.Duration(n) < time.Duration(span) {
		width *= 2
	}
	return width
}

// The alphabet constant contains the characters that represent ratios in a curve. Ratios are
// rounded to 62 levels. A dash in a curve represents an absent value.
const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// The curves function returns the curves of a device. Each point is the highest value in its slot.
// The last slot contains the time that is given by the newest parameter, in Unix seconds.
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
