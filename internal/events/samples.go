package events

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// The following metrics have one data point per state.
const (
	statusMetric = "hw.status"
	actionMetric = "gpu.recovery.action"
)

// Throttling is determined from one of the following metrics, listed in increasing order of
// preference.
const (
	eventActive  = "gpu.clock.event.active"
	eventTime    = "gpu.clock.event.time"
	throttleTime = "gpu.clock.throttle.time"
)

var throttleSources = []string{eventActive, eventTime, throttleTime}

var (
	powerBounds    = bounds{0.5, 0.3}
	throttleBounds = bounds{0.1, 0.05}
	pressureBounds = bounds{0.9, 0.5}
)

// A sample counts as memory pressure if the memory utilization is at least pressure.
const pressure = 0.9

// The samples method reads the samples of a device. The last argument is the time of the device's
// previous frame with which the samples may be compared, or 0 if there is no such frame.
func (c *frame) samples(k *device, id string, d *gpudata.DeviceFrame, before int64) {
	source := -1
	samples := d.Samples.All()
	for i := range samples {
		if s := &samples[i]; !s.Ended {
			source = max(source, slices.Index(throttleSources, s.Metric.Name))
		}
	}
	if source >= 0 && source > slices.Index(throttleSources, k.Throttle) {
		c.endThrottles(k, id)
		k.Throttle, k.Throttles = throttleSources[source], nil
	}
	for i := range samples {
		s := &samples[i]
		if s.Ended {
			continue
		}
		switch name := s.Metric.Name; {
		case name == "hw.errors":
			c.errors(k, id, s, before)
		case name == statusMetric || name == actionMetric:
			c.state(k, id, s)
		case name == k.Throttle && s.Own != "sync_boost":
			c.throttle(k, id, s)
		case name == "hw.gpu.memory.utilization":
			c.pressure(k, id, s.Value >= pressure)
		}
	}
}

// The errors method sends an event if an error counter has increased.
func (c *frame) errors(k *device, id string, s *gpudata.Sample, before int64) {
	if s.Own == "" { // a data point without error.type shows only that errors are observed
		return
	}
	if k.Errors == nil {
		k.Errors = map[string]*total{}
	}
	t := k.Errors[s.Own]
	increase := 0.0
	switch {
	case t == nil && len(k.Errors) >= maxKinds:
		c.Refused.Add(1)
		return
	case t == nil:
		t = &total{}
		k.Errors[s.Own] = t
		if before != 0 && s.Start >= before {
			increase = s.Value
		}
	case c.f.Time <= t.Time:
		return
	case s.Value < t.Value || s.Start > t.Time:
		increase = s.Value
	default:
		increase = s.Value - t.Value
	}
	t.Time, t.Value = c.f.Time, s.Value
	if increase < 1 {
		return
	}
	e := Event{
		Name: Error, Severity: Warn, Count: int64(increase), Own: [2]string{signal.ErrorType, s.Own},
		Device: id,
	}
	e.describe()
	if code, ok := strings.CutPrefix(s.Own, signal.ErrorTypeXIDPrefix); ok {
		describeXID(&e, id, code)
		for _, a := range s.More {
			if v, ok := a.Value.(string); ok && a.Key == AttrSource {
				e.Texts[AttrSource] = v
			}
		}
		c.group(id, code, &e)
	}
	c.emit(k, id, e)
}

func describeXID(e *Event, id, code string) {
	e.Name, e.Texts = XID, map[string]string{}
	e.Body = fmt.Sprintf("GPU %s: XID %s.", id, code)
	n, err := strconv.Atoi(code)
	x, ok := exporters.XID(n)
	if err != nil || !ok {
		return
	}
	e.Texts[AttrMeaning], e.Texts[AttrAction], e.Texts[AttrCatalogueDate] = x.Meaning, x.Action.String(), exporters.XIDCatalogueDate
	e.Body = fmt.Sprintf("GPU %s: XID %s, %s. Action: %s.", id, code, x.Meaning, x.Advice())
	if x.Fatal { // the hw.status metric uses the same rule
		e.Severity = Err
	}
}

