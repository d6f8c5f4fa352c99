package attribution

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/cpumeter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func at(seconds int64) time.Time { return time.Unix(seconds, 0) }

func nanos(seconds int64) int64 { return seconds * 1e9 }

func newTestTracker() *Tracker {
	return New(2*time.Minute, 3*time.Minute, []string{"gpu.nvidia.com"})
}

func listing(seconds int64, containers ...ContainerResources) Sources {
	return Sources{Listing: Listing{State: kube.Synced, Time: nanos(seconds), Containers: containers}}
}

func container(pod string, devices ...catalogue.PluginID) ContainerResources {
	return ContainerResources{Namespace: "ns", Pod: pod, Container: "c", Devices: devices}
}

func gpu(uuid string) catalogue.PluginID { return catalogue.PluginID{Raw: uuid, UUID: uuid} }

func mig(uuid string) catalogue.PluginID { return catalogue.PluginID{Raw: uuid, MIGUUID: uuid} }

// devices returns boards for which only the hw.id is known.
func devices(ids ...string) map[string]gpudata.Description {
	shown := map[string]gpudata.Description{}
	for _, id := range ids {
		shown[id] = gpudata.Description{}
	}
	return shown
}

func pods(t *testing.T, tr *Tracker, id string, seconds int64) []string {
	t.Helper()
	var names []string
	for _, h := range Decide(tr.Lookup(id, nanos(seconds)), nanos(seconds), nil, nil, false).Holders {
		names = append(names, h.Pod)
	}
	return names
}

func TestAnUnknownDeviceHasNoEntry(t *testing.T) {
	tr := newTestTracker()
	assert.Nil(t, tr.Lookup("GPU-1", nanos(10)), "no source has answered")
	tr.Update(at(10), listing(10))
	assert.Nil(t, tr.Lookup("GPU-1", nanos(10)), "the device was in no scrape")
	tr.StoreDevices(at(10), devices("GPU-1"))
	assert.Equal(t, signal.HolderSourcePodResources, tr.Lookup("GPU-1", nanos(10)).Source)
}

func TestARemovedInstanceDoesNotConflictWithANewOne(t *testing.T) {
	tr := newTestTracker()
	old := map[string]gpudata.Description{"GPU-1/gi7": {Parent: "GPU-1", Profile: "1g.10gb", MIGUUID: "MIG-1"}}
	tr.StoreDevices(at(0), old)
	tr.Update(at(10), listing(10, container("a", mig("MIG-1"))))
	assert.Equal(t, []string{"a"}, pods(t, tr, "GPU-1/gi7", 10))

	again := map[string]gpudata.Description{"GPU-1/gi7": {Parent: "GPU-1", Profile: "2g.20gb", MIGUUID: "MIG-2"}}
	tr.StoreDevices(at(20), again)
	assert.Empty(t, pods(t, tr, "GPU-1/gi7", 20), "the ID now belongs to another device")
	assert.Equal(t, 1, tr.Stats().Unattributed[UnknownMIG])

	other := map[string]gpudata.Description{"GPU-1/gi8": {Parent: "GPU-1", Profile: "1g.10gb", MIGUUID: "MIG-1"}}
	tr.StoreDevices(at(200), other)
	assert.Nil(t, tr.Lookup("GPU-1/gi7", nanos(200)), "the device was not scraped for longer than the history")
	assert.Equal(t, []string{"a"}, pods(t, tr, "GPU-1/gi8", 200))
	assert.Zero(t, tr.Stats().Unattributed[UnknownMIG])
}

func TestAnAllocatedDeviceWithoutAScrapeIsCounted(t *testing.T) {
	tr := newTestTracker()
	tr.Update(at(10), listing(10, container("a", gpu("GPU-1"), gpu("GPU-2")),
		container("b", catalogue.PluginID{Raw: "GPU-1::1", UUID: "GPU-1", Replica: true})))
	notScraped := func() int { return tr.Stats().Unattributed[NotScraped] }
	assert.Zero(t, notScraped(), "no scrape has arrived")
	tr.StoreDevices(at(20), devices("GPU-1"))
	assert.Equal(t, 1, notScraped())
	tr.StoreDevices(at(30), devices("GPU-2"))
	assert.Zero(t, notScraped())
	tr.StoreDevices(at(145), devices("GPU-2"))
	assert.Equal(t, 1, notScraped(), "GPU-1 fell off the bus; it counts as one device")
	tr.Update(at(150), listing(150, container("b", gpu("GPU-2"))))
	assert.Zero(t, notScraped(), "the device is not allocated any more")
}

