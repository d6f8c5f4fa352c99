package demand

import (
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// addHealth emits the current health of the GPUs that are allocated to containers.
func (e *emission) addHealth() {
	if e.opts.Disabled[signal.K8sPodGPUHealth] {
		return
	}
	for _, p := range e.pods {
		place := Place{Node: p.Node, Namespace: p.Namespace, Pod: p.Name, PodUID: p.UID}
		for i := range p.Health {
			h := &p.Health[i]
			identity, gpu := h.Identity, h.Claim == "" && e.isGPU(h.Resource)
			if h.Claim != "" {
				identity, gpu = e.claimed(p, h)
			}
			if gpu {
				place.Container = h.Container
				e.int(signal.K8sPodGPUHealth, place, 1, append([]Attribute{
					{signal.Resource, h.Resource}, {signal.ResourceID, h.ID}, {signal.State, h.State},
				}, identity...)...)
			}
		}
	}
}

// The claimed method reports whether a device of a claim is a GPU, and returns the attributes that
// identify the device in telemetry.
func (e *emission) claimed(p *Pod, h *Health) (identity []Attribute, gpu bool) {
	var given []resourcev1.DeviceRequestAllocationResult
	c := e.claims[objectName{p.Namespace, h.Claim}]
	if c != nil && e.observed.Claims {
		given = results(c)
	}
	if len(given) == 0 {
		driver, _, _ := strings.Cut(h.ID, "/")
		return nil, slices.Contains(e.opts.Drivers, driver)
	}
	// A CDI ID does not identify the device of the claim to which the ID belongs.
	gpu = true
	for i := range given {
		r := &given[i]
		ofGPU := e.gpuResult(r, gpushare.ClassOf(c, r.Request))
		if h.ID == r.Driver+"/"+r.Pool+"/"+r.Device {
			return e.identity(r), ofGPU
		}
		gpu = gpu && ofGPU
	}
	if gpu && len(given) == 1 {
		identity = e.identity(&given[0])
	}
	return identity, gpu
}

// The identity method returns the attributes that identify an allocated device in telemetry, or nil
// if these attributes are unknown.
func (e *emission) identity(r *resourcev1.DeviceRequestAllocationResult) []Attribute {
	if !e.observed.Slices {
		return nil
	}
	if d := e.device(deviceID{r.Driver, r.Pool, r.Device}); d != nil {
		return d.identity
	}
	return nil
}