// For a metric that has one data point per state, the state method sends an event if the state has
// changed.
func (c *frame) state(k *device, id string, s *gpudata.Sample) {
	if s.Value != 1 {
		return
	}
	if k.States == nil {
		k.States = map[string]*state{}
	}
	name := s.Metric.Name
	was := k.States[name]
	if was != nil && c.f.Time <= was.Time {
		return
	}
	k.States[name] = &state{c.f.Time, s.Own}
	if was == nil || was.Value == s.Own {
		return
	}
	e := Event{
		Name: StatusChange, Severity: Warn, Own: [2]string{AttrMetric, name},
		Texts:  map[string]string{AttrFrom: was.Value, AttrTo: s.Own},
		Device: id,
	}
	e.describe()
	switch {
	case name == statusMetric && s.Own == "failed":
		e.Severity = Err
	case name == statusMetric && s.Own == "ok", name == actionMetric && s.Own == "none":
		e.Severity = Info
	}
	c.emit(k, id, e)
}

// The throttle method adds a sample from a throttling metric to the share of throttled time.
func (c *frame) throttle(k *device, id string, s *gpudata.Sample) {
	sh := k.Throttles[s.Own]
	if sh == nil {
		if k.Throttles == nil {
			k.Throttles = map[string]*share{}
		}
		sh = &share{}
		k.Throttles[s.Own] = sh
	}
	if c.f.Time <= sh.Last {
		return
	}
	if k.Throttle == eventActive {
		sh.flag(c.f.Time, s.Value != 0, int64(c.set.For), int64(c.set.MaxGap))
	} else {
		sh.counter(c.f.Time, s.Value, int64(c.set.For), int64(c.set.MaxGap))
	}
	b := throttleBounds
	switch s.Own {
	case "power", "sw_power_cap", "hw_power_brake":
		b = powerBounds
	}
	own := [2]string{throttleKey(k.Throttle), s.Own}
	switch started, ended, r := sh.turn(c.f.Time, b, int64(c.set.For)); {
	case started:
		c.emit(k, id, Event{
			Name: ThrottleStart, Severity: Warn, Own: own, Numbers: map[string]float64{AttrRatio: r},
			Body: fmt.Sprintf("GPU %s is throttled by %s, %.0f%% of the time.", id, s.Own, 100*r),
		})
	case ended:
		c.over(k, id, ThrottleEnd, own, sh, r, true)
	}
}

func throttleKey(source string) string {
	if source == throttleTime {
		return signal.ClockViolation
	}
	return signal.ClockEventReason
}

// The pressure method adds a sample of the memory utilization to the share of time with memory
// pressure.
func (c *frame) pressure(k *device, id string, on bool) {
	if k.Pressure == nil {
		k.Pressure = &share{}
	}
	if c.f.Time <= k.Pressure.Last {
		return
	}
	k.Pressure.flag(c.f.Time, on, int64(c.set.For), int64(c.set.MaxGap))
	switch started, ended, r := k.Pressure.turn(c.f.Time, pressureBounds, int64(c.set.For)); {
	case started:
		c.emit(k, id, Event{
			Name: PressureStart, Severity: Warn, Numbers: map[string]float64{AttrRatio: r},
			Body: fmt.Sprintf("GPU %s: the memory is nearly full, %.0f%% of the time.", id, 100*r),
		})
	case ended:
		c.over(k, id, PressureEnd, [2]string{}, k.Pressure, r, true)
	}
}

// The over method sends the event for the end of an active condition. The last argument is true if
// the ratio is known.
func (c *frame) over(k *device, id, name string, own [2]string, s *share, ratio float64, known bool) {
	d := seconds(c.f.Time - s.Open)
	s.Open = 0
	what := "memory pressure"
	if name == ThrottleEnd {
		what = "throttling by " + own[1]
	}
	e := Event{
		Name: name, Severity: Info, Own: own, Numbers: map[string]float64{AttrDuration: d},
		Body: fmt.Sprintf("GPU %s: %s ended after %.0f s.", id, what, d),
	}
	if known {
		e.Numbers[AttrRatio] = ratio
	}
	c.emit(k, id, e)
}

func (c *frame) endThrottles(k *device, id string) {
	for _, own := range slices.Sorted(maps.Keys(k.Throttles)) {
		if s := k.Throttles[own]; s.Open != 0 {
			c.over(k, id, ThrottleEnd, [2]string{throttleKey(k.Throttle), own}, s, 0, false)
		}
	}
}

// The end method ends all active conditions of a device.
func (c *frame) end(k *device, id string) {
	c.endThrottles(k, id)
	if k.Pressure != nil && k.Pressure.Open != 0 {
		c.over(k, id, PressureEnd, [2]string{}, k.Pressure, 0, false)
	}
}
