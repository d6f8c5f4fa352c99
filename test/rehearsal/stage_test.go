package rehearsal

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

const (
	node      = "gpu-node"
	container = "main"
	account   = "otelcol-gpu-watchdog"

	// watchdogRBAC is the path of a manifest that grants the permissions in the README of the
	// gpu_watchdog exporter. The exporter's tests check that the manifest matches the README.
	watchdogRBAC = "../../exporter/gpuwatchdogexporter/test/testdata/rbac.yaml"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(controlplane.Main(m)) }

// stage is a GPU that three pods share, with an API server, an exporter, and the collector that
// monitors the GPU.
type stage struct {
	t                   *testing.T
	plane               *controlplane.Plane
	tenants, monitoring string // namespaces
	*arena
	// The runaway pod is within its budget until its memory use grows. The slight pod exceeds its
	// budget by less than the tolerance. The large pod uses the most memory but is within its
	// budget.
	runaway, slight, large *corev1.Pod

	// storage is a directory that is kept when the collector restarts.
	storage string
	// The launch function starts a collector.
	launch func()
	// address is the address that serves the collector's self-metrics.
	address   string
	collector *processtest.Process
	evictions float64 // evictions that the API server granted before the test
}

// begin starts the collector and returns after the watchdog has evaluated a healthy device.
func begin(t *testing.T, dryRun bool) *stage {
	t.Helper()
	binary := processtest.Binary(t, "otelcol-gpu")
	s := &stage{t: t, plane: controlplane.Start(t), storage: t.TempDir()}
	s.tenants, s.monitoring = s.plane.Namespace(t), s.plane.Namespace(t)
	s.plane.CreateNode(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
	s.runaway, s.slight, s.large = s.tenant("runaway", 2048), s.tenant("slight", 3072), s.tenant("large", 8192)
	s.arena = newArena(t, share{s.large, 6000, false}, share{s.runaway, 1500, true}, share{s.slight, 3300, false})
	s.evictions = s.granted()
	kubeconfig := s.grant()
	s.launch = func() { s.start(binary, dryRun, kubeconfig) }
	s.launch()
	s.until("the watchdog evaluates", func() bool { return s.evaluated("above_floor") > 0 && s.heartbeat() > 0 })
	return s
}

// tenant creates a pod that is owned by a ReplicaSet and has been running for an hour.
func (s *stage) tenant(name string, budget int64) *corev1.Pod {
	yes := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.tenants, Name: name, Labels: map[string]string{"app": name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name, UID: "uid-of-no-matter", Controller: &yes}},
		},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Name: container, Image: "example.com/workload",
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"example.com/gpumem": *resource.NewQuantity(budget, resource.DecimalSI)}},
		}}},
	}
	s.plane.Create(s.t, pod)
	started := metav1.NewTime(time.Now().Add(-time.Hour))
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &started,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	pod, err := s.plane.Admin().CoreV1().Pods(s.tenants).UpdateStatus(s.t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(s.t, err)
	return pod
}

// grant creates the collector's service account, grants its permissions, and returns the path of
// its kubeconfig file.
func (s *stage) grant() string {
	s.plane.Create(s.t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.monitoring, Name: account}})
	s.bind()
	return s.plane.ServiceAccountKubeConfig(s.t, s.monitoring, account)
}

func (s *stage) start(binary string, dryRun bool, kubeconfig string) {
	s.address = processtest.FreeAddress(s.t)
	cmd := exec.Command(binary, "--config", filepath.Join("testdata", "collector.yaml"))
	cmd.Env = processtest.Environment(map[string]string{
		"NODE_NAME": node, "POD_NAMESPACE": s.monitoring, "TENANTS": s.tenants,
		clientcmd.RecommendedConfigPathEnvVar: kubeconfig, "DCGM_ENDPOINT": s.URL + "/metrics", "STORAGE_DIR": s.storage,
		"DRY_RUN": strconv.FormatBool(dryRun), "TELEMETRY_PORT": processtest.Port(s.t, s.address),
	})
	collector := processtest.Start(s.t, cmd)
	s.collector = collector
	s.t.Cleanup(func() {
		if s.collector == collector { // the test did not crash this collector
			collector.Stop(s.t)
		}
	})
}

// crash kills the collector and starts a new collector with the stored state.
func (s *stage) crash() {
	s.collector.Kill()
	s.launch()
}

// The until method polls until the done function returns true.
func (s *stage) until(what string, done func() bool) {
	s.t.Helper()
	processtest.Until(s.t, what, done, s.collector)
}

// The more method waits for n more evaluations with the given reason.
func (s *stage) more(reason string, n float64) {
	s.t.Helper()
	before := s.evaluated(reason)
	s.until("evaluations with the reason "+reason, func() bool { return s.evaluated(reason) >= before+n })
}

