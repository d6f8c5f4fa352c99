package gpuk8sprocessor

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/attribution"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/usagestage"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/dratest"
)

// telemetry returns metrics that contain one sample for each device.
func telemetry(w *dratest.World, now time.Time) pmetric.Metrics {
	md := pmetric.NewMetrics()
	rm := md.ResourceMetrics().AppendEmpty()
	rm.Resource().Attributes().PutStr(signal.K8sNodeName, w.Node)
	metrics := rm.ScopeMetrics().AppendEmpty().Metrics()
	power := metrics.AppendEmpty()
	power.SetName(signal.HwPower.Name)
	power.SetUnit(signal.HwPower.Unit)
	engine := metrics.AppendEmpty()
	engine.SetName(signal.GPUEngineActive.Name)
	engine.SetUnit(signal.GPUEngineActive.Unit)
	power.SetEmptyGauge()
	engine.SetEmptyGauge()
	for _, s := range w.Telemetry() {
		of := power
		if s.Parent != "" {
			of = engine
		}
		p := of.Gauge().DataPoints().AppendEmpty()
		p.SetDoubleValue(0.5)
		p.SetTimestamp(pcommon.NewTimestampFromTime(now))
		for key, value := range map[string]string{
			signal.HardwareID: s.ID, signal.HardwareParent: s.Parent, signal.MIGProfile: s.Profile, signal.MIGInstanceID: s.Instance,
			signal.MIGUUID: s.MIGUUID, signal.HardwareVendor: s.Vendor, signal.DRADriver: s.Driver, signal.DRAPool: s.Pool, signal.DRADevice: s.Device,
		} {
			if value != "" {
				p.Attributes().PutStr(key, value)
			}
		}
	}
	return md
}

// sourcesOf returns the data that the kubelet and the API server would provide for the current
// state of the simulated cluster.
func sourcesOf(w *dratest.World, cfg *Config, now time.Time) (a attribution.Sources) {
	if w.Kubelet {
		a.Listing.State, a.Listing.Time = kube.Synced, now.UnixNano()
		a.Listing.Containers = readContainers(w.Listing(), cfg)
	}
	o := objects{podsState: kube.Synced, slicesState: kube.Synced, claimsState: kube.Forbidden}
	o.pods, o.slices = w.Pods(w.Node), w.ResourceSlices(w.Node)
	if w.Claims {
		o.claims, o.claimsState = w.ResourceClaims(), kube.Synced
	}
	readObjects(cfg, &o, nil, &a)
	return a
}

// The test generates random histories of claims, pods, pools, partitions, taints, and restarts. For
// each device, every second must be charged to the holders of the device's claims and to nobody
// else, or counted as unallocated. If the sources cannot determine the holders, the time must be
// counted as unobserved.
func TestEverySecondOfAnAllocatedDeviceIsItsHolders(test *testing.T) {
	rounds := 20 // Each round tests 100 histories, or 20 with -short.
	if testing.Short() {
		rounds = 5
	}
	for range rounds {
		rapid.Check(test, checkHistory)
	}
}

func checkHistory(t *rapid.T) {
	// The processor must also accept samples whose timestamps are in the past.
	now, interval := time.Now().Add(-2*time.Hour), 15*time.Second
	w := dratest.New(t, now)
	a := startAgent(t, w.Node, &now)
	starts, first := w.Starts, true
	want, got := dratest.NewCharged(), dratest.NewCounters()
	for range rapid.IntRange(2, 12).Draw(t, "scrapes") {
		passed := interval
		if rapid.IntRange(0, 9).Draw(t, "away") == 0 {
			passed *= 10 // The node sends nothing for longer than max_gap.
		}
		now = now.Add(passed)
		w.Change(t, now)
		if w.Starts != starts { // After a restart, the counters start at zero, because the agent has no storage.
			require.NoError(t, a.shutdown(context.Background()))
			a = startAgent(t, w.Node, &now)
			starts, first = w.Starts, true
		}
		switch {
		case first: // The first frame starts an interval but does not end an interval.
			first = false
		case passed == interval:
			want.Charge(w.Holders(), w.Boards(), passed)
		default:
			want.Miss(w.Boards(), passed)
		}
		got.Read(a.scrape(t, w, now))
		require.Empty(t, want.Differences(&got.Charged), "%s", w)
	}
	require.NoError(t, a.shutdown(context.Background()))
}

// agent is the processor that runs on a node. The simulated cluster replaces the kubelet and the
// API server.
type agent struct {
	cfg       *Config
	tracker   *attribution.Tracker
	processor processor.Metrics
	sink      *consumertest.MetricsSink
}

func startAgent(t *rapid.T, node string, now *time.Time) *agent {
	cfg := createDefaultConfig().(*Config)
	cfg.NodeName, cfg.Claims, cfg.Kubernetes.AuthType = node, true, kube.AuthNone
	cfg.Usage = configoptional.Some(usagestage.NewDefaultConfig())
	set := processortest.NewNopSettings(metadata.Type)
	p, err := newProcessor(cfg, set)
	require.NoError(t, err)
	p.now = func() time.Time { return *now }
	_, accounts, err := p.newSections(set)
	require.NoError(t, err)
	sink := &consumertest.MetricsSink{}
	holders := p.section()
	holders.Start = nil // The test does not start the sources.
	stages, err := pdatagpu.NewProcessor(set, p.attribution.Scope, sink, pdatagpu.Sections(append([]pdatagpu.Section{holders}, accounts...)...))
	require.NoError(t, err)
	require.NoError(t, stages.Start(context.Background(), componenttest.NewNopHost()))
	return &agent{cfg: cfg, tracker: p.tracker, processor: stages, sink: sink}
}

// scrape updates the sources' data to the current time, processes one batch of telemetry, and
// returns the output.
func (a *agent) scrape(t *rapid.T, w *dratest.World, now time.Time) pmetric.Metrics {
	a.tracker.Update(now, sourcesOf(w, a.cfg, now))
	require.NoError(t, a.processor.ConsumeMetrics(context.Background(), telemetry(w, now)))
	all := a.sink.AllMetrics()
	return all[len(all)-1]
}

func (a *agent) shutdown(ctx context.Context) error { return a.processor.Shutdown(ctx) }

func TestTenThousandClaimsOfOtherNodesAreIgnored(t *testing.T) {
	claim := func(name, pod string) *resourcev1.ResourceClaim {
		c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{{Driver: dratest.NVIDIA, Pool: "pool-of-" + pod, Device: "gpu-0"}},
		}}
		c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: pod, UID: types.UID("uid-" + pod)}}
		return c
	}
	o := objects{podsState: kube.Synced, slicesState: kube.Synced, claimsState: kube.Synced}
	o.pods = []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "mine", UID: "uid-mine"}}}
	for i := range 10_000 {
		o.claims = append(o.claims, claim(fmt.Sprint("claim-", i), fmt.Sprint("pod-", i)))
	}
	o.claims = append(o.claims, claim("claim-of-mine", "mine"))
	cfg := createDefaultConfig().(*Config)
	cfg.Claims = true
	var a attribution.Sources
	readObjects(cfg, &o, nil, &a)
	require.Len(t, a.Claims, 1)
	require.Equal(t, "claim-of-mine", a.Claims[0].Claim)
}
