package dcgmsim

import (
	"slices"
	"time"
)

// These constants are the names of the scenarios.
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

	// The following scenarios are for testing findings. Each scenario simulates the fault that its
	// name describes.
	ScenarioSpinning           = "spinning"
	ScenarioLatchedUtilization = "latched-utilization"
	ScenarioSlowDevice         = "slow-device"
	ScenarioMemoryDegrading    = "memory-degrading"
	ScenarioFrozenTelemetry    = "frozen-telemetry"
)

// Scenarios returns the names of all scenarios.
func Scenarios() []string {
	return []string{
		ScenarioHealthy, ScenarioIdle, ScenarioPowerCapped, ScenarioThermal, ScenarioMemoryFilling, ScenarioXIDBurst,
		ScenarioMIG, ScenarioTimeSliced, ScenarioDRA, ScenarioSlurm, ScenarioRestart, ScenarioMixed,
		ScenarioVendors, ScenarioSpinning, ScenarioLatchedUtilization, ScenarioSlowDevice, ScenarioMemoryDegrading,
		ScenarioFrozenTelemetry,
	}
}

// mixedCast lists the scenarios of consecutive GPUs on a node in the mixed scenario. The dra
// scenario is omitted, because an exporter that maps virtual GPUs does not map claims. The slurm
// scenario is omitted, because batch jobs run outside Kubernetes. The restart scenario is omitted,
// because a restart affects all GPUs of a node.
var mixedCast = []string{
	ScenarioHealthy, ScenarioPowerCapped, ScenarioThermal, ScenarioMemoryFilling,
	ScenarioXIDBurst, ScenarioTimeSliced, ScenarioMIG, ScenarioIdle,
}

// casts maps each vendor to the scenarios of the vendor's devices in the vendors scenario. For each
// vendor, the list contains only scenarios whose values the vendor's exporter can expose.
var casts = map[vendor][]string{
	nvidia: mixedCast,
	amd:    {ScenarioPowerCapped, ScenarioThermal, ScenarioMemoryFilling, ScenarioIdle},
	google: {ScenarioHealthy, ScenarioMemoryFilling},
	aws:    {ScenarioHealthy, ScenarioMemoryFilling},
}

// The part function returns the scenario of the nth device on a vendor's node.
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

// stories maps each scenario to its story. All devices with the same scenario share the scenario's
// story.
type stories map[string]*story

// The of method returns the story of a scenario. In the memory-filling scenario, the loop takes
// five minutes. In a mixed scenario, the loop takes one minute, so that even the shortest windows
// contain a change. In a fault scenario, the fault lasts longer than the rules for findings
// require.
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

// scripts maps scenarios to the functions that create their stories. In a scenario without a
// script, the device is healthy.
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

// faults lists the scenarios whose loop takes half an hour.
var faults = []string{
	ScenarioSpinning, ScenarioLatchedUtilization, ScenarioSlowDevice, ScenarioMemoryDegrading, ScenarioFrozenTelemetry,
}

// pod is a holder of a device: a pod in the kubelet's PodResources API, or a batch job.
type pod struct {
	// job is the ID of a batch job. If job is set, the other fields are empty.
	job                             string
	namespace, name, container, uid string
	// vgpu is the replica number of a time-sliced device, or "" if the device is not shared.
	vgpu string
	// memoryShare and loadShare are the pod's shares of the device's memory and load. The shares
	// are used for per-process rows.
	memoryShare, loadShare float64
	claim                  *claim
}

// claim contains the values of the dra_* labels of an allocated device.
type claim struct {
	name, namespace, pool, device string
	migProfile, migUUID           string
}
