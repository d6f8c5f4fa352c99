package findings

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// The rules, in the order of the table. Their names are the values of gpu.finding.
const (
	frozen = iota
	spinning
	latched
	slow
	degrading
	numRules
)

// verdict is the result of a rule for one sample.
type verdict uint8

const (
	unknown verdict = iota // a signal that the rule needs is absent
	no
	yes
)

func verdictOf(holds bool) verdict {
	if holds {
		return yes
	}
	return no
}

// Rule is a row of the table.
type Rule struct {
	// Name is the value of gpu.finding.
	Name string
	// Signals are the signals that the rule needs. If only one value of a signal's own attribute
	// counts, the value is in braces. If there are alternatives, only the first one is listed.
	Signals []string
	// Condition is what must hold, with the default settings.
	Condition string
	// Evidence lists the attributes of the start event.
	Evidence []string
	// Action is what to do about the finding.
	Action string

	// averaged is true if the condition itself already covers the time of the rule. A finding then
	// starts at once.
	averaged bool
	judging  func(*Settings) *Judging
	judge    func(*view) verdict
	// evidence returns a finding with the attributes and the readable text of the start event. It
	// returns nil if the cause is not known yet; the finding then does not start.
	evidence func(*view) *gpudata.Finding
}

// view is the rules' view of one device in one frame.
type view struct {
	set  *Settings
	d    *gpudata.DeviceFrame
	r    reading
	m    *memory
	time int64
	// still is how long the values have not changed.
	still time.Duration
	// holders describes who holds the device.
	holders holders
	// all has the views of all devices in the frame, including this one.
	all []view
	now [numRules]verdict // for this frame
}

// Attributes of the start and end events of findings.
const (
	AttrAction       = "gpu.finding.action"
	AttrSince        = "gpu.finding.since"
	AttrDevices      = "gpu.finding.devices"
	AttrDiffers      = "gpu.finding.differs"
	AttrUtilization  = "gpu.finding.utilization"
	AttrTensor       = "gpu.finding.tensor"
	AttrDRAM         = "gpu.finding.dram"
	AttrPower        = "gpu.finding.power"
	AttrPowerLimit   = "gpu.finding.power.limit"
	AttrPowerIdle    = "gpu.finding.power.idle"
	AttrProcesses    = "gpu.finding.processes"
	AttrClock        = "gpu.finding.clock"
	AttrClockMedian  = "gpu.finding.clock.median"
	AttrCause        = "gpu.finding.cause"
	AttrThrottleTime = "gpu.finding.throttle.time"
	AttrCorrected    = "gpu.finding.corrected"
	AttrRate         = "gpu.finding.corrected.rate"
	AttrRows         = "gpu.finding.rows.remapped"
	AttrPending      = "gpu.finding.rows.pending"
	AttrFields       = "gpu.finding.fields"
)

// causeLink is the value of AttrCause for a PCIe link of lower width or generation.
const causeLink = "pcie_link"

// rules is the table. frozen_telemetry is evaluated first, because frozen values are not evidence
// for other rules.
var rules [numRules]Rule

func init() { //nolint:gochecknoinits // the rows refer to functions that read the table
	rules = [numRules]Rule{
		frozen: {
			Name: "frozen_telemetry", Signals: []string{"hw.energy"},
			Condition: "the exporter answers, but `hw.energy` (if it is missing: power, temperature and clocks) has not changed for 5m",
			Evidence:  []string{AttrFields},
			Action:    "Restart the exporter and its DCGM. If the values still do not change, check the driver. Until then, do not trust any value of the board.",
			judging:   func(s *Settings) *Judging { return &s.FrozenTelemetry },
			judge:     judgeFrozen, evidence: frozenEvidence,
		},
		spinning: {
			Name:      "spinning",
			Signals:   []string{"hw.gpu.utilization", "gpu.pipe.active{tensor}", "gpu.dram.active", "gpu.pcie.utilization", "hw.power", "gpu.power.limit", "gpu.device.holder"},
			Condition: "a held device has a utilization of at least 0.95 for 5m while its tensor pipes (0.01), memory (0.02) and links (0.01) are idle and its power is at most 0.4 of the limit",
			Evidence:  []string{AttrUtilization, AttrTensor, AttrDRAM, AttrPower, AttrPowerLimit, AttrDevices, AttrDiffers},
			Action:    "The kernels wait, and the job probably hangs. Dump the stacks of all ranks of the job, starting with the device that differs, then restart the job.",
			judging:   func(s *Settings) *Judging { return &s.Spinning.Judging },
			judge:     judgeSpinning, evidence: spinningEvidence,
		},
		latched: {
			Name:      signal.FindingLatched,
			Signals:   []string{"hw.gpu.utilization", "hw.power", "gpu.power.idle", "gpu.sharing.clients"},
			Condition: "the utilization is at least 0.95 for 10m while the power is within 10% of idle, and the device has no holder or no process",
			Evidence:  []string{AttrUtilization, AttrPower, AttrPowerIdle, AttrProcesses},
			Action:    "The utilization is wrong. Reset the GPU, or reload the driver, while nothing runs. Until then, do not use the utilization for billing or scaling.",
			judging:   func(s *Settings) *Judging { return &s.LatchedUtilization.Judging },
			judge:     judgeLatched, evidence: latchedEvidence,
		},
		slow: {
			Name:      "slow_device",
			Signals:   []string{"gpu.clock.frequency", "gpu.clock.event.active", "gpu.device.holder"},
			Condition: "one of at least 4 equal devices of a workload on the node has an SM clock below 0.9 of their median for 3m, and the driver reports a reason for lowered clocks or its PCIe link has less capacity",
			Evidence:  []string{AttrClock, AttrClockMedian, AttrCause, AttrThrottleTime},
			Action:    "The whole job runs at the speed of this GPU. Depending on the cause, check its cooling or power. If the GPU stays slow, move the job or cordon the node.",
			judging:   func(s *Settings) *Judging { return &s.SlowDevice.Judging },
			judge:     judgeSlow, evidence: slowEvidence,
		},
		degrading: {
			Name:      "memory_degrading",
			Signals:   []string{"hw.errors{corrected}"},
			Condition: "more than 1,000 corrected memory errors per hour for 1h, or a pending row remap, or newly remapped rows within 1h",
			Evidence:  []string{AttrCorrected, AttrRate, AttrRows, AttrPending},
			Action:    "Drain the GPU, reset it to apply pending row remaps, and run DCGM's memory diagnostic. If errors continue, replace the GPU.",
			averaged:  true,
			judging:   func(s *Settings) *Judging { return &s.MemoryDegrading.Judging },
			judge:     judgeDegrading, evidence: degradingEvidence,
		},
	}
}

