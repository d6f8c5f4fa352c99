package signal

// Finding is the attribute key for the name of a finding, which is a rule in the table of
// internal/findings.
const Finding = "gpu.finding"

// FindingLatched is the finding that a device's reported utilization is wrong.
const FindingLatched = "latched_utilization"

// GPUFinding reports whether a device has a named condition.
var GPUFinding = add(Metric{
	Name: Finding, Unit: "{state}", Int: true, Stage: StageWorkload,
	Description: "1 while the condition named by gpu.finding is true, 0 while it is false. Absent while a required signal is absent. Emitted by the stage gpu_findings.",
	Source:      "the rules of gpu_findings",
	Attributes:  []string{Finding},
})
