package gpuviewexporter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/live"
	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/store"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// claimList builds a list of the claims in a cluster, in the format that gpu_cluster sends.
type claimList struct {
	*batch
	at time.Time
}

func newClaimList(at time.Time) *claimList {
	b := newBatch(at, time.Minute).onNode("").device("")
	b.point = nil
	for state, n := range map[string]float64{"pending": 1, "allocated": 2, "reserved": 3} {
		b.addPoint(signal.K8sResourceClaimCount, n, "gpu.nvidia.com", state)
	}
	return &claimList{b, at}
}

// The reserve method adds a device that is allocated to a claim, which is reserved for a pod. The
// uuid parameter contains the key and the value of the attribute that identifies the device.
func (c *claimList) reserve(claim, pod string, uuid ...string) *claimList {
	c.onNode("node-1", "training", pod, "")
	c.point = map[string]string{signal.ResourceClaimName: claim, signal.DeviceClassName: "gpu.nvidia.com", uuid[0]: uuid[1]}
	c.addPoint(signal.K8sResourceClaimDevice, 1, claim+"-uid", "gpu", "gpu.nvidia.com", "node-1", "gpu-0", "")
	return c
}

// The held function returns a window in which the pod "running" holds GPU-a. No container holds
// GPU-b or an instance of GPU-c. The holders of GPU-d are unknown.
func held(at time.Time) pmetric.Metrics {
	b := newBatch(at, time.Minute)
	b.onNode("node-1").device("GPU-a").addPoint(signal.UtilizationAvg, 0.5).addPoint(signal.GPUSharingClients, 1)
	b.onNode("node-1", "training", "running", "main").device("GPU-a").addPoint(signal.UtilizationAvg, 0.5)
	b.onNode("node-1").device("GPU-b").addPoint(signal.UtilizationAvg, 0).addPoint(signal.GPUSharingClients, 0)
	b.device("GPU-c/gi7", signal.HardwareParent, "GPU-c", signal.MIGProfile, "1g.10gb", signal.MIGUUID, "MIG-7").addPoint(signal.UtilizationAvg, 0).addPoint(signal.GPUSharingClients, 0)
	b.device("GPU-d").addPoint(signal.UtilizationAvg, 0)
	return b.md
}

func reservedPods(e *viewExporter, at time.Time) map[string][]string {
	document, _ := live.Build(e.store, at)
	out := map[string][]string{}
	for _, d := range document.Devices {
		for _, r := range d.Reserved {
			out[d.ID] = append(out[d.ID], r.Namespace+"/"+r.Pod+" "+r.Name)
		}
	}
	return out
}

func TestReservedClaimWhosePodDoesNotHoldItsDeviceIsShown(t *testing.T) {
	e := newTestExporter(t)
	at := now()
	consume(t, e, held(at))
	list := newClaimList(at)
	for _, id := range []string{"GPU-a", "GPU-b", "GPU-d"} {
		list.reserve("first", "running", signal.HardwareID, id)
	}
	list.reserve("second", "starting", signal.MIGUUID, "MIG-7")
	consume(t, e, list.md)
	assert.Equal(t, map[string][]string{"GPU-b": {"training/running first"}, "GPU-c/gi7": {"training/starting second"}}, reservedPods(e, at),
		"the pod holds GPU-a, and it is unknown who holds GPU-d")

	document, _ := live.Build(e.store, at)
	assert.Equal(t, []store.UnreservedClaims{{Class: "gpu.nvidia.com", Count: 2}}, document.Unreserved)

	// Each list of claims replaces the previous list.
	consume(t, e, newClaimList(at.Add(time.Second)).reserve("second", "starting", signal.MIGUUID, "MIG-7").md)
	assert.Equal(t, map[string][]string{"GPU-c/gi7": {"training/starting second"}}, reservedPods(e, at.Add(time.Second)))
	consume(t, e, newClaimList(at.Add(2*time.Second)).md)
	assert.Empty(t, reservedPods(e, at.Add(2*time.Second)), "no claim is reserved")
}

func TestClaimsOfAClusterWithoutANewListAreNotShown(t *testing.T) {
	e := newTestExporter(t)
	at := now()
	old := at.Add(-6 * time.Minute)
	consumeAt(t, e, old, newClaimList(old).reserve("first", "starting", signal.HardwareID, "GPU-b").md)
	consume(t, e, held(at))
	assert.Empty(t, reservedPods(e, at))
	document, _ := live.Build(e.store, at)
	assert.Empty(t, document.Unreserved)
}

// The clock that gpu_cluster uses can differ from the clock of the device's node.
func TestClaimsDoNotHideThatTheClockOfANodeWasSetBack(t *testing.T) {
	e := newTestExporter(t)
	start := now().Add(-20 * time.Minute)
	var end time.Time
	for i := range 20 {
		wall := start.Add(time.Duration(i) * time.Minute)
		end = wall
		if i >= 5 {
			end = wall.Add(-30 * time.Minute)
		}
		consumeAt(t, e, wall, held(end))
		consumeAt(t, e, wall, newClaimList(wall).reserve("first", "starting", signal.HardwareID, "GPU-b").md)
	}
	document, _ := live.Build(e.store, end)
	assert.InDelta(t, end.Unix(), document.Devices[0].End, 0, "the windows from before are in the node's future")
}

func (s *pageSuite) TestReservedDeviceShowsItsPodAndClaim() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	at := now()
	consume(t, e, held(at))
	consume(t, e, newClaimList(at).reserve("first", "starting", signal.HardwareID, "GPU-b").md)
	p := s.open(base)
	p.until(rowCount + " > 0")
	p.input("search", "GPU-b")
	assert.Equal(t, "starting", eval[string](p, cell(0, "holders")+`.querySelector(".main").firstChild.textContent`))
	assert.Equal(t, "reserved", eval[string](p, cell(0, "holders")+`.querySelector(".tag").textContent`))
	assert.Equal(t, "training · first", eval[string](p, cell(0, "holders")+`.querySelector(".sub").textContent`))
	assert.Equal(t, "training/starting (claim first): reserved, not running", eval[string](p, cell(0, "holders")+".title"))
	assert.Contains(t, eval[string](p, `document.getElementById("demand").textContent`), "gpu.nvidia.com 2 claims have devices that no pod reserves")
	p.click("tr.row td")
	p.until(`document.getElementById("details").innerText.includes("Reserved, not running")`)
	assert.Contains(t, text(p, "details-body"), "claim first (gpu.nvidia.com)")
}
