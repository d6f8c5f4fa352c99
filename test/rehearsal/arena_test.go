package rehearsal

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// All memory sizes are in MiB.
const (
	// boardMemory is the sum of the used memory and the free memory.
	boardMemory = 16000
	// reserved is the memory that the driver uses.
	reserved = 384
	// cudaContext is the memory that each process uses in addition to its FB_USED.
	cudaContext = 300
	// floor is the watchdog's default floor.
	floor = 1536
	// least is the free memory that the runaway tenant cannot use.
	least        = 100
	growthSecond = 1024
)

const watts = 300

// share describes how a pod uses the GPU.
type share struct {
	pod     *corev1.Pod
	used    int
	runaway bool // whether the pod allocates more and more memory
}

// arena simulates an exporter for a time-sliced GPU, with per-process samples. The memory use in
// the exporter's response depends on the time since grow was called.
type arena struct {
	*httptest.Server

	mu      sync.Mutex
	shares  []share
	growing time.Time // when grow was called, or zero
	started time.Time
	// If faint is true, the exporter fails after its first response with free memory below the
	// floor.
	faint  bool
	silent bool
	// If stuck is true, the exporter repeats its first response with free memory below the floor.
	stuck bool
	// answer is the repeated response.
	answer string
}

func newArena(t *testing.T, shares ...share) *arena {
	t.Helper()
	a := &arena{shares: shares, started: time.Now()}
	a.Server = httptest.NewServer(http.HandlerFunc(a.serve))
	t.Cleanup(a.Close)
	return a
}

// grow makes the runaway tenant allocate 1 GiB/s, and returns the time at which the free memory
// will reach the floor.
func (a *arena) grow() (crossing time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.growing = time.Now()
	_, free := a.memory(a.growing)
	return a.growing.Add(time.Duration(free-floor) * time.Second / growthSecond)
}

// faintBelowFloor makes the exporter fail after it has reported free memory below the floor.
func (a *arena) faintBelowFloor() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faint = true
}

// stickBelowFloor makes the exporter repeat its first response with free memory below the floor. A
// cache in front of an unresponsive host engine would also repeat a response.
func (a *arena) stickBelowFloor() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stuck = true
}

// recover makes the exporter respond normally again.
func (a *arena) recover() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faint, a.silent, a.stuck, a.answer = false, false, false, ""
}

// release ends the runaway tenant's processes, so their memory becomes free.
func (a *arena) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	var kept []share
	for _, s := range a.shares {
		if !s.runaway {
			kept = append(kept, s)
		}
	}
	a.shares = kept
}

// memory returns the memory that each tenant uses and the device's free memory at the given time.
func (a *arena) memory(now time.Time) (used []int, free int) {
	free = boardMemory
	for _, s := range a.shares {
		used = append(used, s.used)
		free -= s.used + cudaContext
	}
	if a.growing.IsZero() {
		return used, free
	}
	for i, s := range a.shares {
		if s.runaway {
			grown := min(int(now.Sub(a.growing).Seconds()*growthSecond), free-least)
			used[i], free = used[i]+grown, free-grown
		}
	}
	return used, free
}

// serve responds like dcgm-exporter 4.5.3-4.8.2 with KUBERNETES_VIRTUAL_GPUS. FB_USED and GPU_UTIL
// have a sample for the device and one for each process. Other fields are repeated for each pod.
func (a *arena) serve(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.silent {
		http.Error(w, "the host engine does not answer", http.StatusServiceUnavailable)
		return
	}
	if a.answer != "" {
		_, _ = io.WriteString(w, a.answer)
		return
	}
	now := time.Now()
	used, free := a.memory(now)
	a.silent = a.faint && free < floor

	const device = `gpu="0",UUID="GPU-57de2803-efd6-a2d3-a861-276a3590919e",device="nvidia0",modelName="NVIDIA A2",Hostname="` + node + `"`
	var b strings.Builder
	family := func(name string, ofDevice, perProcess bool, value func(i int) int) {
		fmt.Fprintf(&b, "# TYPE %s gauge\n", name)
		if ofDevice {
			fmt.Fprintf(&b, "%s{%s} %d\n", name, device, value(-1))
		}
		for i, s := range a.shares {
			uid := ""
			if perProcess {
				uid = fmt.Sprintf(`pod_uid="%s",`, s.pod.UID)
			}
			fmt.Fprintf(&b, "%s{%s,container=%q,namespace=%q,pod=%q,%svgpu=\"%d\"} %d\n",
				name, device, container, s.pod.Namespace, s.pod.Name, uid, i, value(i))
		}
	}
	family("DCGM_FI_DEV_GPU_UTIL", true, true, func(int) int { return 50 })
	family("DCGM_FI_DEV_FB_FREE", false, false, func(int) int { return free })
	family("DCGM_FI_DEV_FB_RESERVED", false, false, func(int) int { return reserved })
	family("DCGM_FI_DEV_FB_USED", true, true, func(i int) int {
		if i < 0 {
			return boardMemory - free
		}
		return used[i]
	})
	family("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", false, false, func(int) int {
		return watts * int(now.Sub(a.started).Milliseconds())
	})
	if a.stuck && free < floor {
		a.answer = b.String()
	}
	_, _ = io.WriteString(w, b.String())
}