// Before Kubernetes 1.34, the kubelet also lists the devices of completed pods.
func TestAnUnmatchedDeviceOfAnEndedPodDoesNotMakeOtherDevicesUnknown(t *testing.T) {
	const board, other = "GPU-2c1f1b4e-0000-0000-0000-000000000001", "GPU-2c1f1b4e-0000-0000-0000-000000000002"
	unknown := exporters.PluginID(board + "-3") // The format is unknown.
	for name, job := range map[string]ContainerResources{
		"the ID of a device plugin":          container("job", unknown),
		"a DRA device that is in no slice":   claimed("job", dra("c", "gpu-9")),
		"both an ID and an identified board": {Namespace: "ns", Pod: "job", Container: "c", Devices: []catalogue.PluginID{unknown, gpu(board)}},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTestTracker()
			tr.StoreDevices(at(0), devices(board, other))
			s := listing(10, job)
			s.PodsState, s.Pods = kube.Synced, []Pod{{Namespace: "ns", Name: "job", UID: "uid-job"}}
			tr.Update(at(10), s)
			assert.Equal(t, Decision{}, decided(tr, other, 10), "the running pod might hold the device")
			assert.NotEqual(t, [NumReasons]int{}, tr.Stats().Unattributed)

			s.Pods = []Pod{{Namespace: "ns", Name: "job", UID: "uid-job", Ended: true}}
			tr.Update(at(20), s)
			assert.Equal(t, Decision{}, decided(tr, other, 20), "the kubelet responded before the pod ended")

			s.Listing.Time = nanos(30)
			tr.Update(at(30), s)
			for _, id := range []string{board, other} {
				assert.Equal(t, Decision{HoldersKnown: true}, decided(tr, id, 30), "nobody holds %s", id)
				assert.Equal(t, Decision{}, decided(tr, other, 19), "the pod was running")
			}
			assert.Zero(t, tr.Stats().Unattributed)
			assert.Empty(t, tr.Stats().UnknownIDs)
		})
	}
}

func TestNoHolderStaysValidForTheGraceAfterTheLastAnswer(t *testing.T) {
	tr := newTestTracker()
	tr.StoreDevices(at(5), devices("GPU-1", "GPU-2"))
	s := listing(10, container("a", gpu("GPU-1")))
	tr.Update(at(10), s)
	known := func(seconds int64) bool {
		return Decide(tr.Lookup("GPU-2", nanos(seconds)), nanos(seconds), nil, nil, false).HoldersKnown
	}
	assert.True(t, known(1000), "each poll returns the same answer")
	s.Listing.State = kube.Stale
	tr.Update(at(20), s)
	assert.True(t, known(189))
	assert.False(t, known(190))
	assert.Equal(t, []string{"a"}, pods(t, tr, "GPU-1", 1000), "holders stay valid")
	s.Listing.State, s.Listing.Time = kube.Synced, nanos(200)
	tr.Update(at(200), s)
	assert.False(t, known(195))
	assert.True(t, known(200))
}

func TestTheHistoryEndsAfterItsLength(t *testing.T) {
	tr := newTestTracker()
	tr.StoreDevices(at(0), devices("GPU-1"))
	for s := int64(10); s <= 1000; s += 10 {
		tr.Update(at(s), listing(s, container(fmt.Sprint("p", s), gpu("GPU-1"))))
	}
	assert.Equal(t, []string{"p1000"}, pods(t, tr, "GPU-1", 1000))
	assert.Equal(t, []string{"p880"}, pods(t, tr, "GPU-1", 885))
	assert.Nil(t, tr.Lookup("GPU-1", nanos(875)), "older than the history")
	assert.LessOrEqual(t, len(tr.observations), 14)
}

func TestTheHistoryIsBoundedForAnyInterval(t *testing.T) {
	tr := newTestTracker()
	for i := range int64(3 * maxObservations) {
		s := listing(0, container(fmt.Sprint("p", i), gpu("GPU-1")))
		s.Listing.Time = nanos(1000) + i*1e6
		tr.Update(time.Unix(0, s.Listing.Time), s)
	}
	assert.Len(t, tr.observations, maxObservations)
}

