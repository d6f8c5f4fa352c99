package kube_test

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubelettest"
)

const gpu0 = "GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c"

// patience is the maximum time that tests with a real server wait.
const patience = time.Minute

// The eventually function waits until the condition is true. The function checks the condition
// after every notification.
func eventually(t *testing.T, subscribe func(func()) func(), condition func() bool) {
	t.Helper()
	notices := make(chan struct{}, 1)
	unsubscribe := subscribe(func() {
		select {
		case notices <- struct{}{}:
		default:
		}
	})
	defer unsubscribe()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for !condition() {
		select {
		case <-notices:
		case <-timeout.C:
			require.FailNow(t, "nothing more happened")
		}
	}
}

// The started function returns a running client that polls more often than the configuration
// allows.
func started(t *testing.T, socket string) *kube.PodResources {
	t.Helper()
	cfg := kube.NewDefaultPodResourcesConfig()
	cfg.Socket, cfg.Interval = socket, 20*time.Millisecond
	p := kube.NewPodResources(cfg, zap.NewNop())
	t.Cleanup(p.Shutdown)
	p.Start()
	return p
}

func phase(p *kube.PodResources) kube.Phase {
	_, _, state := p.Snapshot()
	return state.Phase
}

func TestAllDeviceDataOfTheKubeletIsRead(t *testing.T) {
	share := "c0ffee"
	kubelet := kubelettest.Start(t)
	kubelet.SetResponse(&podresourcesv1.ListPodResourcesResponse{PodResources: []*podresourcesv1.PodResources{
		{Namespace: "ml", Name: "train-0", Containers: []*podresourcesv1.ContainerResources{
			{Name: "trainer", Devices: []*podresourcesv1.ContainerDevices{
				// The kubelet lists nvidia0 once for each NUMA node, and the IDs are not sorted.
				{ResourceName: "nvidia.com/gpu", DeviceIds: []string{"nvidia1", "nvidia0"}},
				{ResourceName: "nvidia.com/gpu", DeviceIds: []string{"nvidia0"}},
				{ResourceName: "example.com/nic", DeviceIds: []string{"eth7"}},
			}},
			{Name: "log-sidecar", Devices: []*podresourcesv1.ContainerDevices{{ResourceName: "nvidia.com/gpu.shared", DeviceIds: []string{gpu0 + "::3"}}}},
			{Name: "without-devices", CpuIds: []int64{1, 2}},
		}},
		{Namespace: "dra", Name: "infer-0", Containers: []*podresourcesv1.ContainerResources{{
			Name: "server", DynamicResources: []*podresourcesv1.DynamicResource{{
				ClaimNamespace: "dra", ClaimName: "infer-0-gpu-x7k2p", ClaimResources: []*podresourcesv1.ClaimResource{
					{
						DriverName: "gpu.nvidia.com", PoolName: "node-1", DeviceName: "gpu-1", ShareId: &share,
						CdiDevices: []*podresourcesv1.CDIDevice{{Name: "k8s.gpu.nvidia.com/claim=9d0f-gpu-1"}},
					},
					{DriverName: "gpu.nvidia.com", PoolName: "node-1", DeviceName: "gpu-0"},
				},
			}},
		}}},
	}})
	p := started(t, kubelet.Socket())
	eventually(t, p.Subscribe, func() bool { return phase(p) == kube.Synced })
	got, _, _ := p.Snapshot()
	assert.Equal(t, []kube.ContainerResources{
		{Namespace: "dra", Pod: "infer-0", Container: "server", Claims: []kube.ClaimDevice{
			{Namespace: "dra", Claim: "infer-0-gpu-x7k2p", Driver: "gpu.nvidia.com", Pool: "node-1", Device: "gpu-0"},
			{Namespace: "dra", Claim: "infer-0-gpu-x7k2p", Driver: "gpu.nvidia.com", Pool: "node-1", Device: "gpu-1", ShareID: share},
		}},
		{Namespace: "ml", Pod: "train-0", Container: "log-sidecar", Devices: []kube.DeviceRef{{Resource: "nvidia.com/gpu.shared", ID: gpu0 + "::3"}}},
		{Namespace: "ml", Pod: "train-0", Container: "trainer", Devices: []kube.DeviceRef{
			{Resource: "example.com/nic", ID: "eth7"}, {Resource: "nvidia.com/gpu", ID: "nvidia0"}, {Resource: "nvidia.com/gpu", ID: "nvidia1"},
		}},
	}, got)

	// Send the parsed resources through a kubelet again. The client must parse the same resources.
	kubelet.Set(got...)
	kubelet.AwaitLists(t, 2)
	again, _, _ := p.Snapshot()
	assert.Equal(t, got, again)
}

