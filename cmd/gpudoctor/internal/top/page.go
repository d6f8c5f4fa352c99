package top

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// page contains the parts of a response from gpu_view's /api/devices that gpudoctor top displays.
// Times are in seconds. gpu_view determines which devices are lost or have a problem, and sorts the
// devices by cluster, node and name. In this package, the order by cluster, node, and name is
// called the order by place.
type page struct {
	Newest  float64   `json:"newest"`
	Window  float64   `json:"window"`
	Fields  []name    `json:"fields"`
	Gauges  []name    `json:"gauges"`
	Devices []*device `json:"devices"`
	// Exporters contains the known exporters that do not respond.
	Exporters struct {
		Down []exporter `json:"down"`
	} `json:"exporters"`
	// Banners are messages about the whole page.
	Banners []struct {
		Title timedText `json:"title"`
		Text  timedText `json:"text"`
	} `json:"banners"`
}

// timedText is a list of strings and Unix times in seconds.
type timedText []any

// Joins the parts of the text, and formats the times for the given time zone.
func (t timedText) in(zone *time.Location) string {
	var out strings.Builder
	for _, part := range t {
		if seconds, ok := part.(float64); ok {
			part = instant(seconds).In(zone).Format(time.TimeOnly)
		}
		fmt.Fprint(&out, part)
	}
	return Printable(out.String())
}

// name is a metric's name and the value of the metric's own attribute.
type name struct {
	Metric string `json:"metric"`
	Value  string `json:"value"`
}

// exporter is an exporter that does not respond. Cause is the error from the last scrape, or "" if
// the error is unknown.
type exporter struct {
	URL   string `json:"url"`
	Cause string `json:"cause"`
}

// Returns the cause of the failure in a form that can be appended to a message, or "" if the cause
// is unknown.
func (e *exporter) because() string {
	if e.Cause == "" {
		return ""
	}
	return ": " + Printable(e.Cause)
}

// device is a board or a MIG instance with its newest window.
type device struct {
	Number  uint64  `json:"n"`
	Board   uint64  `json:"board"`
	ID      string  `json:"id"`
	Parent  string  `json:"parent"`
	Name    string  `json:"name"`
	Model   string  `json:"model"`
	Vendor  string  `json:"vendor"`
	Cluster string  `json:"cluster"`
	Node    string  `json:"node"`
	Profile string  `json:"profile"`
	End     float64 `json:"end"`
	// Lost is true if the device has no current data.
	Lost present `json:"lost"`
	// Problems contains the device's problems: lost, throttled, pressure, xid, health or finding.
	Problems []string `json:"problems"`
	// Power is in watts. Health is the device's state in hw.status. A nil Power or an empty Health
	// means that the value is unknown.
	Power  *float64 `json:"power"`
	Health string   `json:"health"`
	// Values contains the numbers of the window, in the order of the page's Fields. Gauges contains
	// the last gauge values, in the order of the page's Gauges. A nil element means that the value
	// is absent.
	Values   []*float64 `json:"v"`
	Gauges   []*float64 `json:"g"`
	Throttle *struct {
		Ratio   float64 `json:"ratio"`
		By      string  `json:"by"`
		Sampled bool    `json:"sampled"`
	} `json:"throttle"`
	XIDs []struct {
		Code  int     `json:"code"`
		Count float64 `json:"count"`
	} `json:"xids"`
	Holders []struct {
		Namespace string `json:"namespace"`
		Pod       string `json:"pod"`
		Container string `json:"container"`
		Workload  string `json:"workload"`
	} `json:"holders"`
	// Reserved contains the pods that reserve the device through a claim but do not hold the
	// device.
	Reserved []struct {
		Namespace string `json:"namespace"`
		Pod       string `json:"pod"`
	} `json:"reserved"`

	// The numbers field maps each [key] whose value is present to that value.
	numbers map[string]float64
	// place is the device's position in the order by place, which gpu_view determines.
	place     int
	board     *device
	instances []*device
}

// present is the type of a response field whose content does not matter. A present value is true if
// the field exists and is not null.
type present bool

// UnmarshalJSON implements json.Unmarshaler.
func (p *present) UnmarshalJSON(text []byte) error {
	*p = string(text) != "null"
	return nil
}

// read decodes a response, and links boards and their instances.
func read(in io.Reader) (*page, error) {
	p := &page{}
	if err := json.NewDecoder(in).Decode(p); err != nil {
		return nil, fmt.Errorf("the response is not from gpu_view's /api/devices: %w", err)
	}
	p.Devices = slices.DeleteFunc(p.Devices, func(d *device) bool { return d == nil })
	boards := map[uint64]*device{}
	for i, d := range p.Devices {
		d.clean()
		d.place = i
		d.numbers = map[string]float64{}
		d.addNumbers(p.Fields, d.Values)
		d.addNumbers(p.Gauges, d.Gauges)
		if d.Parent == "" {
			boards[d.Number] = d
		}
	}
	for _, d := range p.Devices {
		if board := boards[d.Board]; d.Parent != "" && board != nil {
			d.board = board
			board.instances = append(board.instances, d)
		}
	}
	return p, nil
}