func TestAfterTheClockWasSetBackTheNewestAnswerApplies(t *testing.T) {
	tr := newTestTracker()
	tr.StoreDevices(at(0), devices("GPU-1"))
	for s := int64(500); s <= 1000; s += 10 {
		tr.Update(at(s), listing(s, container("before", gpu("GPU-1"))))
	}
	tr.Update(at(940), listing(940, container("after", gpu("GPU-1"))))
	assert.Equal(t, []string{"after"}, pods(t, tr, "GPU-1", 945))
	assert.Equal(t, []string{"before"}, pods(t, tr, "GPU-1", 935))

	// The kubelet has not responded since the clock was set back.
	tr.Update(at(900), listing(930, container("newest", gpu("GPU-1"))))
	assert.Equal(t, []string{"newest"}, pods(t, tr, "GPU-1", 901))
}

func TestAfterTheClockWasSetBackPodsExist(t *testing.T) {
	tr := newTestTracker()
	s := listing(1000, container("a", gpu("GPU-1")), container("job", gpu("GPU-2")))
	s.PodsState = kube.Synced
	s.Pods = []Pod{{Namespace: "ns", Name: "a", UID: "uid-a", Created: nanos(990)}, {Namespace: "ns", Name: "job", UID: "uid-job", Created: nanos(990)}}
	tr.Update(at(1001), s)
	assert.Equal(t, []string{"a"}, pods(t, tr, "GPU-1", 1001))

	s.Listing.Time = nanos(401)
	s.Pods = []Pod{s.Pods[0], {Namespace: "ns", Name: "job", UID: "uid-job", Created: nanos(990), Ended: true}}
	tr.Update(at(401), s)
	assert.Equal(t, []string{"a"}, pods(t, tr, "GPU-1", 402))
	assert.Empty(t, pods(t, tr, "GPU-2", 402))
	uid, _ := tr.Pod("ns", "a", "", nanos(402))
	assert.Equal(t, "uid-a", uid)
}

func TestAPodThatIsNotInTheCacheYetIsAHolder(t *testing.T) {
	tr := newTestTracker()
	s := listing(10, container("web-0", gpu("GPU-1")))
	s.PodsState, s.Pods = kube.Synced, []Pod{{Namespace: "ns", Name: "web-0", UID: "old", Created: nanos(1)}}
	tr.Update(at(9), Sources{PodsState: kube.Synced, Pods: s.Pods})
	s.Pods = nil // The pods are deleted after the kubelet's response.
	tr.Update(at(10), s)
	e := tr.Lookup("GPU-1", nanos(11))
	require.Len(t, e.Holders, 1)
	assert.Empty(t, e.Holders[0].UID, "the UID of another pod must not be used")

	s.Pods = []Pod{{Namespace: "ns", Name: "web-0", UID: "new", Created: nanos(9)}}
	tr.Update(at(11), s)
	assert.Equal(t, "new", tr.Lookup("GPU-1", nanos(11)).Holders[0].UID)
	uid, _ := tr.Pod("ns", "web-0", "", nanos(5))
	assert.Equal(t, "old", uid)
}

func TestWithoutPermissionToReadPodsHoldersHaveNoUIDs(t *testing.T) {
	tr := newTestTracker()
	tr.Update(at(10), listing(10, container("a", gpu("GPU-1"))))
	h := tr.Lookup("GPU-1", nanos(10)).Holders[0]
	assert.Equal(t, gpudata.Holder{Namespace: "ns", Pod: "a", Container: "c"}, h.Holder)
	assert.True(t, h.At(nanos(10)))
}

func TestAnAmbiguousNameMatchesNoDevice(t *testing.T) {
	tr := newTestTracker()
	tr.StoreDevices(at(10), map[string]gpudata.Description{
		"GPU-1":     {Name: "nvidia0"},
		"GPU-2":     {Name: "nvidia0"},
		"GPU-3/gi1": {Parent: "GPU-3", MIGUUID: "MIG-1"},
		"GPU-3/gi2": {Parent: "GPU-3", MIGUUID: "MIG-1"},
		"GPU-3/gi7": {Parent: "GPU-3"},
	})
	s := listing(10, container("a", catalogue.PluginID{Raw: "nvidia0", Name: "nvidia0"}, mig("MIG-1"), mig("MIG-2")))
	s.Instances = []Instance{{"MIG-2", "GPU-3", "7"}, {"MIG-3", "GPU-3", "7"}, {"MIG-3", "GPU-3", "7"}}
	tr.Update(at(10), s)
	assert.Equal(t, 1, tr.Stats().Unattributed[UnknownName])
	assert.Equal(t, 1, tr.Stats().Unattributed[UnknownMIG])
	assert.Equal(t, []string{"a"}, pods(t, tr, "GPU-3/gi7", 10), "a holds one of the two compute instances")
	assert.Empty(t, tr.Lookup("GPU-3/gi7", nanos(10)).Facts.MIGUUID, "the instance has two MIG devices")
}

