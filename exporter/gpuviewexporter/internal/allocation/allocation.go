package allocation

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/store"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Response is the response to an allocation query.
type Response struct {
	Code int `json:"code"`
	// Data always has exactly one element, which maps names to allocations.
	Data []map[string]*Allocation `json:"data"`
}

// Allocation describes the GPU usage of a container, pod, workload, namespace, claim, node or
// device during a time span.
type Allocation struct {
	Name       string     `json:"name"`
	Properties Properties `json:"properties"`
	// Window is the requested time span.
	Window Window `json:"window"`
	// Start is the start of the earliest window that is included, and End is the end of the latest
	// window. Minutes is the number of minutes between Start and End.
	Start   string  `json:"start"`
	End     string  `json:"end"`
	Minutes float64 `json:"minutes"`
	// GPUAllocation contains the combined values of all devices. GPUDevices contains the values of
	// each device.
	GPUAllocation GPU   `json:"gpuAllocation"`
	GPUDevices    []GPU `json:"gpuDevices"`
	// GPUHours is the time during which containers held boards, in board hours. GPUIdleHours is the
	// part of GPUHours during which the boards were idle. GPUCost and GPUCostIdle are the costs of
	// GPUHours and GPUIdleHours. If there are no usage counters, the hours and the costs are
	// absent.
	GPUHours     *float64 `json:"gpuHours,omitempty"`
	GPUIdleHours *float64 `json:"gpuIdleHours,omitempty"`
	GPUCost      *float64 `json:"gpuCost,omitempty"`
	GPUCostIdle  *float64 `json:"gpuCostIdle,omitempty"`
	// GPUCostCurrency is the ISO 4217 code of the currency of the costs. If there are several
	// currencies, GPUCostCurrency and the costs are absent.
	GPUCostCurrency string `json:"gpuCostCurrency,omitempty"`
	// GPUIdleSince is the time at which the last active device became idle. If a device is active,
	// GPUIdleSince is absent.
	GPUIdleSince string `json:"gpuIdleSince,omitempty"`
}

