package findings

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Indexes of the rules, in the order of [signal.Findings].
const (
	frozen = iota
	spinning
	latched
	slow
	degrading
	numRules
)

// verdict states whether a rule's condition holds for one sample.
type verdict uint8

const (
	unknown verdict = iota // the rule does not apply, or a value that it requires is not observed
	no
	yes
)

func verdictOf(holds bool) verdict {
	if holds {
		return yes
	}
	return no
}

// rules contains the functions of each rule. [signal.Findings] describes the rules for users.
var rules = [numRules]struct {
	judge func(*view) verdict
	// The evidence function adds the attributes of the start event to a finding and returns the
	// text for users. If the cause is not known yet, the evidence function returns "", and the
	// finding does not start.
	evidence func(*view, *gpudata.Finding) string
	// If the condition already covers the time that the rule requires, averaged is true, and a
	// finding starts as soon as the condition holds.
	averaged bool
}{
	frozen:    {judge: judgeFrozen, evidence: frozenEvidence},
	spinning:  {judge: judgeSpinning, evidence: spinningEvidence},
	latched:   {judge: judgeLatched, evidence: latchedEvidence},
	slow:      {judge: judgeSlow, evidence: slowEvidence},
	degrading: {judge: judgeDegrading, evidence: degradingEvidence, averaged: true},
}

var descriptions = signal.Findings()

// view contains the data about one device in one frame that the rules use.
type view struct {
	set *Settings
	d   *gpudata.DeviceFrame
	r   reading
	m   *memory
	dt  float32 // Observed time since the previous sample, in seconds; 0 if no time was observed.
	// held is true if the device is known to have a holder. holdersKnown is true if it is known
	// whether the device has a holder.
	held, holdersKnown bool
	// The workload to which all holders of the device belong, or the zero value if there is no such
	// workload.
	workload gpudata.Workload
	// Views of all devices in the frame, including this device.
	all []view
	now [numRules]verdict // verdicts for this frame
}

// board reports whether the device is a board. Only boards have values for power, clocks, and
// errors.
func (v *view) board() bool { return v.d.Parent == "" }

// These variables list the values that constantly change on a working board, and the metrics that
// contain these values. If a board has no energy counter, the values in the second list are used
// instead, unless the power is a whole number of watts. Power in whole watts may stay the same on
// an idle board.
var (
	changing, changingFields   = []value{energy}, []string{"hw.energy"}
	otherwise, otherwiseFields = []value{power, temperature, smClock, memoryClock}, []string{"gpu.clock.frequency", "hw.power", "hw.temperature"}
)

// fingerprint returns a hash of the values that constantly change, and the metrics that contain
// these values. If the board has no energy counter, and any of the other values is not observed or
// the power is a whole number of watts, the hash is 0.
func (r *reading) fingerprint() (hash uint32, fields []string) {
	values, fields := changing, changingFields
	if !(r[energy] > 0) { // 0 means that the board has no energy counter
		values, fields = otherwise, otherwiseFields
		if !r.known(values...) || r[power] == math.Trunc(r[power]) {
			return 0, nil
		}
	}
	var f uint64
	for _, v := range values {
		f = (f ^ math.Float64bits(r[v])) * 0x9E3779B97F4A7C15
	}
	return uint32(f>>32) | 1, fields
}

func judgeFrozen(v *view) verdict {
	before := v.m.fingerprint
	v.m.fingerprint, _ = v.r.fingerprint()
	if v.m.fingerprint == 0 || !v.board() {
		return unknown
	}
	return verdictOf(v.m.fingerprint == before && v.dt > 0)
}

func frozenEvidence(v *view, e *gpudata.Finding) string {
	_, fields := v.r.fingerprint()
	e.Lists[signal.EvidenceFields] = fields
	return fmt.Sprintf("the exporter answers, but %v has not changed for %.0f s", fields, v.m.judged[frozen].lasted)
}

func judgeSpinning(v *view) verdict {
	r, s := &v.r, &v.set.Spinning
	if !r.known(utilization, tensor, dram, pcie, power, limit) || !v.holdersKnown || r.known(nvlinkRate) && !r.known(nvlink) {
		return unknown
	}
	running := v.held && (!v.d.Listed || v.d.Count > 0)
	return verdictOf(running && r[utilization] >= s.Utilization && r[tensor] <= s.Tensor && r[dram] <= s.DRAM &&
		r[pcie] <= s.Links && !(r[nvlink] > s.Links) && r[power] <= s.Power*r[limit])
}

