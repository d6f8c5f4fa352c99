package attribution

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

const draDriver = "gpu.nvidia.com"

// dra returns a device that is allocated to the given claim.
func dra(claim, device string) ClaimedDevice {
	return ClaimedDevice{Namespace: "ns", Allocation: gpudata.Allocation{Claim: claim, Driver: draDriver, Pool: "n1", Device: device}}
}

// reservedFor returns a device that is allocated to the given claim. The claim is reserved for the
// named pods.
func reservedFor(claim, device string, names ...string) ClaimedDevice {
	d := dra(claim, device)
	for _, name := range names {
		d.ReservedFor = append(d.ReservedFor, gpudata.Holder{Namespace: "ns", Pod: name, UID: "uid-" + name})
	}
	return d
}

func claimed(pod string, devices ...ClaimedDevice) ContainerResources {
	return ContainerResources{Namespace: "ns", Pod: pod, Container: "c", Claimed: devices}
}

// withClaims returns sources in which claims and pods can be read, but the kubelet cannot be read.
func withClaims(claims []ClaimedDevice, running ...string) Sources {
	s := Sources{ClaimsState: kube.Synced, Claims: claims, PodsState: kube.Synced, Devices: map[DRADevice]SliceDevice{
		{draDriver, "n1", "gpu-0"}:                {Kind: "gpu", UUID: "GPU-1"},
		{draDriver, "n1", "gpu-0-mig-3g40gb-9-0"}: {Kind: "mig", Parent: "GPU-1", Profile: "3g.40gb"},
		{draDriver, "n1", "gpu-0-mig-3g40gb-9-4"}: {Kind: "mig", Parent: "GPU-1", Profile: "3g.40gb"},
	}}
	for _, name := range running {
		s.Pods = append(s.Pods, Pod{Namespace: "ns", Name: name, UID: "uid-" + name})
	}
	return s
}

func decided(tr *Tracker, id string, seconds int64) Decision {
	return Decide(tr.Lookup(id, nanos(seconds)), nanos(seconds), nil, nil, false)
}

func TestAnEndedPodReleasesItsClaimedDeviceBeforeTheClaimIsUpdated(t *testing.T) {
	tr := newTestTracker()
	tr.StoreDevices(at(0), devices("GPU-1"))
	s := withClaims([]ClaimedDevice{reservedFor("c", "gpu-0", "a")}, "a")
	tr.Update(at(10), s)
	assert.Equal(t, []string{"a"}, pods(t, tr, "GPU-1", 10))
	s.Pods = []Pod{{Namespace: "ns", Name: "a", UID: "uid-a", Ended: true}}
	tr.Update(at(20), s)
	assert.Equal(t, []string{"a"}, pods(t, tr, "GPU-1", 19))
	assert.Equal(t, Decision{HoldersKnown: true}, decided(tr, "GPU-1", 20), "nobody holds it")
}

// A claim that is reserved for a PodGroup stays reserved after one of the group's pods has ended.
func TestAnUnmatchedClaimOfAnEndedPodDoesNotMakeOtherDevicesUnknown(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		tr := newTestTracker()
		tr.StoreDevices(at(0), devices("GPU-1"))
		s := withClaims([]ClaimedDevice{reservedFor("c", "gpu-9", "a", "elsewhere")}, "a") // The device is in no slice.
		tr.Update(at(10), s)
		assert.Equal(t, Decision{}, decided(tr, "GPU-1", 10), "the pod might hold the device")
		assert.Equal(t, 1, tr.Stats().Unattributed[NoSlice])

		s.Pods = nil
		if !deleted {
			s.Pods = []Pod{{Namespace: "ns", Name: "a", UID: "uid-a", Ended: true}}
		}
		tr.Update(at(20), s)
		assert.Equal(t, Decision{}, decided(tr, "GPU-1", 19))
		assert.Equal(t, Decision{HoldersKnown: true}, decided(tr, "GPU-1", 20), "nobody holds it")
		assert.Zero(t, tr.Stats().Unattributed)
	}
}

func TestAReservationForAPodThatIsNotOnTheNodeHoldsNothing(t *testing.T) {
	tr := newTestTracker()
	tr.StoreDevices(at(0), devices("GPU-1"))
	tr.Update(at(10), withClaims([]ClaimedDevice{reservedFor("c", "gpu-0", "gone", "a")}, "a"))
	assert.Equal(t, []string{"a"}, pods(t, tr, "GPU-1", 10))
	unread := withClaims([]ClaimedDevice{reservedFor("c", "gpu-0", "unknown")})
	unread.PodsState = kube.Off
	tr.Update(at(20), unread)
	assert.Equal(t, []string{"unknown"}, pods(t, tr, "GPU-1", 20), "pods cannot be read")
}