func TestAResponseAboveFourMebibytesIsRead(t *testing.T) {
	kubelet := kubelettest.Start(t)
	kubelet.Set(kube.ContainerResources{
		Namespace: "ml", Pod: "train-0", Container: "trainer",
		Devices: []kube.DeviceRef{{Resource: "nvidia.com/gpu", ID: strings.Repeat("x", 9<<20)}},
	})
	p := started(t, kubelet.Socket())
	eventually(t, p.Subscribe, func() bool { return phase(p) == kube.Synced })
	got, _, _ := p.Snapshot()
	require.Len(t, got, 1)
	assert.Len(t, got[0].Devices[0].ID, 9<<20)
}

func TestAKubeletThatLimitsTheRateIsPolledAgainLater(t *testing.T) {
	kubelet := kubelettest.Start(t)
	kubelet.Fail(codes.ResourceExhausted, "rejected by rate limit")
	p := started(t, kubelet.Socket())
	eventually(t, p.Subscribe, func() bool {
		_, _, state := p.Snapshot()
		return status.Code(state.Err) == codes.ResourceExhausted && state.Phase == kube.Syncing
	})
	kubelet.Set()
	eventually(t, p.Subscribe, func() bool { return phase(p) == kube.Synced })
}

func TestARecreatedSocketIsUsed(t *testing.T) {
	kubelet := kubelettest.Start(t)
	held := kube.ContainerResources{Namespace: "ml", Pod: "train-0", Container: "trainer", Devices: []kube.DeviceRef{{Resource: "nvidia.com/gpu", ID: gpu0}}}
	kubelet.Set(held)
	p := started(t, kubelet.Socket())
	eventually(t, p.Subscribe, func() bool { return phase(p) == kube.Synced })

	kubelet.Stop(t)
	eventually(t, p.Subscribe, func() bool { return phase(p) == kube.Stale })
	resources, _, state := p.Snapshot()
	assert.Equal(t, []kube.ContainerResources{held}, resources, "the last response is kept")
	require.ErrorIs(t, state.Err, fs.ErrNotExist)

	other := held
	other.Pod = "train-1"
	kubelet.Set(other)
	kubelet.Listen(t)
	eventually(t, p.Subscribe, func() bool {
		resources, _, state := p.Snapshot()
		return state.Phase == kube.Synced && resources[0].Pod == "train-1"
	})
}

func TestAHangingKubeletDoesNotBlockShutdown(t *testing.T) {
	kubelet := kubelettest.Start(t)
	kubelet.Hold()
	p := started(t, kubelet.Socket())
	kubelet.AwaitLists(t, 1)
	start := time.Now()
	p.Shutdown()
	assert.Less(t, time.Since(start), 4*time.Second, "less than the timeout of a poll")
}

func TestASocketThatDoesNotExistIsAbsent(t *testing.T) {
	p := started(t, t.TempDir()+"/kubelet.sock")
	eventually(t, p.Subscribe, func() bool { return phase(p) == kube.Absent })
}

// The client logs a missing socket only once, whereas gRPC would log it at every poll.
func TestGRPCDoesNotLogASocketThatDoesNotExist(t *testing.T) {
	socket := t.TempDir() + "/kubelet.sock"
	for range 2 {
		_, err := kube.ListPodResources(t.Context(), socket)
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	assert.NotContains(t, grpcWarnings.String(), socket)
}

func BenchmarkPodResources(b *testing.B) {
	kubelet := kubelettest.Start(b)
	var resources []kube.ContainerResources
	for i := range 1000 {
		resources = append(resources, kube.ContainerResources{
			Namespace: "ml", Pod: fmt.Sprintf("train-%d", i), Container: "trainer",
			Devices: []kube.DeviceRef{{Resource: "nvidia.com/gpu", ID: fmt.Sprintf("%s::%d", gpu0, i)}},
		})
	}
	kubelet.Set(resources...)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := kube.ListPodResources(b.Context(), kubelet.Socket()); err != nil {
			b.Fatal(err)
		}
	}
}