func TestStrategies(t *testing.T) {
	own := func(pod string, h Holding) Holding {
		h.Holder = gpudata.Holder{Namespace: "ns", Pod: pod, Container: "c"}
		h.until = forever
		return h
	}
	claim := gpudata.Allocation{Claim: "claim"}
	share := gpudata.Allocation{Claim: "claim", ShareID: "1"}
	for _, tt := range []struct {
		name     string
		sharing  string
		holders  []Holding
		want     string
		conflict bool
	}{
		{"nobody", "", nil, "", false},
		{"alone", "", []Holding{own("a", Holding{raw: "x"})}, signal.SharingNone, false},
		{"a sole holder on a node with shared devices", signal.SharingMPS, []Holding{own("a", Holding{raw: "x"})}, signal.SharingNone, false},
		{"a replica", "", []Holding{own("a", Holding{raw: "x", Replica: true})}, signal.SharingUnknown, false},
		{"a replica of MPS", signal.SharingMPS, []Holding{own("a", Holding{raw: "x", Replica: true})}, signal.SharingMPS, false},
		{"one ID for two pods", "", []Holding{own("a", Holding{raw: "x"}), own("b", Holding{raw: "x"})}, signal.SharingUnknown, true},
		{"one ID for two pods on a node with shared devices", signal.SharingTimeSlicing, []Holding{own("a", Holding{raw: "x"}), own("b", Holding{raw: "x"})}, signal.SharingUnknown, true},
		{"two replicas on a node with shared devices", signal.SharingTimeSlicing, []Holding{own("a", Holding{raw: "x::0", Replica: true}), own("b", Holding{raw: "x::1", Replica: true})}, signal.SharingTimeSlicing, false},
		{"one ID for two containers of a pod on a node with shared devices", signal.SharingMPS, []Holding{own("a", Holding{raw: "x"}), own("a", Holding{raw: "x"})}, signal.SharingUnknown, false},
		{"two IDs of one instance on a node with shared devices", signal.SharingTimeSlicing, []Holding{own("a", Holding{raw: "x"}), own("b", Holding{raw: "y"})}, signal.SharingMIG, false},
		{"two IDs of one instance", "", []Holding{own("a", Holding{raw: "x"}), own("b", Holding{raw: "y"})}, signal.SharingMIG, false},
		{"a claim", "", []Holding{own("a", Holding{raw: "x", Allocation: claim})}, signal.SharingNone, false},
		{"a share", "", []Holding{own("a", Holding{raw: "x", Allocation: share})}, signal.SharingDRA, false},
		{"two claims of one container", "", []Holding{own("a", Holding{raw: "x", Allocation: claim, several: true})}, signal.SharingDRA, false},
		{"a claim for two pods", "", []Holding{own("a", Holding{raw: "x", Allocation: claim}), own("b", Holding{raw: "x", Allocation: claim})}, signal.SharingDRA, false},
		{"a claim and a device plugin", "", []Holding{own("a", Holding{raw: "x", Allocation: claim}), own("b", Holding{raw: "y"})}, signal.SharingUnknown, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, conflict := strategy(tt.holders, tt.sharing)
			assert.Equal(t, tt.want, got)
			assert.Equal(t, tt.conflict, conflict)
		})
	}
}

// The node's sharing strategy applies only to shares of a device plugin. How a share that a scheduler
// assigned is enforced is unknown.
func TestTheSharingOfANodeDoesNotDescribeAssignedShares(t *testing.T) {
	holder := Holding{Replica: true, Replicas: 1, until: forever}
	holder.Holder = gpudata.Holder{Namespace: "ns", Pod: "a", Container: "c"}
	for _, sharing := range []string{"", signal.SharingTimeSlicing, signal.SharingMPS} {
		assigned := Decide(&Entry{Assigned: []Holding{holder}, sharing: sharing}, 1, nil, nil, false)
		assert.Equal(t, signal.HolderSourceAnnotation, assigned.Source)
		assert.Equal(t, signal.SharingUnknown, assigned.Strategy)
	}
	listed := Decide(&Entry{Source: signal.HolderSourcePodResources, Holders: []Holding{holder}, sharing: signal.SharingMPS}, 1, nil, nil, false)
	assert.Equal(t, signal.SharingMPS, listed.Strategy)
}

