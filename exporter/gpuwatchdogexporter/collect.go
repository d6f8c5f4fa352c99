package gpuwatchdogexporter

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/decide"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

const (
	// maxDevices is the most devices that are kept; new ones beyond it are refused.
	maxDevices = 50_000
	// maxHolders is the most containers that are kept of one device.
	maxHolders = 1_000
	// maxSpare bounds what counts as unused of one budget, so that sums do not overflow.
	maxSpare = 1 << 45
	// contradicted is the value of a reading that was told in two ways: one that the
	// decision finds impossible.
	contradicted = -1
	// forgetAfter is how many times max_data_age a device is missed before it is
	// taken to be gone.
	forgetAfter = 5
)

// outcome is what became of a point.
type outcome int

const (
	accepted outcome = iota
	ignored          // of a metric, or a series of it, that is not looked at
	noValue          // without a value; a series that ended is one
	old              // older than one that was taken
	future           // sampled after now
	refused          // of a device or container beyond the limits
	outcomes
)

var outcomeNames = [outcomes]string{"accepted", "ignored", "no_value", "old", "future", "refused"}

// Parts of a frame.
const (
	hasHeadroom = 1 << iota
	hasUsage
	hasLimit
	hasState
	complete = hasHeadroom | hasUsage | hasLimit | hasState
)

// frame is what was told of a device at one time.
type frame struct {
	at                     time.Time
	has                    int
	headroom, usage, limit int64
	state                  decide.Attribution
	reason                 string // of the state
	conflict               bool
}

// set takes a value. The first one of a series counts, a second one that differs
// is a conflict.
func (f *frame) set(part int, field *int64, value int64) {
	if f.has&part != 0 {
		f.conflict = f.conflict || *field != value
		return
	}
	f.has |= part
	*field = value
}

// setState takes a state that holds.
func (f *frame) setState(state decide.Attribution, reason string) {
	if f.has&hasState != 0 {
		f.conflict = f.conflict || f.state != state
		return
	}
	f.has |= hasState
	f.state, f.reason = state, reason
}

type holderKey struct{ uid, namespace, pod, container string }

type holder struct {
	usage, budget decide.Reading
	// whole names what the budget is a share of, empty for one of its own.
	whole string
}

// wholeOf names what a budget is a share of: the budget processor splits evenly what
// names no device, and what several pods were given by one claim. Budgets of other
// exporters may name no device either.
func wholeOf(device decide.Device, of holderKey, budget pcommon.Map) string {
	switch text(budget, signal.BudgetSource) {
	case "extended_resource", "annotation", "exporter":
		return "pod " + of.uid
	case "dra":
		return strings.Join([]string{
			"claim", of.namespace, text(budget, signal.ResourceClaimName), text(budget, signal.DRAShareID), device.Node, device.ID,
		}, " ")
	}
	return ""
}

// device is what is known of a device. Parts of a frame may come in several
// batches, so the frame before is kept until the current one is complete.
type device struct {
	current, last frame
	holders       map[holderKey]*holder
	// watched is set by the series that the budget processor makes of every device
	// that it can judge. Boards whose memory is given out as MIG instances have none.
	watched bool
}

// counter is the energy counter of a board, which moves as long as the board has
// power and somebody reads it.
type counter struct {
	joules    float64
	at, moved time.Time // of the newest sample, and of the first one with that value
}

// boardOf returns the board that a MIG instance belongs to, and a board itself.
func boardOf(d decide.Device) decide.Device {
	d.ID, _, _ = strings.Cut(d.ID, "/")
	return d
}

// collection is the newest samples of all devices. Its methods are safe for
// concurrent use.
type collection struct {
	maxAge time.Duration

	mu      sync.Mutex
	devices map[decide.Device]*device
	energy  map[decide.Device]*counter // by board
}

func newCollection(maxAge time.Duration) *collection {
	return &collection{maxAge: maxAge, devices: map[decide.Device]*device{}, energy: map[decide.Device]*counter{}}
}

// take takes a batch in and returns how many points had which outcome.
func (c *collection) take(md pmetric.Metrics, now time.Time) (counts [outcomes]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := 0
	for _, rm := range md.ResourceMetrics().All() {
		place := readPlace(rm.Resource().Attributes())
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				name := m.Name()
				if ofContainer, known := lookedAt[name]; !known || ofContainer != place.ofContainer() {
					continue
				}
				var points pmetric.NumberDataPointSlice
				switch m.Type() {
				case pmetric.MetricTypeGauge:
					points = m.Gauge().DataPoints()
				case pmetric.MetricTypeSum:
					points = m.Sum().DataPoints()
				default:
					continue
				}
				seen += points.Len()
				for _, dp := range points.All() {
					counts[c.point(place, name, dp, now)]++
				}
			}
		}
	}
	counts[ignored] += int64(md.DataPointCount() - seen)
	return counts
}

