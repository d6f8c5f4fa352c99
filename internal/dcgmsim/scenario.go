package dcgmsim

import (
	"slices"
	"time"
)

// The scenarios.
const (
	ScenarioHealthy       = "healthy"
	ScenarioIdle          = "idle"
	ScenarioPowerCapped   = "power-capped"
	ScenarioThermal       = "thermal"
	ScenarioMemoryFilling = "memory-filling"
	ScenarioXIDBurst      = "xid-burst"
	ScenarioMIG           = "mig-7x1g"
	ScenarioTimeSliced    = "time-sliced"
	ScenarioDRA           = "dra"
	ScenarioSlurm         = "slurm"
	ScenarioRestart       = "restart"
	ScenarioMixed         = "mixed"
	ScenarioVendors       = "vendors"

	// The scenarios of findings: each has the fault of that name.
	ScenarioSpinning           = "spinning"
	ScenarioLatchedUtilization = "latched-utilization"
	ScenarioSlowDevice         = "slow-device"
	ScenarioMemoryDegrading    = "memory-degrading"
	ScenarioFrozenTelemetry    = "frozen-telemetry"
)

// Scenarios lists the names of all scenarios.
func Scenarios() []string {
	return []string{
		ScenarioHealthy, ScenarioIdle, ScenarioPowerCapped, ScenarioThermal, ScenarioMemoryFilling, ScenarioXIDBurst,
		ScenarioMIG, ScenarioTimeSliced, ScenarioDRA, ScenarioSlurm, ScenarioRestart, ScenarioMixed,
		ScenarioVendors, ScenarioSpinning, ScenarioLatchedUtilization, ScenarioSlowDevice, ScenarioMemoryDegrading,
		ScenarioFrozenTelemetry,
	}
}

// mixedCast is what the GPUs of a mixed node play in turn. DRA is not among
// them: an exporter that maps virtual GPUs does not map claims. Nor are jobs: they run
// outside Kubernetes.
var mixedCast = []string{
	ScenarioHealthy, ScenarioPowerCapped, ScenarioThermal, ScenarioMemoryFilling,
	ScenarioXIDBurst, ScenarioTimeSliced, ScenarioMIG, ScenarioIdle,
}

// casts are what the devices of a node play in the vendors scenario: what the vendor's
// exporter can show.
var casts = map[vendor][]string{
	nvidia: mixedCast,
	amd:    {ScenarioPowerCapped, ScenarioThermal, ScenarioMemoryFilling, ScenarioIdle},
	google: {ScenarioHealthy, ScenarioMemoryFilling},
	aws:    {ScenarioHealthy, ScenarioMemoryFilling},
}

// part returns the scenario that the n-th device of a vendor's node plays.
func part(scenario string, v vendor, n int) string {
	switch scenario {
	case ScenarioMixed:
		return mixedCast[n%len(mixedCast)]
	case ScenarioVendors:
		return casts[v][n%len(casts[v])]
	case ScenarioSlowDevice:
		if n > 0 {
			return ScenarioHealthy
		}
	}
	return scenario
}

// stories builds each story once for all devices that play it.
type stories map[string]*story

// of returns the story of a scenario. The filling of the memory takes five
// minutes where it is the whole scenario and one minute among others, so that
// the shortest windows of a mixed node show movement. Faults last longer than
// the rules of findings need.
func (s stories) of(scenario string, mixed bool) *story {
	if st, ok := s[scenario]; ok {
		return st
	}
	write, ok := scripts[scenario]
	if !ok {
		write = script.healthy
	}
	beat := time.Second
	switch {
	case scenario == ScenarioMemoryFilling && !mixed:
		beat = 5 * time.Second
	case slices.Contains(faults, scenario):
		beat = 30 * time.Second
	}
	st := write(script{beat})
	st.finish()
	s[scenario] = st
	return st
}

// scripts write the stories of scenarios; others play that of a healthy device.
var scripts = map[string]func(script) *story{
	ScenarioIdle:          script.idle,
	ScenarioPowerCapped:   script.powerCapped,
	ScenarioRestart:       script.powerCapped,
	ScenarioThermal:       script.thermal,
	ScenarioMemoryFilling: script.memoryFilling,
	ScenarioXIDBurst:      script.xidBurst,
	ScenarioMIG:           script.instances,
	ScenarioTimeSliced:    script.timeSliced,

	ScenarioSpinning:           script.spinning,
	ScenarioLatchedUtilization: script.latchedUtilization,
	ScenarioSlowDevice:         script.slowDevice,
	ScenarioMemoryDegrading:    script.memoryDegrading,
	ScenarioFrozenTelemetry:    script.frozenTelemetry,
}

// faults are the scenarios whose stories last half an hour.
var faults = []string{
	ScenarioSpinning, ScenarioLatchedUtilization, ScenarioSlowDevice, ScenarioMemoryDegrading, ScenarioFrozenTelemetry,
}

// pod is the holder of a device, as the kubelet's pod-resources API names it, or a batch job.
type pod struct {
	// job is the id of a batch job, which has nothing of a pod.
	job                             string
	namespace, name, container, uid string
	// vgpu is the replica of a time-sliced device, "" if it is not shared.
	vgpu string
	// memoryShare and loadShare are the pod's part of the device's memory and
	// load, for the rows per process.
	memoryShare, loadShare float64
	claim                  *claim
}

// claim has the values of the dra_* labels of an allocated device.
type claim struct {
	name, namespace, pool, device string
	migProfile, migUUID           string
}