// evaluated returns the number of evaluations with the given reason.
func (s *stage) evaluated(reason string) float64 {
	for _, m := range s.metrics()["otelcol_gpu_watchdog_evaluations"].GetMetric() {
		for _, label := range m.GetLabel() {
			if label.GetName() == "reason" && label.GetValue() == reason {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// heartbeat returns the time of the last complete evaluation in seconds since the epoch, or 0 if no
// evaluation has completed.
func (s *stage) heartbeat() float64 {
	if m := s.metrics()["otelcol_gpu_watchdog_last_success"].GetMetric(); len(m) == 1 {
		return m[0].GetGauge().GetValue()
	}
	return 0
}

// metrics returns the collector's self-metrics, or nil if the collector does not serve them yet.
func (s *stage) metrics() map[string]*dto.MetricFamily {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(processtest.Get(s.t, "http://"+s.address+"/metrics")))
	require.NoError(s.t, err)
	return families
}

// granted returns the total number of evictions that the API server has granted for all pods.
func (s *stage) granted() (total float64) {
	content, err := s.plane.Admin().Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(s.t.Context())
	require.NoError(s.t, err)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(content))
	require.NoError(s.t, err)
	require.Contains(s.t, families, "apiserver_request_total")
	for _, m := range families["apiserver_request_total"].GetMetric() {
		labels := map[string]string{}
		for _, label := range m.GetLabel() {
			labels[label.GetName()] = label.GetValue()
		}
		if labels["subresource"] == "eviction" && strings.HasPrefix(labels["code"], "2") {
			total += m.GetCounter().GetValue()
		}
	}
	return total
}

// assertEvicted asserts that exactly the given pods are deleted or terminating, each because of a
// single eviction.
func (s *stage) assertEvicted(want ...*corev1.Pod) {
	s.t.Helper()
	stay := map[string]bool{}
	all, err := s.plane.Admin().CoreV1().Pods(s.tenants).List(s.t.Context(), metav1.ListOptions{})
	require.NoError(s.t, err)
	for i := range all.Items {
		if all.Items[i].DeletionTimestamp == nil {
			stay[all.Items[i].Name] = true
		}
	}
	expected := map[string]bool{s.runaway.Name: true, s.slight.Name: true, s.large.Name: true}
	for _, pod := range want {
		delete(expected, pod.Name)
	}
	assert.Equal(s.t, expected, stay, "remaining pods")
	assert.InDelta(s.t, len(want), s.granted()-s.evictions, 0, "evictions that the API server granted")
}

// assertReportedOnce asserts that exactly one Kubernetes Event has the given reason, and that this
// Event is about the runaway pod.
func (s *stage) assertReportedOnce(reason string) {
	s.t.Helper()
	events, err := s.plane.Admin().CoreV1().Events(s.tenants).List(s.t.Context(), metav1.ListOptions{})
	require.NoError(s.t, err)
	require.Len(s.t, events.Items, 1)
	assert.Equal(s.t, reason, events.Items[0].Reason)
	assert.Equal(s.t, s.runaway.UID, events.Items[0].InvolvedObject.UID)
}

// record is a log record about an evaluation.
type record struct {
	Time     string `json:"ts"`
	Reason   string `json:"reason"`
	PodUID   string `json:"pod_uid"`
	Breaches int    `json:"breaches"`
}

// The first method returns the first log record with the given reason, and the record's timestamp.
func (s *stage) first(reason string) (record, time.Time) {
	s.t.Helper()
	for line := range strings.Lines(s.collector.Output.String()) {
		var r record
		if json.Unmarshal([]byte(line), &r) == nil && r.Reason == reason {
			at, err := time.Parse("2006-01-02T15:04:05.000Z0700", r.Time)
			require.NoError(s.t, err)
			return r, at
		}
	}
	require.FailNow(s.t, "no record", "of an evaluation with the reason %s", reason)
	return record{}, time.Time{}
}

// bind grants the service account the permissions that the collector needs.
func (s *stage) bind() {
	for _, file := range []string{watchdogRBAC, filepath.Join("testdata", "rbac.yaml")} {
		text, err := os.ReadFile(file)
		require.NoError(s.t, err)
		namespaces := strings.NewReplacer("namespace: ai", "namespace: "+s.tenants, "namespace: monitoring", "namespace: "+s.monitoring)
		s.plane.Apply(s.t, namespaces.Replace(string(text)))
	}
}

// unbind revokes the watchdog's permissions in the tenants' namespace.
func (s *stage) unbind() {
	require.NoError(s.t, s.plane.Admin().RbacV1().RoleBindings(s.tenants).Delete(s.t.Context(), account, metav1.DeleteOptions{}))
}