func TestTheLatestLabelsDetermineTheInstanceOfADevice(t *testing.T) {
	instance := func(device string) gpudata.Description {
		return gpudata.Description{Parent: "GPU-1", Profile: "3g.40gb", Allocation: gpudata.Allocation{Driver: draDriver, Pool: "n1", Device: device}}
	}
	tr := newTestTracker()
	tr.StoreDevices(at(0), map[string]gpudata.Description{"GPU-1/gi1": instance("gpu-0-mig-3g40gb-9-0")})
	tr.Update(at(10), withClaims([]ClaimedDevice{reservedFor("c", "gpu-0-mig-3g40gb-9-0", "a")}, "a"))
	assert.Equal(t, []string{"a"}, pods(t, tr, "GPU-1/gi1", 10))
	tr.StoreDevices(at(20), map[string]gpudata.Description{"GPU-1/gi2": instance("gpu-0-mig-3g40gb-9-0")})
	assert.Equal(t, []string{"a"}, pods(t, tr, "GPU-1/gi2", 20), "the driver created another instance")
	assert.Empty(t, pods(t, tr, "GPU-1/gi1", 20))
	tr.StoreDevices(at(30), map[string]gpudata.Description{"GPU-1/gi1": instance("gpu-0-mig-3g40gb-9-0"), "GPU-1/gi2": instance("gpu-0-mig-3g40gb-9-0")})
	assert.Empty(t, pods(t, tr, "GPU-1/gi1", 30), "two instances at the same time are ambiguous")
	assert.Empty(t, pods(t, tr, "GPU-1/gi2", 30))
}

func TestTwoClaimsOfOneDeviceThatCannotBeReadLeaveItsHolderUnknown(t *testing.T) {
	listed := func(containers ...ContainerResources) Sources {
		s := listing(10, containers...)
		s.Devices = withClaims(nil).Devices
		return s
	}
	share := func(claim, id string) ClaimedDevice {
		d := dra(claim, "gpu-0")
		d.ShareID = id
		return d
	}
	for name, tt := range map[string]struct {
		sources   Sources
		holders   []string
		conflicts int
	}{
		"one claim for two pods":                                {listed(claimed("a", dra("c", "gpu-0")), claimed("b", dra("c", "gpu-0"))), []string{"a", "b"}, 0},
		"another of a monitoring agent":                         {listed(claimed("a", dra("c", "gpu-0")), claimed("nvidia-dcgm-dra-x", dra("d", "gpu-0"))), []string{"a"}, 0},
		"two shares of one device":                              {listed(claimed("a", share("c", "1")), claimed("b", share("d", "2"))), []string{"a", "b"}, 0},
		"a shared device that the kubelet lists without shares": {sharedGPU0(listed(claimed("a", dra("c", "gpu-0")), claimed("b", dra("d", "gpu-0")))), []string{"a", "b"}, 0},
		"two claims, one must be administrative": {
			listed(claimed("a", dra("c", "gpu-0")), claimed("b", dra("d", "gpu-0"))), nil, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTestTracker()
			tr.StoreDevices(at(0), devices("GPU-1"))
			tr.Update(at(10), tt.sources)
			assert.Equal(t, tt.holders, pods(t, tr, "GPU-1", 10))
			assert.Equal(t, tt.conflicts, tr.Stats().Conflicts)
			label := []Holding{{Holder: gpudata.Holder{Namespace: "ns", Pod: "b", Container: "c"}}}
			if d := Decide(tr.Lookup("GPU-1", nanos(10)), nanos(10), label, nil, false); tt.conflicts > 0 {
				assert.Equal(t, Decision{}, d, "the exporter's label names only one of the two pods")
			}
		})
	}
}

// A monitoring agent can have administrative access to all devices, including devices that cannot
// be identified.
func TestAnUnmatchedDeviceThatAClaimOnlyObservesDoesNotMakeOtherDevicesUnknown(t *testing.T) {
	observed := dra("monitor", "gpu-9") // The device is in no slice.
	admin := observed
	admin.Admin = true
	for name, tt := range map[string]struct {
		pod    string
		claims []ClaimedDevice
		known  bool
	}{
		"a claim with administrative access":           {"agent", []ClaimedDevice{admin}, true},
		"a claim without administrative access":        {"agent", []ClaimedDevice{observed}, false},
		"an unread claim of a monitoring agent":        {"nvidia-dcgm-dra-x", nil, true},
		"an unread claim of another pod":               {"agent", nil, false},
		"a monitoring agent's claim to its own device": {"nvidia-dcgm-dra-x", []ClaimedDevice{observed}, false},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTestTracker()
			tr.StoreDevices(at(0), devices("GPU-1"))
			s := withClaims(tt.claims)
			s.Listing = listing(10, claimed(tt.pod, observed)).Listing
			tr.Update(at(10), s)
			assert.Equal(t, Decision{HoldersKnown: tt.known}, decided(tr, "GPU-1", 10))
			assert.Equal(t, tt.known, tr.Stats().Unattributed == [NumReasons]int{})
		})
	}
}

// sharedGPU0 adds the device gpu-0 to the given sources. The device can be allocated to several
// claims.
func sharedGPU0(s Sources) Sources {
	s.Devices[DRADevice{draDriver, "n1", "gpu-0"}] = SliceDevice{Kind: "gpu", UUID: "GPU-1", Shared: true}
	return s
}

func TestABoardIsUnallocatedAsSoonAsItsInstancesAreRemoved(t *testing.T) {
	tr := newTestTracker()
	tr.StoreDevices(at(0), map[string]gpudata.Description{"GPU-1": {}, "GPU-1/gi1": {Parent: "GPU-1", Profile: "3g.40gb"}})
	tr.Update(at(10), withClaims(nil))
	assert.True(t, decided(tr, "GPU-1", 10).HoldersKnown)
	cut := Decide(tr.Lookup("GPU-1", nanos(10)).Cut(), nanos(10), nil, nil, false)
	assert.False(t, cut.HoldersKnown, "in a frame with instances, no pod holds the board, but pods may hold its instances")
}
