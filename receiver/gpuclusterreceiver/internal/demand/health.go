package demand

import (
	"slices"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// addHealth emits the present health of the GPUs that containers were given.
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

// claimed reports whether a device of a claim is a GPU, and returns what telemetry calls it.
func (e *emission) claimed(p *Pod, h *Health) (identity []Attribute, gpu bool) {
	c := e.claims[name{p.Namespace, h.Claim}]
	if c == nil || !e.seen.Claims || len(c.Results) == 0 {
		driver, _, _ := strings.Cut(h.ID, "/")
		return nil, slices.Contains(e.opts.Drivers, driver)
	}
	// An id of CDI names none of the claim's devices, but is one of them.
	gpu = true
	for i := range c.Results {
		r := &c.Results[i]
		ofGPU := e.gpuResult(r, c.classOf(r))
		if h.ID == r.Driver+"/"+r.Pool+"/"+r.Device {
			return e.identity(r), ofGPU
		}
		gpu = gpu && ofGPU
	}
	if gpu && len(c.Results) == 1 {
		identity = e.identity(&c.Results[0])
	}
	return identity, gpu
}

// identity returns what telemetry calls an allocated device, nil where that is not known.
func (e *emission) identity(r *Result) []Attribute {
	if !e.seen.Slices {
		return nil
	}
	if d := e.device(deviceID{r.Driver, r.Pool, r.Device}); d != nil {
		return d.identity
	}
	return nil
}
