package dashboards

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Memory sizes are in MiB.
const (
	// cardMemory is the sum of the used memory and the free memory.
	cardMemory = 24000
	// reserved is the memory that the driver uses.
	reserved = 384
	// cudaContext is the memory that each process uses in addition to its FB_USED.
	cudaContext = 200
)

const watts = 150

// firstXID is the time after which each GPU has its first XID error. dcgm-exporter 4.x does not
// expose a GPU's XID metric until the GPU has its first XID error.
const firstXID = 15 * time.Second

// card is a GPU that pods share by time slicing.
type card struct {
	uuid    string
	tenants []tenant
	// others is the memory that is used neither by tenants nor by their CUDA contexts.
	others int
}

// tenant is a pod on a GPU. used is the memory that the pod uses, and reported is the memory that
// the exporter reports, both in MiB.
type tenant struct {
	namespace, pod, uid string
	used, reported      int
}

func uses(namespace, pod, uid string, mib int) tenant { return tenant{namespace, pod, uid, mib, mib} }

func (c *card) free() int {
	free := cardMemory - c.others
	for _, t := range c.tenants {
		free -= t.used + cudaContext
	}
	return free
}

// cardExporter simulates dcgm-exporter 4.5.3-4.8.2 with KUBERNETES_VIRTUAL_GPUS for the cards that
// a test sets. FB_USED has one sample for the device and one for each process. Other fields are
// repeated for each pod.
type cardExporter struct {
	*httptest.Server
	started time.Time

	mu    sync.Mutex
	cards []card
}

func startCardExporter(t *testing.T, cards ...card) *cardExporter {
	t.Helper()
	e := &cardExporter{started: time.Now(), cards: cards}
	e.Server = httptest.NewServer(http.HandlerFunc(e.serve))
	t.Cleanup(e.Close)
	return e
}

// show replaces the GPUs that the exporter exposes. If cards is empty, scrapes of the exporter
// fail.
func (e *cardExporter) show(cards ...card) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cards = cards
}

func (e *cardExporter) serve(w http.ResponseWriter, _ *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.cards) == 0 {
		http.Error(w, "the host engine does not answer", http.StatusServiceUnavailable)
		return
	}
	var b strings.Builder
	family := func(name string, processes bool, value func(*card, *tenant) int) {
		fmt.Fprintf(&b, "# TYPE %s gauge\n", name)
		for i := range e.cards {
			c := &e.cards[i]
			device := fmt.Sprintf(`gpu="%d",UUID=%q,device="nvidia%d",modelName="NVIDIA L4",Hostname=%q`, i, c.uuid, i, agentNode)
			if processes || len(c.tenants) == 0 {
				fmt.Fprintf(&b, "%s{%s} %d\n", name, device, value(c, nil))
			}
			for k := range c.tenants {
				t := &c.tenants[k]
				uid := ""
				if processes {
					uid = fmt.Sprintf("pod_uid=%q,", t.uid)
				}
				fmt.Fprintf(&b, "%s{%s,container=\"main\",namespace=%q,pod=%q,%svgpu=\"%d\"} %d\n",
					name, device, t.namespace, t.pod, uid, k, value(c, t))
			}
		}
	}
	family("DCGM_FI_DEV_FB_FREE", false, func(c *card, _ *tenant) int { return c.free() })
	family("DCGM_FI_DEV_FB_RESERVED", false, func(*card, *tenant) int { return reserved })
	family("DCGM_FI_DEV_FB_USED", true, func(c *card, t *tenant) int {
		if t == nil {
			return cardMemory - c.free()
		}
		return t.reported
	})
	family("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", false, func(*card, *tenant) int {
		return watts * int(time.Since(e.started).Milliseconds())
	})
	family("DCGM_FI_DEV_GPU_UTIL", false, func(*card, *tenant) int { return 0 })
	if time.Since(e.started) > firstXID {
		family("DCGM_FI_DEV_XID_ERRORS", false, func(*card, *tenant) int { return 154 })
	}
	_, _ = io.WriteString(w, b.String())
}
