package faults

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// These values must match testdata/cluster.yaml.
const (
	clusterInterval = time.Second
	leaseDuration   = 3 * time.Second
	renewDeadline   = 2 * time.Second
)

// clusterOutage is long enough for a lease to expire if the lease is not renewed.
var clusterOutage = max(outage, 3*leaseDuration)

// demand is a cluster with known values. A node has a fixed number of units of a resource that only
// one test uses, and each pending pod requests one unit.
type demand struct {
	plane               *controlplane.Plane
	namespace, resource string
}

const allocatable = 8

func newDemand(t *testing.T, plane *controlplane.Plane, pods int) demand {
	t.Helper()
	d := demand{plane: plane, namespace: plane.Namespace(t)}
	d.resource = "example.com/" + d.namespace
	units := corev1.ResourceList{corev1.ResourceName(d.resource): resource.MustParse(fmt.Sprint(allocatable))}
	plane.CreateNode(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: d.namespace}, Status: corev1.NodeStatus{Capacity: units}})
	for n := range pods {
		d.create(t, fmt.Sprintf("pod-%d", n))
	}
	return d
}

func (d demand) create(t *testing.T, name string) {
	t.Helper()
	one := corev1.ResourceList{corev1.ResourceName(d.resource): resource.MustParse("1")}
	d.plane.Create(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: name},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64),
			Containers:                    []corev1.Container{{Name: "main", Image: "none", Resources: corev1.ResourceRequirements{Requests: one, Limits: one}}},
		},
	})
}

// replica starts a cluster collector.
func (d demand) replica(t *testing.T, b *backend, kubeConfig string) *collector {
	t.Helper()
	return startCollector(t, setting{file: "testdata/cluster.yaml", env: map[string]string{
		"OTLP_ENDPOINT": b.url(), "KUBE_CONFIG": kubeConfig, "RESOURCE": d.resource, "NAMESPACE": d.namespace,
	}})
}

// emission contains the values in one batch for the test's resource, keyed by metric. Metrics that
// are missing from the batch have no entry.
type emission struct {
	at     time.Time
	values map[string]float64
}

// emissions returns the received emissions in chronological order. The values of each metric are
// summed over all states.
func (d demand) emissions(b *backend) []emission {
	byTime := map[time.Time]emission{}
	for _, p := range b.all() {
		if p.resource != d.resource {
			continue
		}
		e, ok := byTime[p.end]
		if !ok {
			e = emission{p.end, map[string]float64{}}
			byTime[p.end] = e
		}
		e.values[p.metric] += p.value
	}
	var all []emission
	for _, e := range byTime {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b emission) int { return a.at.Compare(b.at) })
	return all
}

// waitForEmission waits for an emission that is later than the given time and reports the given
// number of pods, and returns the emission's timestamp.
func (d demand) waitForEmission(t *testing.T, c *collector, b *backend, pods int, after time.Time) time.Time {
	t.Helper()
	var at time.Time
	processtest.Until(t, fmt.Sprintf("an emission of %d pods", pods), func() bool {
		for _, e := range d.emissions(b) {
			if e.at.After(after) && e.values[signal.K8sGPUPods.Name] == float64(pods) && e.values[signal.K8sGPUAllocatable.Name] == allocatable {
				at = e.at
				return true
			}
		}
		return false
	}, c.Process)
	return at
}

// check compares each emission with the actual values. The before parameter is the initial number
// of pods. The changed parameter is the time at which one more pod is created. No emission may
// contain a partial count, and a pod that was counted in one emission must be counted in all later
// emissions.
func (d demand) check(t *testing.T, all []emission, before int, changed time.Time) {
	t.Helper()
	seen := before
	for _, e := range all {
		pods, known := e.values[signal.K8sGPUPods.Name]
		requested, also := e.values[signal.K8sGPURequested.Name]
		assert.Equal(t, known, also, "%v", e)
		if known {
			assert.InDelta(t, pods, requested, 0, "each pod requests one: %v", e)
			assert.True(t, int(pods) == seen || int(pods) == before+1 && e.at.After(changed), "%v, and %d pods were seen before", e, seen)
			seen = max(seen, int(pods))
		}
		if units, ok := e.values[signal.K8sGPUAllocatable.Name]; ok {
			assert.InDelta(t, allocatable, units, 0, "%v", e)
		}
	}
}

var clusterFaults = []struct {
	fault, held string
	// silent is true if the fault prevents the lease from being renewed, so the replica must stop
	// sending data.
	silent bool
	// The without field is the name of a metric that must not be sent during the fault, because the
	// replica is not permitted to read the objects for that metric.
	without string
	answer  func(api *way) http.HandlerFunc
}{
	{fault: "API server gone", silent: true, answer: func(*way) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	}},
	{fault: "API server accepts requests but does not respond", silent: true, answer: func(*way) http.HandlerFunc {
		return func(_ http.ResponseWriter, r *http.Request) {
			// Read the entire body first, because otherwise the server does not notice when the
			// client disconnects.
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}
	}},
	{fault: "API server returns 403", silent: true, answer: func(*way) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "forbidden", http.StatusForbidden) }
	}},
	{fault: "API server returns 429 with Retry-After", silent: true, answer: func(*way) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "later", http.StatusTooManyRequests)
		}
	}},
	{fault: "API server slow: each response takes 300 ms longer", answer: func(api *way) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			late := time.NewTimer(300 * time.Millisecond)
			defer late.Stop()
			select {
			case <-late.C:
				api.proxy.ServeHTTP(w, r)
			case <-r.Context().Done():
			}
		}
	}},
	{fault: "watches cut and refused", answer: func(api *way) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("watch") != "" {
				panic(http.ErrAbortHandler)
			}
			api.proxy.ServeHTTP(w, r)
		}
	}},
	{fault: "403 for pods only", without: signal.K8sGPUPods.Name, answer: func(api *way) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/pods") {
				http.Error(w, "forbidden", http.StatusForbidden)
				return
			}
			api.proxy.ServeHTTP(w, r)
		}
	}},
}