// The order of entries from the kubelet, the API server, and the labels does not affect the result.
// A container is never listed twice as a holder of the same device.
func TestHoldersDoNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		uuid := rapid.SampledFrom([]string{"GPU-1", "GPU-2"})
		pod := rapid.SampledFrom([]string{"a", "b", "web-0"})
		name := rapid.SampledFrom([]string{"gpu-0", "gpu-1", "gpu-2"})
		ref := rapid.Custom(func(rt *rapid.T) catalogue.PluginID {
			d := catalogue.PluginID{UUID: uuid.Draw(rt, "uuid"), Replica: rapid.Bool().Draw(rt, "replica")}
			switch rapid.IntRange(0, 4).Draw(rt, "kind") {
			case 0:
				d.GPUInstance = "7"
			case 1:
				d = catalogue.PluginID{MIGUUID: "MIG-1"}
			case 2:
				d = catalogue.PluginID{Name: "nvidia1"}
			}
			d.Raw = fmt.Sprint(d, rapid.IntRange(0, 2).Draw(rt, "raw"))
			return d
		})
		claimed := rapid.Custom(func(rt *rapid.T) ClaimedDevice {
			return ClaimedDevice{Namespace: "ns", Allocation: gpudata.Allocation{
				Claim:  rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "claim"),
				Driver: "gpu.nvidia.com", Pool: "n1", Device: name.Draw(rt, "device"),
				ShareID: rapid.SampledFrom([]string{"", "1"}).Draw(rt, "share"),
			}}
		})
		s := Sources{
			PodsState:   rapid.SampledFrom([]kube.Phase{kube.Off, kube.Synced}).Draw(rt, "pods"),
			ClaimsState: rapid.SampledFrom([]kube.Phase{kube.Off, kube.Synced}).Draw(rt, "claims"),
			Listing:     Listing{State: rapid.SampledFrom([]kube.Phase{kube.Off, kube.Stale, kube.Synced}).Draw(rt, "listing"), Time: nanos(10)},
		}
		for range rapid.IntRange(0, 4).Draw(rt, "containers") {
			s.Listing.Containers = append(s.Listing.Containers, ContainerResources{
				Namespace: "ns", Pod: pod.Draw(rt, "pod"), Container: "c",
				Devices: rapid.SliceOfN(ref, 0, 3).Draw(rt, "devices"),
				Claimed: rapid.SliceOfN(claimed, 0, 2).Draw(rt, "claimed"),
			})
		}
		for _, p := range []string{"a", "b"} {
			s.Pods = append(s.Pods, Pod{Namespace: "ns", Name: p, UID: "uid-" + p, Claims: []kube.ContainerClaim{{Container: "c", Claim: "x"}, {Container: "d", Claim: "y"}}})
		}
		s.Devices = map[DRADevice]SliceDevice{}
		for i, id := range []string{"GPU-1", "MIG-1", "GPU-2"} {
			s.Devices[DRADevice{"gpu.nvidia.com", "n1", fmt.Sprint("gpu-", i)}] = SliceDevice{UUID: id}
		}
		for _, c := range []string{"x", "y"} {
			s.Claims = append(s.Claims, ClaimedDevice{
				Namespace: "ns",
				Allocation: gpudata.Allocation{
					Claim: c, ClaimUID: "uid-" + c, Request: "r", Driver: "gpu.nvidia.com", Pool: "n1", Device: name.Draw(rt, "result"),
				},
				ReservedFor: []gpudata.Holder{{Namespace: "ns", Pod: "a", UID: "uid-a"}, {Namespace: "ns", Pod: "b", UID: "uid-b"}},
			})
		}
		labels := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) Holding {
			return Holding{Holder: gpudata.Holder{
				Namespace: "ns", Pod: pod.Draw(rt, "pod"), UID: rapid.SampledFrom([]string{"", "uid-1"}).Draw(rt, "uid"), Container: "c",
			}}
		}), 0, 4).Draw(rt, "labels")
		devices := map[string]gpudata.Description{
			"GPU-1":     {Name: "nvidia0"},
			"GPU-2":     {Name: "nvidia1"},
			"GPU-2/gi7": {Parent: "GPU-2", Name: "nvidia1", MIGUUID: "MIG-1"},
		}
		decide := func(s Sources, labels []Holding) map[string]Decision {
			tr := newTestTracker()
			tr.StoreDevices(at(10), devices)
			tr.Update(at(10), s)
			out := map[string]Decision{}
			for id := range devices {
				out[id] = Decide(tr.Lookup(id, nanos(10)), nanos(10), slices.Clone(labels), nil, false)
				seen := map[gpudata.Holder]bool{}
				for _, h := range out[id].Holders {
					if seen[h.Holder] {
						rt.Fatalf("%v holds %s twice", h.Holder, id)
					}
					seen[h.Holder] = true
				}
			}
			return out
		}
		want := decide(s, labels)
		seed := rapid.Uint64().Draw(rt, "seed")
		r := rand.New(rand.NewPCG(seed, seed))
		shuffled := s
		shuffled.Listing.Containers = reordered(r, s.Listing.Containers)
		for i := range shuffled.Listing.Containers {
			c := &shuffled.Listing.Containers[i]
			c.Devices, c.Claimed = reordered(r, c.Devices), reordered(r, c.Claimed)
		}
		shuffled.Pods, shuffled.Claims = reordered(r, s.Pods), reordered(r, s.Claims)
		if got := decide(shuffled, reordered(r, labels)); !assert.ObjectsAreEqual(want, got) {
			rt.Fatalf("order matters:\n%+v\n%+v", want, got)
		}
	})
}

