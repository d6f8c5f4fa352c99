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

	"github.com/otelcol-gpu/otelcol-gpu/internal/natural"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// page contains the parts of gpu_view's /api/devices that top displays. Times are in seconds.
type page struct {
	Now     float64   `json:"now"`
	Newest  float64   `json:"newest"`
	Window  float64   `json:"window"`
	Fields  []name    `json:"fields"`
	Gauges  []name    `json:"gauges"`
	Devices []*device `json:"devices"`
	// Exporters are the known exporters that do not respond.
	Exporters struct {
		Known int        `json:"known"`
		Down  []exporter `json:"down"`
	} `json:"exporters"`
}

// name is a metric and the value of its own attribute.
type name struct {
	Metric string `json:"metric"`
	Value  string `json:"value"`
}

// exporter is an exporter that has not responded since a time. Beside is true if another exporter
// on the same node responds.
type exporter struct {
	Cluster string  `json:"cluster"`
	Node    string  `json:"node"`
	URL     string  `json:"url"`
	Since   float64 `json:"since"`
	Beside  bool    `json:"beside"`
}

// device is a board or a MIG instance with its newest window.
type device struct {
	Number  uint64  `json:"n"`
	ID      string  `json:"id"`
	Parent  string  `json:"parent"`
	Name    string  `json:"name"`
	Model   string  `json:"model"`
	Vendor  string  `json:"vendor"`
	Cluster string  `json:"cluster"`
	Node    string  `json:"node"`
	Profile string  `json:"profile"`
	End     float64 `json:"end"`
	Length  float64 `json:"len"`
	Seen    float64 `json:"seen"`
	Due     float64 `json:"due"`
	// Values are the numbers of the window, in the order of the page's Fields. Gauges are the last
	// values, in the order of the page's Gauges. nil means absent.
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

	// numbers maps a [key] to a number if it is present.
	numbers map[string]float64
	// lost is true if the next point is overdue, or if the only exporter does not respond.
	lost      bool
	board     *device
	instances []*device
}

// read decodes a response and links related devices.
func read(in io.Reader) (*page, error) {
	p := &page{}
	if err := json.NewDecoder(in).Decode(p); err != nil {
		return nil, fmt.Errorf("the response is not from gpu_view's /api/devices: %w", err)
	}
	p.Devices = slices.DeleteFunc(p.Devices, func(d *device) bool { return d == nil })
	byID := map[string]*device{}
	for _, d := range p.Devices {
		d.clean()
		d.numbers = map[string]float64{}
		d.addNumbers(p.Fields, d.Values)
		d.addNumbers(p.Gauges, d.Gauges)
		d.lost = p.lost(d)
		byID[d.nodeKey(d.ID)] = d
	}
	for _, d := range p.Devices {
		if board := byID[d.nodeKey(d.Parent)]; d.Parent != "" && board != nil && board != d {
			d.board = board
			board.instances = append(board.instances, d)
		}
	}
	return p, nil
}