// The clean method removes terminal control characters from all names of the device.
func (d *device) clean() {
	texts := []*string{&d.ID, &d.Parent, &d.Name, &d.Model, &d.Vendor, &d.Cluster, &d.Node, &d.Profile}
	for i := range d.Holders {
		h := &d.Holders[i]
		texts = append(texts, &h.Namespace, &h.Pod, &h.Container, &h.Workload)
	}
	for i := range d.Reserved {
		texts = append(texts, &d.Reserved[i].Namespace, &d.Reserved[i].Pod)
	}
	if d.Throttle != nil {
		texts = append(texts, &d.Throttle.By)
	}
	for _, text := range texts {
		*text = Printable(*text)
	}
}

func (d *device) addNumbers(names []name, values []*float64) {
	for i, v := range values {
		if v == nil || i >= len(names) {
			continue
		}
		d.numbers[key(names[i].Metric, names[i].Value)] = *v
	}
}

// key returns the name of a metric, followed by the value of the metric's own attribute in braces.
func key(metric, value string) string {
	if value == "" {
		return metric
	}
	return metric + "{" + value + "}"
}

// number returns the device's number for a key, or NaN if the number is absent.
func (d *device) number(key string) float64 {
	if v, ok := d.numbers[key]; ok {
		return v
	}
	return math.NaN()
}

// Returns the fraction of the window during which the clocks were throttled. If there are several
// policies or reasons, the largest fraction is returned.
func (d *device) throttled() float64 {
	if d.Throttle == nil {
		return math.NaN()
	}
	return d.Throttle.Ratio
}

// label returns the name of a board. If the board has no name, label returns its ID, which is
// shortened if necessary. For an instance, label returns the label of the board and the number of
// the instance, as in nvidia0/gi7.
func (d *device) label() string {
	if d.Parent == "" {
		return cmp.Or(d.Name, shortID(d.ID))
	}
	return cmp.Or(d.Name, shortID(d.Parent)) + "/" + d.instanceNumber()
}

// maxID is the maximum length of an ID that is displayed in full.
const maxID = 24

func shortID(id string) string {
	if runes := []rune(id); len(runes) > maxID {
		return string(runes[:8]) + "…" + string(runes[len(runes)-4:])
	}
	return id
}

// instanceNumber returns the last part of an instance's ID.
func (d *device) instanceNumber() string { return d.ID[strings.LastIndexByte(d.ID, '/')+1:] }

// Returns the distinct containers that hold the device, and the pods that reserve the device. If
// folded is true, the holders of the device's instances are included.
func (d *device) holders(folded bool) []string {
	of := []*device{d}
	if folded {
		of = append(of, d.instances...)
	}
	var all []string
	add := func(name string) {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	for _, d := range of {
		for _, h := range d.Holders {
			add(strings.Trim(h.Namespace+"/"+h.Pod+"/"+h.Container, "/"))
		}
	}
	for _, d := range of {
		for _, r := range d.Reserved {
			add(r.Namespace + "/" + r.Pod + " (reserved)")
		}
	}
	return all
}

// searchText returns the text that a search examines, which contains all of the device's names.
func (d *device) searchText() string {
	searchText := []string{d.ID, d.Name, d.Model, d.Vendor, d.Cluster, d.Node, d.Profile}
	for _, h := range d.Holders {
		searchText = append(searchText, h.Namespace, h.Pod, h.Container, h.Workload)
	}
	for _, r := range d.Reserved {
		searchText = append(searchText, r.Namespace, r.Pod)
	}
	return strings.ToLower(strings.Join(searchText, " "))
}

// states contains the states of hw.status, with the worst state last.
var states = signal.Values(signal.HardwareState)

// health returns the index of the device's state in states, or NaN if the state is unknown.
func (d *device) health() float64 {
	if i := slices.Index(states, d.Health); i >= 0 {
		return float64(i)
	}
	return math.NaN()
}

// power returns the power in watts, or NaN if the power is unknown.
func (d *device) power() float64 {
	if d.Power == nil {
		return math.NaN()
	}
	return *d.Power
}

// Reports whether the device has the given problem.
func (d *device) has(problem string) bool { return slices.Contains(d.Problems, problem) }

func instant(seconds float64) time.Time {
	return time.Unix(0, int64(seconds*1e9)).Round(time.Millisecond)
}
