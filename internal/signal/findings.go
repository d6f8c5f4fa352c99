package signal

import "slices"

// Finding is the key of the attribute that contains the name of a finding. Each finding has the
// same name as its rule in [Findings].
const Finding = "gpu.finding"

// Names of findings, which are the values of gpu.finding.
const (
	FindingFrozen    = "frozen_telemetry"
	FindingSpinning  = "spinning"
	FindingLatched   = "latched_utilization"
	FindingSlow      = "slow_device"
	FindingDegrading = "memory_degrading"
)

// GPUFinding reports whether a finding currently applies to a device.
var GPUFinding = add(Metric{
	Name: Finding, Unit: "{state}", Int: true, Stage: StageWorkload,
	Description: "1 while the condition named by gpu.finding is true, 0 while it is false. Absent while a required signal is absent. Emitted by the stage gpu_findings.",
	Source:      "the rules of gpu_findings",
	Attributes:  []string{Finding},
})

// Attributes of log records for the start of a finding. All of these log records have an action and
// a start time. [FindingRule.Evidence] lists the other attributes.
const (
	EvidenceAction       = "gpu.finding.action"
	EvidenceSince        = "gpu.finding.since"
	EvidenceDevices      = "gpu.finding.devices"
	EvidenceDiffers      = "gpu.finding.differs"
	EvidenceUtilization  = "gpu.finding.utilization"
	EvidenceTensor       = "gpu.finding.tensor"
	EvidenceDRAM         = "gpu.finding.dram"
	EvidencePower        = "gpu.finding.power"
	EvidencePowerLimit   = "gpu.finding.power.limit"
	EvidencePowerIdle    = "gpu.finding.power.idle"
	EvidenceProcesses    = "gpu.finding.processes"
	EvidenceClock        = "gpu.finding.clock"
	EvidenceClockMedian  = "gpu.finding.clock.median"
	EvidenceCause        = "gpu.finding.cause"
	EvidenceThrottleTime = "gpu.finding.throttle.time"
	EvidenceCorrected    = "gpu.finding.corrected"
	EvidenceRate         = "gpu.finding.corrected.rate"
	EvidenceRows         = "gpu.finding.rows.remapped"
	EvidencePending      = "gpu.finding.rows.pending"
	EvidenceFields       = "gpu.finding.fields"
)

// FindingRule describes a rule of gpu_findings for users. Package findings evaluates the rules.
type FindingRule struct {
	// Name is the value of gpu.finding.
	Name string
	// Signals lists the signals that the rule requires. If the rule uses only samples with one
	// value of the signal's own attribute, that value follows the signal's name in braces. If the
	// rule can use alternative signals, Signals lists only the first alternative.
	Signals []string
	// Alternatives lists, for signals in Signals, the sets of signals that can replace the signal.
	Alternatives map[string][][]string
	// Condition describes when the finding occurs if the default settings are used.
	Condition string
	// Evidence lists the attributes of the log record for the start of the finding, except the
	// action and the start time.
	Evidence []string
	// Action describes what users should do about the finding.
	Action string
}

// Findings returns the rules in the order of the documentation. Callers must not modify the rules.
func Findings() []FindingRule { return slices.Clone(findingRules) }

// findingRules contains the rules in the order in which they are evaluated. The frozen_telemetry
// rule is first, because frozen values are not evidence for the other rules.
var findingRules = []FindingRule{
	{
		Name: FindingFrozen, Signals: []string{"hw.energy"},
		Alternatives: map[string][][]string{
			"hw.energy": {{"hw.power", "hw.temperature{gpu}", "gpu.clock.frequency{sm}", "gpu.clock.frequency{memory}"}},
		},
		Condition: "the exporter answers, but `hw.energy` (if it is missing: power, temperature and clocks) has not changed for 5m",
		Evidence:  []string{EvidenceFields},
		Action:    "Restart the exporter and its DCGM. If the values still do not change, check the driver. Until then, do not trust any value of the board.",
	},
	{
		Name:      FindingSpinning,
		Signals:   []string{"hw.gpu.utilization", "gpu.pipe.active{tensor}", "gpu.dram.active", "gpu.pcie.utilization", "hw.power", "gpu.power.limit", "gpu.device.holder"},
		Condition: "a held device has a utilization of at least 0.95 for 5m while its tensor pipes (0.01), memory (0.02) and links (0.01) are idle and its power is at most 0.4 of the limit",
		Evidence:  []string{EvidenceUtilization, EvidenceTensor, EvidenceDRAM, EvidencePower, EvidencePowerLimit, EvidenceDevices, EvidenceDiffers},
		Action:    "The kernels wait, and the job probably hangs. Dump the stacks of all ranks of the job, starting with the device that differs, then restart the job.",
	},
	{
		Name:      FindingLatched,
		Signals:   []string{"hw.gpu.utilization", "hw.power", "gpu.power.idle", "gpu.sharing.clients"},
		Condition: "the utilization is at least 0.95 for 10m while the power is within 10% of idle, and the device has no holder or no process",
		Evidence:  []string{EvidenceUtilization, EvidencePower, EvidencePowerIdle, EvidenceProcesses},
		Action:    "The utilization is wrong. Reset the GPU, or reload the driver, while nothing runs. Until then, do not use the utilization for billing or scaling.",
	},
	{
		Name:    FindingSlow,
		Signals: []string{"gpu.clock.frequency", "gpu.clock.event.active", "gpu.device.holder"},
		Alternatives: map[string][][]string{
			"gpu.clock.event.active": {{"gpu.clock.event.time"}, {"gpu.clock.throttle.time"}},
		},
		Condition: "one of at least 4 equal devices of a workload on the node has an SM clock below 0.9 of their median for 3m, and the driver reports a reason for lowered clocks or its PCIe link has fewer lanes or less capacity",
		Evidence:  []string{EvidenceClock, EvidenceClockMedian, EvidenceCause, EvidenceThrottleTime},
		Action:    "The whole job runs at the speed of this GPU. Depending on the cause, check its cooling or power. If the GPU stays slow, move the job or cordon the node.",
	},
	{
		Name:    FindingDegrading,
		Signals: []string{"hw.errors{corrected}"},
		Alternatives: map[string][][]string{
			"hw.errors{corrected}": {{"hw.errors{row_remap_uncorrectable}"}, {"hw.errors{row_remap_correctable}"}},
		},
		Condition: "more than 1,000 corrected memory errors per hour for 1h, or a pending row remap, or newly remapped rows within 1h",
		Evidence:  []string{EvidenceCorrected, EvidenceRate, EvidenceRows, EvidencePending},
		Action:    "Drain the GPU, reset it to apply pending row remaps, and run DCGM's memory diagnostic. If errors continue, replace the GPU.",
	},
}

// FindingEvidence returns a sorted list of all attributes that log records for the start of a
// finding can have.
func FindingEvidence() []string {
	all := []string{EvidenceSince, EvidenceAction}
	for i := range findingRules {
		all = append(all, findingRules[i].Evidence...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