func spinningEvidence(v *view, e *gpudata.Finding) string {
	m := v.m.means
	for i, key := range [...]string{signal.EvidenceUtilization, signal.EvidenceTensor, signal.EvidenceDRAM, signal.EvidencePower} {
		e.Numbers[key] = float64(m[i])
	}
	e.Numbers[signal.EvidencePowerLimit] = v.r[limit]
	return fmt.Sprintf("utilization %.2f at %.0f W of %.0f W with tensor pipes %.3f and memory %.3f: kernels wait", m[0], m[3], v.r[limit], m[1], m[2])
}

// If the workload's spinning devices on the node form a group with a single finding, the together
// method returns these devices. Spinning devices form a group if all devices of the workload spin,
// or if the workload has at least three devices and all but one spin. Each other device in the
// group must have evidence for at least half of the time that the rule requires. If one device does
// not spin, the second result is that device. If another device of the workload already has a
// finding of the spinning rule, there is no group.
func (v *view) together() (group []*view, other *view) {
	if v.workload == (gpudata.Workload{}) {
		return nil, nil
	}
	half := seconds(v.set.Spinning.For / 2)
	for i := range v.all {
		o := &v.all[i]
		switch {
		case o.workload != v.workload:
		case o == v || o.now[spinning] == yes && o.m.open&bit(spinning) == 0 && o.m.judged[spinning].evidence >= half:
			group = append(group, o)
		case o.now[spinning] == no && o.m.open&bit(spinning) == 0 && other == nil:
			other = o
		default:
			return nil, nil
		}
	}
	if len(group) < 2 {
		return nil, nil
	}
	return group, other
}

// The differing function returns the device in a group whose power differs most from the median. If
// the difference is at most a tenth of the median, the result is nil.
func differing(group []*view) *view {
	mean := func(v *view) float64 { return float64(v.m.means[3]) }
	middle := median(group, mean)
	away := func(v *view) float64 { return math.Abs(mean(v) - middle) }
	most := slices.MaxFunc(group, func(a, b *view) int { return cmp.Compare(away(a), away(b)) })
	if away(most) <= middle/10 {
		return nil
	}
	return most
}

func judgeLatched(v *view) verdict {
	r, s := &v.r, &v.set.LatchedUtilization
	nobody, empty := v.holdersKnown && !v.held, v.d.Listed && v.d.Count == 0
	if !r.known(utilization, power, idle) || !v.holdersKnown && !v.d.Listed {
		return unknown
	}
	return verdictOf((nobody || empty) && r[utilization] >= s.Utilization && r[power] <= (1+s.Power)*r[idle])
}

func latchedEvidence(v *view, e *gpudata.Finding) string {
	e.Numbers[signal.EvidenceUtilization], e.Numbers[signal.EvidencePower] = v.r[utilization], v.r[power]
	e.Numbers[signal.EvidencePowerIdle] = v.r[idle]
	if v.d.Listed {
		e.Numbers[signal.EvidenceProcesses] = float64(v.d.Count)
	}
	return fmt.Sprintf("utilization %.2f at %.0f W, %.0f W idle, and nobody uses the device", v.r[utilization], v.r[power], v.r[idle])
}

func judgeSlow(v *view) verdict {
	observed := func(x float64) bool { return x >= 0 }
	equals := v.equals()
	if !v.r.known(smClock) || !slices.ContainsFunc(v.r[active:], observed) || len(equals) < v.set.SlowDevice.Devices {
		return unknown
	}
	return verdictOf(v.r[smClock] < v.set.SlowDevice.Clock*median(equals, of(smClock)))
}

// The equals method returns the boards in the frame, including this board, that have a known SM
// clock and the same model and workload as this board. If this device is a MIG instance or has no
// workload, the result is nil.
func (v *view) equals() (equals []*view) {
	if v.workload == (gpudata.Workload{}) || !v.board() {
		return nil
	}
	for i := range v.all {
		o := &v.all[i]
		if o.board() && o.d.Model == v.d.Model && o.workload == v.workload && o.r.known(smClock) {
			equals = append(equals, o)
		}
	}
	return equals
}

func of(x value) func(*view) float64 { return func(v *view) float64 { return v.r[x] } }

// linkOf returns the capacity of the device's PCIe link in one direction, or NaN if the capacity is
// unknown.
func linkOf(v *view) float64 {
	if v.r[pcie] > 0 && v.r[pcie] < 1 { // a utilization of 1 may have been clamped
		return v.r[pcieRate] / v.r[pcie]
	}
	return math.NaN()
}