// lookedAt are the metrics that are looked at, and whether in series of containers or
// of devices, which come again for each holder.
var lookedAt = map[string]bool{
	signal.GPUMemoryHeadroom.Name:         false,
	signal.HwGPUMemoryUsage.Name:          false,
	signal.HwGPUMemoryLimit.Name:          false,
	signal.GPUMemoryAttributionState.Name: false,
	signal.HwEnergy.Name:                  false,

	signal.K8sContainerGPUMemoryUsage.Name:  true,
	signal.K8sContainerGPUMemoryBudget.Name: true,
}

// place is what a Resource says: the node, and for container series the container.
type place struct {
	node   string
	holder holderKey
}

func (p *place) ofContainer() bool { return p.holder != holderKey{} }

func readPlace(attributes pcommon.Map) place {
	return place{
		node: cmp.Or(text(attributes, signal.K8sNodeName), text(attributes, signal.HostName)),
		holder: holderKey{
			uid: text(attributes, signal.K8sPodUID), namespace: text(attributes, signal.K8sNamespaceName),
			pod: text(attributes, signal.K8sPodName), container: text(attributes, signal.K8sContainerName),
		},
	}
}

// text returns an attribute, empty when it is not there.
func text(attributes pcommon.Map, key string) string {
	v, ok := attributes.Get(key)
	if !ok {
		return ""
	}
	return v.AsString()
}

// point takes a point of a metric that is looked at.
func (c *collection) point(at place, name string, dp pmetric.NumberDataPoint, now time.Time) outcome {
	key := decide.Device{Node: at.node, ID: text(dp.Attributes(), signal.HardwareID)}
	if key.Node == "" || key.ID == "" {
		return ignored
	}
	if dp.Flags().NoRecordedValue() || dp.ValueType() == pmetric.NumberDataPointValueTypeEmpty {
		c.end(key, at.holder, name)
		return noValue
	}
	if name == signal.HwEnergy.Name {
		return c.takeEnergy(boardOf(key), dp, now)
	}
	sampled := dp.Timestamp().AsTime()
	switch {
	case sampled.Sub(now) > decide.FutureTolerance:
		return future
	case now.Sub(sampled) > forgetAfter*c.maxAge:
		return old
	}
	d := c.devices[key]
	if d == nil {
		if len(c.devices) >= maxDevices {
			return refused
		}
		d = &device{holders: map[holderKey]*holder{}}
		c.devices[key] = d
	}
	if at.ofContainer() {
		return d.takeHolder(key, at.holder, name, dp, decide.Reading{Bytes: bytes(dp), At: sampled})
	}
	return d.take(name, dp, sampled)
}

func (c *collection) takeEnergy(board decide.Device, dp pmetric.NumberDataPoint, now time.Time) outcome {
	sampled, joules := dp.Timestamp().AsTime(), dp.DoubleValue()
	if dp.ValueType() == pmetric.NumberDataPointValueTypeInt {
		joules = float64(dp.IntValue())
	}
	if sampled.Sub(now) > decide.FutureTolerance {
		return future
	}
	e := c.energy[board]
	switch {
	case e == nil && len(c.energy) >= maxDevices:
		return refused
	case e == nil:
		c.energy[board] = &counter{joules: joules, at: sampled, moved: sampled}
		return accepted
	case sampled.Before(e.at):
		return old
	case joules != e.joules:
		e.joules, e.moved = joules, sampled
	}
	e.at = sampled
	return accepted
}

// bytes returns a point's value; what is no number of bytes is below zero, which
// the decision finds impossible.
func bytes(dp pmetric.NumberDataPoint) int64 {
	if dp.ValueType() == pmetric.NumberDataPointValueTypeInt {
		return dp.IntValue()
	}
	v := dp.DoubleValue()
	if math.IsNaN(v) || math.Abs(v) >= 1<<62 {
		return -1
	}
	return int64(v)
}

func (d *device) take(name string, dp pmetric.NumberDataPoint, at time.Time) outcome {
	f := d.frame(at)
	if f == nil {
		return old
	}
	switch name {
	case signal.GPUMemoryHeadroom.Name:
		d.watched = true
		f.set(hasHeadroom, &f.headroom, bytes(dp))
	case signal.HwGPUMemoryUsage.Name:
		f.set(hasUsage, &f.usage, bytes(dp))
	case signal.HwGPUMemoryLimit.Name:
		f.set(hasLimit, &f.limit, bytes(dp))
	default:
		d.watched = true
		if bytes(dp) != 1 {
			return accepted // a state that does not hold
		}
		f.setState(attribution(text(dp.Attributes(), signal.State)), text(dp.Attributes(), signal.Reason))
	}
	return accepted
}

// attribution returns a state by its name; one that is not known allows nothing.
func attribution(state string) decide.Attribution {
	switch state {
	case "valid":
		return decide.Valid
	case "partial":
		return decide.Partial
	default:
		return decide.Invalid
	}
}

// frame returns the frame for a sample time, nil when newer ones came before.
func (d *device) frame(at time.Time) *frame {
	switch {
	case at.Equal(d.current.at):
		return &d.current
	case at.After(d.current.at):
		if d.current.has == complete {
			d.last = d.current
		}
		d.current = frame{at: at}
		return &d.current
	case at.Equal(d.last.at):
		return &d.last
	default:
		return nil
	}
}