// Table returns the rules in the order of the documentation.
func Table() []Rule { return slices.Clone(rules[:]) }

// Attributes returns all attributes that start events of rules can have.
func Attributes() []string {
	all := []string{AttrSince, AttrAction}
	for i := range rules {
		all = append(all, rules[i].Evidence...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// board reports whether the device is a board. An instance has no power, clocks or errors of its
// own.
func (v *view) board() bool { return v.d.Parent == "" }

func judgeFrozen(v *view) verdict {
	if v.m.fingerprint == 0 || !v.board() {
		return unknown
	}
	return verdictOf(v.still > 0)
}

func frozenEvidence(v *view) *gpudata.Finding {
	_, fields := fingerprint(&v.r)
	return &gpudata.Finding{
		Body:  fmt.Sprintf("the exporter answers, but %v has not changed for %.0f s", fields, v.still.Seconds()),
		Lists: map[string][]string{AttrFields: fields},
	}
}

func judgeSpinning(v *view) verdict {
	r, s := &v.r, &v.set.Spinning
	if !r.known(utilization, tensor, dram, pcie, power, limit) || !v.holders.known || r.known(nvlinkRate) && !r.known(nvlink) {
		return unknown
	}
	running := v.holders.held && (!v.d.Listed || v.d.Count > 0)
	return verdictOf(running && r[utilization] >= s.Utilization && r[tensor] <= s.Tensor && r[dram] <= s.DRAM &&
		r[pcie] <= s.Links && !(r[nvlink] > s.Links) && r[power] <= s.Power*r[limit])
}

func spinningEvidence(v *view) *gpudata.Finding {
	m := v.m.mean.of()
	return &gpudata.Finding{
		Body: fmt.Sprintf("utilization %.2f at %.0f W of %.0f W with tensor pipes %.3f and memory %.3f: kernels wait", m[0], m[3], v.r[limit], m[1], m[2]),
		Numbers: map[string]float64{
			AttrUtilization: m[0], AttrTensor: m[1], AttrDRAM: m[2], AttrPower: m[3], AttrPowerLimit: v.r[limit],
		},
	}
}

func judgeLatched(v *view) verdict {
	r, s := &v.r, &v.set.LatchedUtilization
	nobody, empty := v.holders.known && !v.holders.held, v.d.Listed && v.d.Count == 0
	if !r.known(utilization, power, idle) || !v.holders.known && !v.d.Listed {
		return unknown
	}
	return verdictOf((nobody || empty) && r[utilization] >= s.Utilization && r[power] <= (1+s.Power)*r[idle])
}

func latchedEvidence(v *view) *gpudata.Finding {
	e := &gpudata.Finding{
		Body:    fmt.Sprintf("utilization %.2f at %.0f W, %.0f W idle, and nobody uses the device", v.r[utilization], v.r[power], v.r[idle]),
		Numbers: map[string]float64{AttrUtilization: v.r[utilization], AttrPower: v.r[power], AttrPowerIdle: v.r[idle]},
	}
	if v.d.Listed {
		e.Numbers[AttrProcesses] = float64(v.d.Count)
	}
	return e
}

func judgeSlow(v *view) verdict {
	r := &v.r
	if !r.known(smClock) || !r.anyOf(active, numReasons) && !r.anyOf(lowered, numCauses) {
		return unknown
	}
	equals := v.equals()
	if len(equals) < v.set.SlowDevice.Devices {
		return unknown
	}
	return verdictOf(r[smClock] < v.set.SlowDevice.Clock*median(equals, clockOf))
}

// equals returns the boards in the frame that have the same model and workload and a known SM
// clock, including this one. It returns nil if the device is an instance or has no workload.
func (v *view) equals() (equals []*view) {
	if v.holders.workload == (workload{}) || !v.board() {
		return nil
	}
	for i := range v.all {
		o := &v.all[i]
		if o.board() && o.d.Model == v.d.Model && o.holders.workload == v.holders.workload && o.r.known(smClock) {
			equals = append(equals, o)
		}
	}
	return equals
}

func clockOf(v *view) float64 { return v.r[smClock] }

func linkOf(v *view) float64 { return v.r[link] }

// slowEvidence returns nil if nothing explains the clock. Explanations are an active reason, a cause
// that was active for a tenth of the time, and a PCIe link with less capacity than that of the
// equal devices.
func slowEvidence(v *view) *gpudata.Finding {
	equals := v.equals()
	cause, most := v.loweredMost()
	if most < float64(seconds(v.time)-v.m.judged[slow].since)/10 {
		cause, most = "", 0
		if v.r[link] < v.set.SlowDevice.Clock*median(equals, linkOf) {
			cause = causeLink
		}
	}
	if i := slices.IndexFunc(v.r[active:active+numReasons], func(on float64) bool { return on > 0 }); i >= 0 {
		cause = reasons[i]
		if exact := v.loweredBy(i); !math.IsNaN(exact) {
			most = exact
		}
	}
	if cause == "" {
		return nil
	}
	middle := median(equals, clockOf)
	e := &gpudata.Finding{
		Texts:   map[string]string{AttrCause: cause},
		Numbers: map[string]float64{AttrClock: v.r[smClock], AttrClockMedian: middle},
		Body: fmt.Sprintf("the SM clock is %.0f MHz, the median of %d equal devices of the workload %.0f MHz: %s",
			v.r[smClock]/1e6, len(equals), middle/1e6, cause),
	}
	if most > 0 {
		e.Numbers[AttrThrottleTime] = most
	}
	return e
}

// loweredBy returns for how many seconds a cause lowered the clocks since the condition started.
func (v *view) loweredBy(cause int) float64 {
	return v.r[lowered+value(cause)] - float64(v.m.lowered[cause])
}

// loweredMost returns the cause that lowered the clocks for the longest time, and that time in
// seconds.
func (v *view) loweredMost() (cause string, most float64) {
	for i, name := range causes {
		if t := v.loweredBy(i); t > most {
			cause, most = name, t
		}
	}
	return cause, most
}

// median returns the middle value of the views, or the mean of the two middle values. NaN counts as
// the lowest value.
func median(views []*view, of func(*view) float64) float64 {
	n := len(views)
	values := make([]float64, n)
	for i, v := range views {
		values[i] = of(v)
	}
	slices.Sort(values)
	return (values[n/2] + values[(n-1)/2]) / 2
}

func judgeDegrading(v *view) verdict {
	r, m, wait := &v.r, v.m, v.set.MemoryDegrading.For
	switch {
	case !v.board():
		return unknown
	case r[pending] > 0 || m.grew(v.time, wait) || float64(m.rate) > v.set.MemoryDegrading.CorrectedPerHour:
		return yes
	case r[worse] > 0 || m.rate < 0 && !r.known(pending) && !r.known(rowsUncorrectable) && !r.known(rowsCorrectable): // no full period yet
		return unknown
	}
	return no
}

func degradingEvidence(v *view) *gpudata.Finding {
	e := &gpudata.Finding{Numbers: map[string]float64{}}
	var facts []string
	if v.r.known(corrected) {
		e.Numbers[AttrCorrected] = v.r[corrected]
	}
	if v.m.rate >= 0 {
		e.Numbers[AttrRate] = float64(v.m.rate)
		facts = append(facts, fmt.Sprintf("%.0f corrected errors an hour", v.m.rate))
	}
	for _, at := range [...]value{rowsUncorrectable, rowsCorrectable} {
		if v.r.known(at) {
			e.Numbers[AttrRows] += v.r[at]
		}
	}
	if rows, known := e.Numbers[AttrRows]; known {
		facts = append(facts, fmt.Sprintf("%.0f remapped rows", rows))
	}
	if v.r.known(pending) {
		e.Texts = map[string]string{AttrPending: strconv.FormatBool(v.r[pending] > 0)}
		facts = append(facts, fmt.Sprintf("a remap is pending: %t", v.r[pending] > 0))
	}
	e.Body = strings.Join(facts, ", ")
	return e
}
