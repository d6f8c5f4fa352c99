package dashboards

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

const (
	// agentNode runs an agent. darkNode has GPUs but no agent.
	agentNode = "node-a"
	darkNode  = "node-dark"

	gpuResource    = "nvidia.com/gpu"
	memoryResource = "example.com/gpumem"
)

// The memory of fullGPU is almost full, because a pod exceeds its budget. For doubtfulGPU, the
// exporter reports implausible memory usage for a pod.
const (
	fullGPU     = "GPU-00000000-aaaa-4aaa-8aaa-000000000001"
	doubtfulGPU = "GPU-00000000-aaaa-4aaa-8aaa-000000000002"
)

// stage is a cluster that meets the conditions of every alert. One of the cluster's nodes runs an
// exporter.
type stage struct {
	t         *testing.T
	plane     *controlplane.Plane
	namespace string
	*cardExporter
	full, doubtful card
}

func begin(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, plane: controlplane.Start(t)}
	s.namespace = s.plane.Namespace(t)
	for _, node := range []string{agentNode, darkNode} {
		s.plane.CreateNode(t, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: node},
			Status: corev1.NodeStatus{
				Capacity:    quantities(gpuResource, "8", memoryResource, "24k"),
				Allocatable: quantities(gpuResource, "7", memoryResource, "24k"),
			},
		})
	}
	s.plane.Create(t, controlplane.NVIDIASlice(agentNode, fullGPU))
	s.plane.Create(t, controlplane.NVIDIAClass())
	s.plane.StartScheduler(t)

	greedy, stray := s.running("greedy", memoryResource, "8k"), s.running("stray")
	s.full = card{uuid: fullGPU, tenants: []tenant{
		uses(s.namespace, greedy.Name, string(greedy.UID), 21000), uses(s.namespace, stray.Name, string(stray.UID), 1500),
	}}
	liar := s.running("liar", memoryResource, "8k")
	s.doubtful = card{uuid: doubtfulGPU, tenants: []tenant{uses(s.namespace, liar.Name, string(liar.UID), 4000)}}
	s.doubtful.tenants[0].reported = 16000
	s.cardExporter = startCardExporter(t, s.full, s.doubtful)

	// The first two pods request more GPUs or more memory than any node has. The third pod breaks a
	// rule for GPU shares.
	s.waiting("trainer", gpuResource, "16")
	s.waiting("inference", memoryResource, "500k")
	s.waiting("broken", "koordinator.sh/gpu.shared", "1")
	s.claimed("claimer")
	return s
}

// hold acquires a lease on behalf of another replica and returns a function that releases the
// lease.
func (s *stage) hold(name string) (release func()) {
	s.t.Helper()
	leases, holder, seconds, now := s.plane.Admin().CoordinationV1().Leases("default"), "another-replica", int32(3600), metav1.NowMicro()
	_, err := leases.Create(s.t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	}, metav1.CreateOptions{})
	require.NoError(s.t, err)
	return sync.OnceFunc(func() {
		require.NoError(s.t, leases.Delete(s.t.Context(), name, metav1.DeleteOptions{}))
	})
}

// recover makes the exporter report the actual memory usage.
func (s *stage) recover() {
	s.doubtful.tenants = slices.Clone(s.doubtful.tenants) // clone, because the exporter may be reading the old slice
	s.doubtful.tenants[0].reported = s.doubtful.tenants[0].used
	s.show(s.full, s.doubtful)
}

func quantities(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func (s *stage) pod(name string, limits ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "example.com/workload", Resources: corev1.ResourceRequirements{Limits: quantities(limits...)},
		}}},
	}
}

// The running method creates a running pod on the agent's node.
func (s *stage) running(name string, limits ...string) *corev1.Pod {
	return s.run(s.pod(name, limits...))
}

func (s *stage) run(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.NodeName = agentNode
	s.plane.Create(s.t, pod)
	started := metav1.NewTime(time.Now().Add(-time.Hour))
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &started}
	pod, err := s.plane.Admin().CoreV1().Pods(pod.Namespace).UpdateStatus(s.t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(s.t, err)
	return pod
}

// The training method creates the three pods that hold simulated GPUs and have a common owner. The
// method returns a server that serves the simulator's metrics from url, with the pod UIDs replaced
// by the UIDs of the created pods.
func (s *stage) training(url string) *httptest.Server {
	const namespace = "training" // as in the simulator
	s.plane.Create(s.t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	yes, uids := true, map[string]string{}
	for _, name := range []string{"healthy-0-0", "power-capped-0-1", "thermal-0-2"} {
		pod := s.pod(name)
		pod.Namespace = namespace
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "train", UID: "uid-of-set", Controller: &yes}}
		uids[name] = string(s.run(pod).UID)
	}
	named := regexp.MustCompile(`pod="([^"]+)",pod_uid="[^"]*"`)
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, named.ReplaceAllStringFunc(processtest.Get(s.t, url), func(labels string) string {
			name := named.FindStringSubmatch(labels)[1]
			if uid := uids[name]; uid != "" {
				return fmt.Sprintf("pod=%q,pod_uid=%q", name, uid)
			}
			return labels
		}))
	}))
	s.t.Cleanup(exporter.Close)
	return exporter
}

// The waiting method creates a pod that is not yet scheduled.
func (s *stage) waiting(name string, limits ...string) { s.plane.Create(s.t, s.pod(name, limits...)) }

// claimed creates a pod and a claim for a device that the scheduler can allocate.
func (s *stage) claimed(name string) {
	s.plane.Create(s.t, &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "one-gpu"},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: controlplane.NVIDIADriver},
		}}}},
	})
	claim := "one-gpu"
	pod := s.pod(name)
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim}}
	pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	s.plane.Create(s.t, pod)
}