func reordered[T any](r *rand.Rand, s []T) []T {
	out := slices.Clone(s)
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// nodeOf returns a tracker with 8 boards that each have 7 instances. Each instance has one holder.
// The pods parameter is the number of pods on the node.
func nodeOf(pods int) (tr *Tracker, s Sources, ids []string) {
	tr = newTestTracker()
	devices := map[string]gpudata.Description{}
	s = Sources{PodsState: kube.Synced, Listing: Listing{State: kube.Synced, Time: nanos(10)}}
	for g := range 8 {
		board := fmt.Sprintf("GPU-%08d-0000-0000-0000-000000000000", g)
		devices[board] = gpudata.Description{Name: fmt.Sprint("nvidia", g)}
		for i := range 7 {
			gi := fmt.Sprint(7 + i)
			devices[exporters.InstanceID(board, gi)] = gpudata.Description{Parent: board, Name: fmt.Sprint("nvidia", g), Profile: "1g.10gb"}
			s.Listing.Containers = append(s.Listing.Containers, container(fmt.Sprintf("pod-%d", 7*g+i), catalogue.PluginID{UUID: board, GPUInstance: gi}))
		}
	}
	for i := range pods {
		s.Pods = append(s.Pods, Pod{Namespace: "ns", Name: fmt.Sprintf("pod-%d", i), UID: fmt.Sprintf("uid-%d", i)})
	}
	tr.StoreDevices(at(10), devices)
	for i := range int64(12) { // a full history
		s.Listing.Time = nanos(10 + 10*i)
		tr.Update(at(10+10*i), s)
	}
	return tr, s, slices.Sorted(maps.Keys(devices))
}

func BenchmarkLookup(b *testing.B) {
	for _, pods := range []int{8, 1000} {
		b.Run(fmt.Sprintf("%d pods", pods), func(b *testing.B) {
			tr, _, ids := nodeOf(pods)
			now := nanos(1000)
			i, holders := 1, 0 // ids[0] is a board. Only the board's instances have holders.
			b.ReportAllocs()
			var cpu cpumeter.Meter
			cpu.Start(b)
			for b.Loop() {
				d := Decide(tr.Lookup(ids[i%len(ids)], now), now, nil, nil, false)
				holders += len(d.Holders)
				i++
			}
			cpu.Stop(b)
			cpu.Report(b, 1)
			require.Positive(b, holders)
		})
	}
}

// BenchmarkUpdate measures one call to Update with a new response from the kubelet.
func BenchmarkUpdate(b *testing.B) {
	for _, pods := range []int{56, 1000} {
		b.Run(fmt.Sprintf("%d pods", pods), func(b *testing.B) {
			tr, s, _ := nodeOf(pods)
			i := int64(1)
			b.ReportAllocs()
			for b.Loop() {
				s.Listing.Time = nanos(130 + 10*i)
				tr.Update(at(130+10*i), s)
				i++
			}
		})
	}
}