// Properties contains the properties that all parts of an allocation have in common.
type Properties struct {
	Cluster   string `json:"cluster,omitempty"`
	Node      string `json:"node,omitempty"`
	Container string `json:"container,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	// Claim is the name of the ResourceClaim.
	Claim string `json:"claim,omitempty"`
	// ControllerKind and Controller identify the workload that the pods belong to.
	ControllerKind string `json:"controllerKind,omitempty"`
	Controller     string `json:"controller,omitempty"`
}

// Window is a time span. The times are in UTC, in RFC 3339 format.
type Window struct {
	Start string `json:"start"`
	End   string `json:"end"`
}

// GPU describes one device, or several devices together. A field is absent if its value is unknown,
// was not observed, or differs between the devices. A value of 0 means that 0 was observed.
type GPU struct {
	// ID, Parent, MIGProfile and MIGUUID are set only for the elements of gpuDevices. ID is the
	// hw.id of the device. For a MIG instance, Parent is the hw.id of its board, and MIGProfile and
	// MIGUUID are the profile and the UUID of the instance.
	ID         string `json:"id,omitempty"`
	Parent     string `json:"parent,omitempty"`
	MIGProfile string `json:"migProfile,omitempty"`
	MIGUUID    string `json:"migUUID,omitempty"`

	GPUDevice string `json:"gpuDevice,omitempty"`
	GPUModel  string `json:"gpuModel,omitempty"`
	// GPUUUID is the UUID of the board. For a MIG instance, GPUUUID is the UUID of the instance's
	// board.
	GPUUUID     string `json:"gpuUUID,omitempty"`
	IsGPUShared *bool  `json:"isGPUShared,omitempty"`
	// GPUUsageAverage and GPUUsageMax are fractions between 0 and 1.
	GPUUsageAverage *float64 `json:"gpuUsageAverage,omitempty"`
	GPUUsageMax     *float64 `json:"gpuUsageMax,omitempty"`
	// Coverage is the fraction of the total window time that was observed.
	Coverage   float64    `json:"coverage"`
	Saturation Saturation `json:"saturation,omitempty"`
}

// Saturation contains the fields of OpenCost's GPUSaturation, in the order of the signal table.
// Values are fractions, bytes per second, or counts.
type Saturation []Measure

// Measure is one field of GPUSaturation. Value is either a number, or a map that contains a number
// for each value of the metric's own attribute.
type Measure struct {
	Name  string
	Value any
}

// MarshalJSON encodes the measures as one JSON object.
func (s Saturation) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, m := range s {
		if i > 0 {
			out = append(out, ',')
		}
		value, err := json.Marshal(m.Value)
		if err != nil {
			return nil, err
		}
		out = append(strconv.AppendQuote(out, m.Name), ':')
		out = append(out, value...)
	}
	return append(out, '}'), nil
}

// Aggregates returns the allowed values of the aggregate parameter, except for pod labels.
func Aggregates() []string {
	return []string{byContainer, byPod, byWorkload, byNamespace, byClaim, byNode, byDevice}
}

const (
	byContainer = "container"
	byPod       = "pod"
	byWorkload  = "workload"
	byNamespace = "namespace"
	// byClaim groups holders by the ResourceClaim through which a holder got the device.
	byClaim  = "claim"
	byNode   = "node"
	byDevice = "device"
	// byLabel is the prefix of aggregates that are pod labels. The prefix is followed by the key of
	// the label.
	byLabel = "label:"
)

// The unallocated constant is OpenCost's name for the group of items that lack the property that
// the query aggregates by.
const unallocated = "__unallocated__"

// A member is one series that belongs to a group.
type member struct {
	place  store.Place
	device *store.Device
	series *store.Series
	// The hold field is set only for container series. The holders slice contains the holders whose
	// spending is added to the allocation.
	hold    store.Hold
	holders []*store.Holder
	// Only windows whose end time is in the interval (from, to] are combined.
	from, to int64
}

// limitTo sets the from and to fields, so that only the most recent windows on the member's node
// are included. The span parameter is the length of the interval.
func (m *member) limitTo(v *store.View, span time.Duration) {
	m.to = v.Now
	if newest := v.NewestOf(m.device.Cluster, m.device.Node); newest > v.Now-int64(span) {
		m.to = newest
	}
	m.from = m.to - int64(span)
}

// Compute answers a query. The span parameter is the length of the time span in which windows are
// combined. Each node has its own time span, because the clocks of nodes differ, and a node whose
// clock is fast must not cause the windows of other nodes to be excluded. The time span of a node
// ends at the end of the node's newest window, or at the current time if the newest window is older
// than the length of the time span. The "node" and "device" aggregates use device series. All other
// aggregates use container series. Each device counts only once per allocation, even if several
// containers hold the device.
func Compute(s *store.Store, now time.Time, span time.Duration, aggregate string) *Response {
	out := map[string]*Allocation{}
	s.Read(now, func(v *store.View) {
		to := now.UnixNano()
		if newest, _ := v.Newest(); newest > to-int64(span) {
			to = newest
		}
		from := to - int64(span)
		window := Window{stamp(from), stamp(to)}
		for name, members := range group(v, aggregate) {
			for i := range members {
				members[i].limitTo(v, span)
			}
			if a := allocate(v, members, from, to); a != nil {
				a.Name, a.Window = name, window
				out[name] = a
			}
		}
	})
	return &Response{Code: 200, Data: []map[string]*Allocation{out}}
}

func stamp(t int64) string { return time.Unix(0, t).UTC().Format(time.RFC3339) }

// The group function returns the series that belong to each allocation, keyed by the name of the
// allocation. If there are several clusters, each name except a device's ID includes the cluster.
func group(v *store.View, aggregate string) map[string][]member {
	devices := v.Devices()
	several := slices.ContainsFunc(devices, func(d *store.Device) bool { return d.Cluster != devices[0].Cluster })
	out := map[string][]member{}
	label, byPodLabel := strings.CutPrefix(aggregate, byLabel)
	add := func(m member, parts ...string) {
		if several && aggregate != byDevice {
			parts = append([]string{m.place.Cluster}, parts...)
		}
		name := strings.Join(parts, "/")
		out[name] = append(out[name], m)
	}
	for _, d := range devices {
		deviceMember := member{place: store.Place{Cluster: d.Cluster, Node: d.Node}, device: d, series: &d.Series, holders: d.Holders()}
		switch aggregate {
		case byDevice:
			add(deviceMember, d.ID)
			continue
		case byNode:
			add(deviceMember, d.Node)
			continue
		}
		for _, h := range deviceMember.holders {
			m := member{place: h.Place, device: d, series: &h.Series, hold: h.Hold, holders: []*store.Holder{h}}
			switch inPod := h.Pod != "" || h.PodUID != ""; {
			case byPodLabel:
				m.place.Container, m.place.Pod = "", ""
				add(m, cmp.Or(labelOf(h, label), unallocated))
			case !inPod && aggregate == byNamespace:
				m.place.Container = ""
				add(m, unallocated)
			case aggregate == byClaim:
				m.place.Container, m.place.Pod = "", ""
				if h.Claim == "" {
					add(m, unallocated)
				} else {
					add(m, h.Namespace, h.Claim)
				}
			case !inPod:
				add(m, h.Container)
			case aggregate == byContainer:
				add(m, h.Namespace, h.Pod, h.Container)
			case aggregate == byPod:
				m.place.Container = ""
				add(m, h.Namespace, h.Pod)
			case aggregate == byWorkload:
				m.place.Container, m.place.Pod = "", ""
				if h.Workload == "" { // The pod has no owner, or its owner is unknown.
					m.hold.WorkloadKind, m.hold.Workload = "Pod", h.Pod
				}
				add(m, h.Namespace, m.hold.WorkloadKind, m.hold.Workload)
			default:
				m.place.Container, m.place.Pod = "", ""
				add(m, h.Namespace)
			}
		}
	}
	return out
}

// labelOf returns the value of a label of the holder's pod, or "" if the pod does not have the
// label. As in OpenCost's API, characters in the label key that are not allowed in Prometheus label
// names can be replaced with underscores.
func labelOf(h *store.Holder, wanted string) (value string) {
	for key, v := range h.Labels.All() {
		if key == wanted {
			return v
		}
		if value == "" && sanitize(key) == wanted {
			value = v
		}
	}
	return value
}

func sanitize(key string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, key)
}

// The allocate function combines the windows and the spending of the members. If there are no
// windows and no spending, allocate returns nil. The from and to parameters are the start and the
// end of the requested time span.
func allocate(v *store.View, members []member, from, to int64) *Allocation {
	a := &Allocation{}
	total := &store.Summary{}
	slices.SortStableFunc(members, func(x, y member) int {
		return cmp.Or(cmp.Compare(x.device.ID, y.device.ID), cmp.Compare(x.device.Number, y.device.Number))
	})
	var included []member
	var spent store.Spent
	var holders []*store.Holder
	for len(members) > 0 {
		d := members[0].device
		n := slices.IndexFunc(members, func(m member) bool { return m.device != d })
		if n < 0 {
			n = len(members)
		}
		sameDevice := members[:n]
		members = members[n:]
		series := make([]*store.Series, len(sameDevice))
		for i, m := range sameDevice {
			series[i] = m.series
		}
		sum := store.Summarize(sameDevice[0].from, sameDevice[0].to, series...)
		var deviceSpent store.Spent
		for _, m := range sameDevice {
			for _, h := range m.holders {
				deviceSpent.Add(h.Spent(m.from, m.to))
			}
		}
		if sum.Length == 0 && deviceSpent == (store.Spent{}) {
			continue
		}
		spent.Add(deviceSpent)
		for _, m := range sameDevice {
			included, holders = append(included, m), append(holders, m.holders...)
		}
		total.Merge(sum)
		g := describe(sum)
		g.ID, g.Parent, g.MIGProfile, g.MIGUUID = d.ID, d.Parent, d.MIGProfile, d.MIGUUID
		g.GPUDevice, g.GPUModel, g.GPUUUID = d.Name, d.Model, cmp.Or(d.Parent, d.ID)
		g.IsGPUShared = shared(v, sameDevice)
		a.GPUDevices = append(a.GPUDevices, g)
	}
	if len(a.GPUDevices) == 0 {
		return nil
	}
	if total.Length == 0 {
		total.Start, total.End = from, to
	}
	if len(a.GPUDevices) == 1 {
		a.GPUAllocation = a.GPUDevices[0]
		a.GPUAllocation.ID, a.GPUAllocation.Parent, a.GPUAllocation.MIGProfile, a.GPUAllocation.MIGUUID = "", "", "", ""
	} else {
		a.GPUAllocation = describe(total)
	}
	a.GPUAllocation.GPUDevice = common(a.GPUDevices, func(g GPU) string { return g.GPUDevice })
	a.GPUAllocation.GPUModel = common(a.GPUDevices, func(g GPU) string { return g.GPUModel })
	a.GPUAllocation.GPUUUID = common(a.GPUDevices, func(g GPU) string { return g.GPUUUID })
	for _, g := range a.GPUDevices {
		if g.IsGPUShared != nil && (a.GPUAllocation.IsGPUShared == nil || *g.IsGPUShared) {
			a.GPUAllocation.IsGPUShared = g.IsGPUShared
		}
	}
	a.Properties = Properties{
		Cluster:   common(included, func(m member) string { return m.place.Cluster }),
		Node:      common(included, func(m member) string { return m.place.Node }),
		Namespace: common(included, func(m member) string { return m.place.Namespace }),
		Pod:       common(included, func(m member) string { return m.place.Pod }),
		Container: common(included, func(m member) string { return m.place.Container }),

		Claim:          common(included, func(m member) string { return m.hold.Claim }),
		ControllerKind: common(included, func(m member) string { return m.hold.WorkloadKind }),
		Controller:     common(included, func(m member) string { return m.hold.Workload }),
	}
	const hour = 3600
	a.GPUHours, a.GPUIdleHours = amount(&spent, store.AllocatedTime, hour), amount(&spent, store.IdleTime, hour)
	a.GPUCost, a.GPUCostIdle = amount(&spent, store.Cost, 1), amount(&spent, store.CostIdle, 1)
	a.GPUCostCurrency = spent.Currency.String()
	for _, m := range included { // The time span of some nodes may start before the requested time span.
		from = min(from, m.from)
	}
	if since, ok := store.IdleSince(holders, from, to); ok {
		a.GPUIdleSince = stamp(since)
	}
	a.Start, a.End = stamp(total.Start), stamp(total.End)
	a.Minutes = round(float64(total.End-total.Start) / float64(time.Minute))
	return a
}

// The amount function returns the amount of a counter, divided by the given unit, or nil if the
// counter is missing. The result is not rounded, so that the parts of an aggregate add up to the
// total.
func amount(s *store.Spent, what store.Spending, unit float64) *float64 {
	if !s.Known[what] {
		return nil
	}
	return new(s.Amounts[what] / unit)
}

// The common function returns the value of a property if all elements have the same value, or "" if
// the values differ.
func common[T any](all []T, of func(T) string) string {
	first := of(all[0])
	for _, t := range all[1:] {
		if of(t) != first {
			return ""
		}
	}
	return first
}

// The shared function reports whether several containers share the device, or returns nil if the
// answer is unknown. The result is based on the sharing strategy of the container series or, if
// there is no sharing strategy, on the number of containers. For the board of a MIG instance that a
// container holds, the result is nil.
func shared(v *store.View, members []member) *bool {
	var known *bool
	for _, m := range members {
		switch m.hold.Sharing {
		case signal.SharingTimeSlicing, signal.SharingMPS, signal.SharingDRA:
			return new(true)
		case signal.SharingNone:
			known = new(false)
		}
	}
	if known == nil && members[0].hold.Sharing == "" {
		if n, ok := v.Gauge(members[0].device, store.SharingClients); ok {
			return new(n > 1)
		}
	}
	return known
}

// The describe function returns a GPU struct that contains the measured values from a summary.
func describe(s *store.Summary) GPU {
	g := GPU{
		GPUUsageAverage: number(s, store.FieldOf(signal.UtilizationAvg, "")),
		GPUUsageMax:     number(s, store.FieldOf(signal.UtilizationMax, "")),
	}
	if s.Length > 0 {
		g.Coverage = round(s.Observed / s.Length)
	}
	for _, m := range signal.All() {
		if m.OpenCost == "" || m.Stage != signal.StageWindow || m == signal.UtilizationAvg {
			continue
		}
		names := strings.Split(m.OpenCost, ", ")
		values := map[string]float64{}
		for i, f := range store.FieldsOf(m) {
			switch v := number(s, f); {
			case v == nil:
			case f.Value() == "" || len(names) > 1: // OpenCost may have a separate field for each attribute value.
				g.Saturation = append(g.Saturation, Measure{names[i], *v})
			default:
				values[f.Value()] = *v
			}
		}
		if len(values) > 0 {
			g.Saturation = append(g.Saturation, Measure{names[0], values})
		}
	}
	return g
}

// The number function returns the combined value of a field, or nil if the field has no value.
func number(s *store.Summary, f store.Field) *float64 {
	v, ok := s.Value(f)
	if !ok {
		return nil
	}
	return new(round(v))
}

// The round function rounds to seven significant digits, the precision of a float32. The result is
// an integer divided or multiplied by an exact power of ten, so that 0.3 is encoded as 0.3 and not
// as a longer number.
func round(v float64) float64 {
	if v == 0 {
		return 0
	}
	shift := 6 - int(math.Floor(math.Log10(math.Abs(v))))
	if shift < 0 {
		power := math.Pow10(-shift)
		return math.Round(v/power) * power
	}
	// Powers of ten are exact up to 1e22. Numbers that need a larger power of ten are negligible in
	// all units that the response uses.
	power := math.Pow10(min(shift, 22))
	return math.Round(v*power) / power
}