// clean removes terminal control characters from the names.
func (d *device) clean() {
	texts := []*string{&d.ID, &d.Parent, &d.Name, &d.Model, &d.Vendor, &d.Cluster, &d.Node, &d.Profile}
	for i := range d.Holders {
		h := &d.Holders[i]
		texts = append(texts, &h.Namespace, &h.Pod, &h.Container, &h.Workload)
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

// key returns a metric with the value of its own attribute in braces.
func key(metric, value string) string {
	if value == "" {
		return metric
	}
	return metric + "{" + value + "}"
}

// nodeKey returns a key for the device with the given id on the same node.
func (d *device) nodeKey(id string) string { return d.Cluster + "\n" + d.Node + "\n" + id }

// lost reports whether a device's numbers are outdated: its next point is overdue, or its node's
// only exporter has not responded for longer than a window.
func (p *page) lost(d *device) bool {
	if p.Now > d.Due {
		return true
	}
	for _, e := range p.Exporters.Down {
		ofItsNode := e.Node == d.Node && e.Node != "" && (e.Cluster == d.Cluster || e.Cluster == "") && !e.Beside
		ends := e.Since + cmp.Or(d.Length, p.Window)
		if (ofItsNode || len(p.Exporters.Down) == p.Exporters.Known) && p.Now > ends && d.Seen < ends {
			return true
		}
	}
	return false
}

// number returns the device's number for a key, or NaN if it is absent.
func (d *device) number(key string) float64 {
	if v, ok := d.numbers[key]; ok && !d.lost {
		return v
	}
	return math.NaN()
}

// throttled returns the fraction of the window in which clocks were throttled, for the policy with
// the most throttling.
func (d *device) throttled() float64 {
	if d.Throttle == nil || d.lost {
		return math.NaN()
	}
	return d.Throttle.Ratio
}

// label returns the name of a board or, if there is none, its id, which is shortened if it is long.
// For an instance it returns the board's label and the instance's number, as in nvidia0/gi7.
func (d *device) label() string {
	if d.Parent == "" {
		return cmp.Or(d.Name, shortID(d.ID))
	}
	return cmp.Or(d.Name, shortID(d.Parent)) + "/" + d.instanceNumber()
}

// maxID is the maximum length of an id that is displayed in full.
const maxID = 24

func shortID(id string) string {
	if runes := []rune(id); len(runes) > maxID {
		return string(runes[:8]) + "…" + string(runes[len(runes)-4:])
	}
	return id
}

// instanceNumber returns the last part of an instance's id.
func (d *device) instanceNumber() string { return d.ID[strings.LastIndexByte(d.ID, '/')+1:] }

// holders returns the distinct containers that hold the device or, if folded, one of its instances.
func (d *device) holders(folded bool) []string {
	of := []*device{d}
	if folded {
		of = append(of, d.instances...)
	}
	var all []string
	for _, d := range of {
		for _, h := range d.Holders {
			name := strings.Trim(h.Namespace+"/"+h.Pod+"/"+h.Container, "/")
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// searchText returns all names that a search covers.
func (d *device) searchText() string {
	searchText := []string{d.ID, d.Name, d.Model, d.Vendor, d.Cluster, d.Node, d.Profile}
	for _, h := range d.Holders {
		searchText = append(searchText, h.Namespace, h.Pod, h.Container, h.Workload)
	}
	return strings.ToLower(strings.Join(searchText, " "))
}

// states are the states of hw.status, of which the last is the worst.
var states = signal.Values(signal.HardwareState)

// health returns the index of the device's state in states, or NaN if it is unknown.
func (d *device) health() float64 {
	for i, state := range slices.Backward(states) {
		if d.number(key(signal.HwStatus.Name, state)) > 0 {
			return float64(i)
		}
	}
	return math.NaN()
}

// problemShare is the fraction of the window at which a device counts as throttled or under memory
// pressure. It is the same as on the page.
const problemShare = 0.1

func (d *device) isThrottled() bool { return d.throttled() >= problemShare }
func (d *device) isUnderPressure() bool {
	return d.number(signal.MemoryPressureRatio.Name) >= problemShare
}
func (d *device) hasErrors() bool { return d.number(signal.XIDErrors.Name) > 0 }

func (d *device) problem() bool {
	return d.lost || d.isThrottled() || d.isUnderPressure() || d.hasErrors() || d.health() > 0
}

func instant(seconds float64) time.Time {
	return time.Unix(0, int64(seconds*1e9)).Round(time.Millisecond)
}

// compareNames compares by cluster, node, board, and name. Numbers in names are compared by value.
func compareNames(a, b *device) int {
	ra, rb := cmp.Or(a.board, a), cmp.Or(b.board, b)
	return cmp.Or(natural.Compare(a.Cluster, b.Cluster), natural.Compare(a.Node, b.Node), natural.Compare(ra.label(), rb.label()),
		strings.Compare(ra.ID, rb.ID), natural.Compare(a.label(), b.label()), strings.Compare(a.ID, b.ID))
}