// slowEvidence adds the evidence for a slow clock to the finding and returns the text for users. If
// nothing explains the slow clock, slowEvidence returns "". Possible explanations are a clock event
// reason that is currently active, a cause that was active for at least a tenth of the time, and a
// PCIe link that has fewer lanes or less capacity than the links of equal devices.
func slowEvidence(v *view, e *gpudata.Finding) string {
	equals := v.equals()
	cause, throttled := "", 0.0
	for i, name := range causes {
		if exact := v.loweredBy(i); exact > throttled && exact >= float64(v.m.judged[slow].lasted)/10 {
			cause, throttled = name, exact
		}
	}
	narrower := v.r[lanes] < median(equals, of(lanes)) && v.r[utilization] > 0 // some GPUs use fewer lanes while they are idle
	if cause == "" && (narrower || linkOf(v) < v.set.SlowDevice.Clock*median(equals, linkOf)) {
		cause = "pcie_link"
	}
	if i := slices.IndexFunc(v.r[active:int(active)+len(reasons)], func(on float64) bool { return on > 0 }); i >= 0 {
		cause = reasons[i]
		if exact := v.loweredBy(i); exact >= 0 {
			throttled = exact
		}
	}
	if cause == "" {
		return ""
	}
	if throttled > 0 {
		e.Numbers[signal.EvidenceThrottleTime] = throttled
	}
	middle := median(equals, of(smClock))
	e.Texts[signal.EvidenceCause] = cause
	e.Numbers[signal.EvidenceClock], e.Numbers[signal.EvidenceClockMedian] = v.r[smClock], middle
	return fmt.Sprintf("the SM clock is %.0f MHz, the median of %d equal devices of the workload %.0f MHz: %s", v.r[smClock]/1e6, len(equals), middle/1e6, cause)
}

// loweredBy returns how long a cause has lowered the clocks since the condition started to hold, in
// seconds. If the time is unknown, loweredBy returns NaN.
func (v *view) loweredBy(cause int) float64 {
	return v.r[lowered+value(cause)] - float64(v.m.lowered[cause])
}

// median returns the median of a value across the views. NaN is treated as lower than all other
// values.
func median(views []*view, of func(*view) float64) float64 {
	n := len(views)
	values := make([]float64, n)
	for i, v := range views {
		values[i] = of(v)
	}
	slices.Sort(values)
	return (values[n/2] + values[(n-1)/2]) / 2
}

// rowRemap reports whether a row remap is pending. The verdict is unknown if hw.status is not
// observed or shows a worse state, which would hide a pending row remap.
func (v *view) rowRemap() verdict {
	isPending := v.d.FailurePredicted || v.r[pending] > 0
	if !isPending && (!v.r.known(pending) || v.r[worse] > 0 || v.r[worse+1] > 0) {
		return unknown
	}
	return verdictOf(isPending)
}

func judgeDegrading(v *view) verdict {
	remap := v.rowRemap()
	switch {
	case !v.board():
		return unknown
	case remap == yes || v.m.growing > 0 || float64(v.m.rate) > v.set.MemoryDegrading.CorrectedPerHour:
		return yes
	case remap == unknown && (v.r.known(pending) || v.m.rate < 0 && !v.r.known(remapped) && !v.r.known(remapped+1)): // a worse state may hide a pending remap, or the first period is not complete yet
		return unknown
	}
	return no
}

func degradingEvidence(v *view, e *gpudata.Finding) string {
	var facts []string
	if v.r.known(corrected) {
		e.Numbers[signal.EvidenceCorrected] = v.r[corrected]
	}
	if v.m.rate >= 0 {
		e.Numbers[signal.EvidenceRate] = float64(v.m.rate)
		facts = append(facts, fmt.Sprintf("%.0f corrected errors an hour", v.m.rate))
	}
	for i := range value(2) {
		if v.r.known(remapped + i) {
			e.Numbers[signal.EvidenceRows] += v.r[remapped+i]
		}
	}
	if rows, known := e.Numbers[signal.EvidenceRows]; known {
		facts = append(facts, fmt.Sprintf("%.0f remapped rows", rows))
	}
	if remap := v.rowRemap(); remap != unknown {
		e.Texts[signal.EvidencePending] = strconv.FormatBool(remap == yes)
		facts = append(facts, fmt.Sprintf("a remap is pending: %t", remap == yes))
	}
	return strings.Join(facts, ", ")
}