func (d *device) takeHolder(
	on decide.Device, key holderKey, name string, dp pmetric.NumberDataPoint, r decide.Reading,
) outcome {
	h := d.holders[key]
	if h == nil {
		if len(d.holders) >= maxHolders {
			return refused
		}
		h = &holder{}
		d.holders[key] = h
	}
	reading := &h.usage
	if name == signal.K8sContainerGPUMemoryBudget.Name {
		reading = &h.budget
		h.whole = wholeOf(on, key, dp.Attributes())
	}
	if r.At.Before(reading.At) {
		return old
	}
	if r.At.Equal(reading.At) && r.Bytes != reading.Bytes {
		r.Bytes = contradicted
	}
	*reading = r
	return accepted
}

// end forgets a series that was said to have ended.
func (c *collection) end(key decide.Device, container holderKey, name string) {
	d := c.devices[key]
	if d == nil {
		return
	}
	switch name {
	case signal.K8sContainerGPUMemoryUsage.Name:
		if h := d.holders[container]; h != nil {
			h.usage = decide.Reading{}
		}
	case signal.K8sContainerGPUMemoryBudget.Name:
		if h := d.holders[container]; h != nil {
			h.budget = decide.Reading{}
		}
	case signal.GPUMemoryHeadroom.Name:
		delete(c.devices, key)
	}
}

// observed is a device and its newest sample, which is nil while there is none.
type observed struct {
	device decide.Device
	sample *decide.Sample
	reason string // of the attribution's state
}

// samples returns all devices in a fixed order. Those that were missed for long
// are forgotten.
func (c *collection) samples(now time.Time) []observed {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]observed, 0, len(c.devices))
	spare := map[string]int64{} // of each whole
	for board, e := range c.energy {
		if now.Sub(e.at) > forgetAfter*c.maxAge {
			delete(c.energy, board)
		}
	}
	for key, d := range c.devices {
		newest := d.current.at
		for k, h := range d.holders {
			if h.usage.At.After(newest) {
				newest = h.usage.At
			}
			if now.Sub(h.usage.At) > c.maxAge && now.Sub(h.budget.At) > c.maxAge {
				delete(d.holders, k)
			}
		}
		if now.Sub(newest) > forgetAfter*c.maxAge {
			delete(c.devices, key)
			continue
		}
		if !d.watched {
			continue
		}
		o := observed{device: key}
		o.sample, o.reason = d.sample()
		if e := c.energy[boardOf(key)]; e != nil && o.sample != nil && now.Sub(e.at) <= c.maxAge {
			o.sample.Moved = e.moved
		}
		all = append(all, o)
		for _, h := range d.holders {
			spare[h.whole] += h.spare()
		}
	}
	for _, o := range all {
		c.putSpare(o, spare)
	}
	slices.SortFunc(all, func(a, b observed) int {
		return cmp.Or(cmp.Compare(a.device.Node, b.device.Node), cmp.Compare(a.device.ID, b.device.ID))
	})
	return all
}

// spare is what a container leaves unused of its share of a budget. What it uses is
// nothing where that is not known.
func (h *holder) spare() int64 {
	if h.whole == "" || h.budget.Bytes <= 0 {
		return 0
	}
	return max(0, min(h.budget.Bytes, maxSpare)-max(0, h.usage.Bytes))
}

// putSpare tells a device's sample what is left unused elsewhere of the budgets that
// its pods have shares of: on other devices, or by other pods.
func (c *collection) putSpare(o observed, of map[string]int64) {
	if o.sample == nil {
		return
	}
	type share struct{ uid, whole string }
	elsewhere, counted := map[string]int64{}, map[share]bool{}
	for k, h := range c.devices[o.device].holders {
		if h.whole == "" {
			continue
		}
		if s := (share{k.uid, h.whole}); !counted[s] {
			counted[s] = true
			elsewhere[k.uid] += of[h.whole]
		}
		elsewhere[k.uid] -= h.spare()
	}
	o.sample.Spare = elsewhere
}

func (d *device) sample() (*decide.Sample, string) {
	f := &d.current
	if f.has != complete {
		f = &d.last
	}
	if f.has != complete {
		return nil, ""
	}
	s := &decide.Sample{
		At: f.at, Headroom: f.headroom, Usage: f.usage, Limit: f.limit, Attribution: f.state, Conflict: f.conflict,
	}
	for k, h := range d.holders {
		s.Holders = append(s.Holders, decide.Holder{
			Namespace: k.namespace, Pod: k.pod, UID: k.uid, Container: k.container, Usage: h.usage, Budget: h.budget,
		})
	}
	return s, f.reason
}

// count returns how many devices are watched.
func (c *collection) count() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := int64(0)
	for _, d := range c.devices {
		if d.watched {
			n++
		}
	}
	return n
}

// clear forgets everything: the times of samples mean nothing after the clock was
// set.
func (c *collection) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.devices)
	clear(c.energy)
}