// While the API server is unavailable, the replica repeats the last known state until its lease
// expires. After the lease has expired, the replica must not send anything, because another replica
// may be the leader. No value may be computed from only some of the objects.
func TestDemandIsCorrectOrAbsentWhileTheAPIServerFails(t *testing.T) {
	t.Parallel()
	processtest.Binary(t, "otelcol-gpu")
	plane := controlplane.Start(t)
	t.Run("faults", func(t *testing.T) {
		for _, f := range clusterFaults {
			t.Run(f.fault, func(t *testing.T) {
				t.Parallel()
				d := newDemand(t, plane, 2)
				api := wayTo(t, plane.KubeConfig(t))
				b := newBackend(t)
				c := d.replica(t, b, api.kubeConfig)
				d.waitForEmission(t, c, b, 2, time.Time{})

				broke := time.Now()
				api.breaks(f.answer(api))
				pass(t, c, broke.Add(clusterOutage/2))
				created := time.Now()
				d.create(t, "late")
				pass(t, c, broke.Add(clusterOutage))
				mended := time.Now()
				api.breaks(nil)
				api.server.CloseClientConnections()
				took := d.waitForEmission(t, c, b, 3, mended).Sub(mended).Seconds()
				pass(t, c, time.Now().Add(2*clusterInterval))
				c.stop(t)

				all := d.emissions(b)
				d.check(t, all, 2, created)
				during := slices.DeleteFunc(slices.Clone(all), func(e emission) bool {
					return e.at.Before(broke.Add(renewDeadline+clusterInterval)) || e.at.After(mended)
				})
				held := "the last known state is sent"
				switch {
				case f.silent:
					assert.Empty(t, during, "the lease had expired")
					held = "the last known state is sent until `renew_deadline`"
				case f.without != "":
					assert.NotEmpty(t, during)
					for _, e := range during {
						assert.NotContains(t, e.values, f.without)
						assert.Contains(t, e.values, signal.K8sGPUAllocatable.Name, "readable objects are still reported")
					}
					held = "pods are not reported, not even as 0; nodes are still reported"
				default:
					// Require only half of the emissions, because some may be late on a busy
					// machine.
					assert.GreaterOrEqual(t, len(during), int((clusterOutage-renewDeadline)/clusterInterval)/2)
				}
				report(t, result{
					group: "Kubernetes", fault: "`gpu_cluster`: " + f.fault, windows: len(all), peak: c.peak, recovery: took,
					held: held + "; no emission is partial",
				})
			})
		}
	})
}

// The first of two replicas loses its connection to the API server, and later the second replica is
// killed. At most one replica may send data at any time.
func TestTheOtherReplicaSendsWhenOneLosesTheAPIServer(t *testing.T) {
	t.Parallel()
	processtest.Binary(t, "otelcol-gpu")
	plane := controlplane.Start(t)
	d := newDemand(t, plane, 2)
	api := wayTo(t, plane.KubeConfig(t))
	firstSays, secondSays := newBackend(t), newBackend(t)
	first := d.replica(t, firstSays, api.kubeConfig)
	d.waitForEmission(t, first, firstSays, 2, time.Time{})
	second := d.replica(t, secondSays, plane.KubeConfig(t))
	processtest.Until(t, "the second to be ready", func() bool { return strings.Contains(second.Output.String(), processtest.Ready) }, second.Process)

	broke := time.Now()
	api.breaks(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	created := time.Now()
	d.create(t, "late")
	took := d.waitForEmission(t, second, secondSays, 3, broke).Sub(broke)
	pass(t, first, time.Now().Add(2*clusterInterval))
	api.breaks(nil)
	pass(t, first, time.Now().Add(2*leaseDuration))
	silent := d.emissions(firstSays)
	require.NotEmpty(t, silent)
	killed := time.Now()
	second.kill(t)
	back := d.waitForEmission(t, first, firstSays, 3, killed).Sub(killed)
	first.stop(t)

	spoke := d.emissions(secondSays)
	d.check(t, slices.Concat(silent, spoke), 2, created)
	d.check(t, d.emissions(firstSays), 2, created)
	assert.True(t, silent[len(silent)-1].at.Before(spoke[0].at), "both replicas sent at the same time")
	assert.True(t, spoke[len(spoke)-1].at.Before(killed.Add(back)), "both replicas sent at the same time")
	// A takeover may take longer than the lease duration, because replicas retry only once per
	// retry period and lease durations are rounded to seconds.
	assert.Less(t, max(took, back), leaseDuration+10*time.Second)
	report(t, result{
		group: "Kubernetes", fault: "`gpu_cluster`: one of two replicas loses the API server, and the other replica is killed later",
		windows: len(silent) + len(spoke), peak: max(first.peak, second.peak), recovery: max(took, back).Seconds(),
		held: "the replicas never emit at the same time; the recovery time is the duration of the longer takeover, with a `lease_duration` of 3 s",
	})
}
