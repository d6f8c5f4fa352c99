package usagestage

import (
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// maxPods limits the pods whose declarations are cached. The declarations of other pods are read
// each time.
const maxPods = 20_000

// podReader reads the compute that pods declare for a scheduler or for MPS.
type podReader struct {
	cache      *kube.Cache // nil if pods are not read
	mu         sync.Mutex  // of cached
	cached     *componenthelper.Recent[types.UID, declarations]
	unreadable func(namespace, pod string, err error)
}

// declarations are the compute declarations of one version of a pod.
type declarations struct {
	version   string
	allocated []gpushare.Allocation
	demanded  map[string]float64 // part of a device, by container
	limited   map[string]float64 // limit of an MPS client, by container
}

func newPods(unreadable func(string, string, error)) *podReader {
	return &podReader{cached: componenthelper.NewRecent[types.UID, declarations](maxPods), unreadable: unreadable}
}

// start starts to read pods. It does not wait for the first answer.
func (p *podReader) start(cache *kube.Cache) {
	p.cache = cache
	cache.Need(kube.Pods)
}

func (p *podReader) stop() {
	if p.cache != nil {
		p.cache.Release()
		p.cache = nil
	}
}

// age removes declarations that were not used.
func (p *podReader) age(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cached.Age(now)
}

// declared returns the part of a board's compute that is declared for a user, or 0. A declaration
// for a pod is divided among its containers on the board. The result is 0 for an instance, because
// the holder uses the entire instance.
func (p *podReader) declared(d *gpudata.DeviceFrame, u *gpudata.User) float64 {
	if p.cache == nil || d.Parent != "" || u.Holder.Pod == "" {
		return 0
	}
	pod, ok := p.cache.Pod(u.Holder.Namespace, u.Holder.Pod)
	if !ok || u.Holder.UID != "" && string(pod.UID) != u.Holder.UID {
		return 0
	}
	return p.declarationsOf(pod).boardPart(d, u)
}

// boardPart returns the part of a board's compute that is declared for a user.
func (s declarations) boardPart(d *gpudata.DeviceFrame, u *gpudata.User) float64 {
	var containerPart, podPart float64
	for _, a := range s.allocated {
		switch {
		case a.UUID != "" && a.UUID != d.Device.ID(), a.UUID == "" && a.Minor >= 0 && d.Name != "nvidia"+strconv.Itoa(a.Minor):
		case a.Container == "": // the declaration applies to the entire pod
			podPart += a.Core
		case a.Container == u.Holder.Container:
			containerPart += a.Core
		}
	}
	if containerPart > 0 {
		return min(containerPart, 1)
	}
	if podPart > 0 {
		n := 0
		for _, o := range d.Users {
			if o.Holds && o.Holder.Namespace == u.Holder.Namespace && o.Holder.Pod == u.Holder.Pod {
				n++
			}
		}
		return min(podPart, 1) / float64(max(n, 1))
	}
	if c := s.demanded[u.Holder.Container]; c > 0 || u.Strategy != signal.SharingMPS {
		return c
	}
	return s.limited[u.Holder.Container]
}

// declarationsOf returns the declarations of a pod.
func (p *podReader) declarationsOf(pod *corev1.Pod) declarations {
	p.mu.Lock()
	cached, ok := p.cached.Get(pod.UID)
	p.mu.Unlock()
	if ok && cached.version == pod.ResourceVersion {
		return cached
	}
	s, err := readDeclarations(pod)
	if err != nil {
		p.unreadable(pod.Namespace, pod.Name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cached.Put(pod.UID, s)
	return s
}

func readDeclarations(pod *corev1.Pod) (declarations, error) {
	s := declarations{version: pod.ResourceVersion, demanded: map[string]float64{}, limited: map[string]float64{}}
	allocations, err := gpushare.PodAllocations(pod)
	for _, a := range allocations {
		if a.Core > 0 && a.MIG == nil {
			s.allocated = append(s.allocated, a)
		}
	}
	for _, c := range gpushare.Containers(pod) {
		for _, e := range c.Env {
			if percent, err := strconv.ParseFloat(e.Value, 64); e.Name == kube.MPSPercentage && err == nil && percent > 0 && percent <= 100 {
				s.limited[c.Name] = percent / 100
			}
		}
		for _, demand := range gpushare.Demands(gpushare.RequestsOf(c)) {
			if demand.Core > 0 {
				s.demanded[c.Name] = min(demand.Core, 1)
			}
		}
	}
	return s, err
}
