package attribution

import (
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// maxObservations limits the length of the history, regardless of the polling interval.
const maxObservations = 128

// Tracker keeps the holders of devices for some time. All methods are safe for concurrent use.
// Reads do not lock.
type Tracker struct {
	history, grace int64
	drivers        []string

	mu           sync.Mutex
	observations []observation // oldest first
	pods         podLog
	users        userIndex                      // of pods
	devices      map[string]gpudata.Description // by hw.id
	seen         map[string]int64               // when the device was last in the telemetry
	labeled      map[DRADevice]string           // the instance with the latest labels for the DRA device

	view atomic.Pointer[trackerView]
}

// observation contains the sources' answers and the time from which they apply.
type observation struct {
	from    int64
	sources Sources
}

// trackerView is the immutable state that readers use.
type trackerView struct {
	tables []*Table // oldest first
	pods   podLog
	users  userIndex
	// hostType and labels are the node's current instance type and labels.
	hostType string
	labels   map[string]string
}

// New returns an empty Tracker. It keeps old states for the duration history, because samples may
// arrive late. A device without holders counts as free for at most the duration grace after the
// kubelet's last answer. drivers are the DRA drivers whose devices are GPUs.
func New(history, grace time.Duration, drivers []string) *Tracker {
	t := &Tracker{
		history: int64(history), grace: int64(grace), drivers: drivers,
		devices: map[string]gpudata.Description{}, seen: map[string]int64{}, labeled: map[DRADevice]string{},
	}
	t.view.Store(&trackerView{})
	return t
}

// Update stores the sources' current answers. The kubelet's answer applies from the time at which
// it arrived. All other answers apply from now. The Tracker keeps references to s, which must not
// change afterward.
func (t *Tracker) Update(now time.Time, s Sources) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := now.UnixNano()
	if s.PodsState != kube.Off {
		t.pods = t.pods.update(n, n-t.history, s.Pods)
		t.users = t.pods.users()
	}
	s.Pods = nil // t.pods contains the pods with their times
	// If the clock was set back, remove the observations that are in the future.
	for len(t.observations) > 0 && t.observations[len(t.observations)-1].from > n {
		t.observations = t.observations[:len(t.observations)-1]
	}
	from := n
	switch last := len(t.observations) - 1; {
	case last < 0:
		from = n - t.history // the oldest observation also applies to older samples that arrive late
	case reflect.DeepEqual(t.observations[last].sources, s):
		t.rebuild()
		return
	case onlyListing(&t.observations[last].sources, &s) && s.Listing.State == kube.Synced:
		from = min(n, max(s.Listing.Time, t.observations[last].from))
	}
	t.observations = append(t.observations, observation{from, s})
	expired := max(0, len(t.observations)-maxObservations)
	for expired+1 < len(t.observations) && t.observations[expired+1].from <= n-t.history {
		expired++
	}
	t.observations = append([]observation(nil), t.observations[expired:]...)
	t.rebuild()
}

func onlyListing(a, b *Sources) bool {
	x := *a
	x.Listing = b.Listing
	return reflect.DeepEqual(x, *b)
}

// StoreDevices stores the devices of this node that are in the telemetry now, by hw.id. It deletes
// devices that have not been in the telemetry for the duration history, so that a removed instance
// does not conflict with a new one.
func (t *Tracker) StoreDevices(now time.Time, devices map[string]gpudata.Description) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := now.UnixNano()
	changed := t.storeLabels(devices)
	for id, d := range devices {
		if previous, ok := t.devices[id]; !ok || previous != d {
			t.devices[id] = d
			changed = true
		}
		t.seen[id] = n
	}
	for id, at := range t.seen {
		if at < n-t.history {
			delete(t.seen, id)
			delete(t.devices, id)
			maps.DeleteFunc(t.labeled, func(_ DRADevice, instance string) bool { return instance == id })
			changed = true
		}
	}
	if changed {
		t.rebuild()
	}
}

// storeLabels stores which instance each DRA device is, according to the labels. It reports whether
// any instance changed. A driver can create another instance for each allocation of a device, so
// the latest labels apply. If two instances have the label of one device at the same time, the
// label is ignored. The caller holds mu.
func (t *Tracker) storeLabels(devices map[string]gpudata.Description) (changed bool) {
	now := map[DRADevice]string{}
	for id, d := range devices {
		if d.Parent != "" && d.Allocation.Device != "" {
			recordName(now, draDevice(&d.Allocation), id)
		}
	}
	for device, id := range now {
		if last, exists := t.labeled[device]; !exists || last != id {
			t.labeled[device] = id
			changed = true
		}
	}
	return changed
}

// rebuild builds the tables again. The caller holds mu.
func (t *Tracker) rebuild() {
	v := &trackerView{pods: t.pods, users: t.users, tables: make([]*Table, len(t.observations))}
	for i := range t.observations {
		o := &t.observations[i]
		v.hostType, v.labels = o.sources.HostType, o.sources.NodeLabels
		v.tables[i] = build(o.from, &o.sources, t.pods, t.devices, t.labeled, t.drivers, t.grace)
	}
	t.view.Store(v)
}

// Lookup returns the entry of a device at a sample time, or nil. at is in nanoseconds since the
// epoch.
func (t *Tracker) Lookup(id string, at int64) *Entry {
	tables := t.view.Load().tables
	for _, table := range slices.Backward(tables) {
		if table.from <= at {
			return table.entries[id]
		}
	}
	return nil
}

// Pod returns the UID of the pod that had a name at a sample time, or "" if it is unknown. at is in
// nanoseconds since the epoch. ended is true if the pod no longer holds any device, because its
// containers have ended or it was deleted. uid is the UID that the exporter reported with the name,
// or "".
func (t *Tracker) Pod(namespace, name, uid string, at int64) (known string, ended bool) {
	pods := t.view.Load().pods
	if uid != "" {
		a := pods.find(namespace, name, uid)
		return uid, a != nil && a.heldUntil() <= at
	}
	if a := pods.at(namespace, name, at); a != nil {
		return a.UID, a.ended <= at
	}
	return "", pods.anyEnded(namespace, name, at)
}

// Container returns the container of a process. containerID and podUID come from the process's
// control group. They are empty if they are unknown. If only the pod is found, the holder has no
// container name. Container returns false if neither is found.
func (t *Tracker) Container(podUID, containerID string) (gpudata.Holder, bool) {
	users := t.view.Load().users
	u, ok := users.byContainer[containerID]
	if !ok && podUID != "" {
		u, ok = users.byPod[podUID]
	}
	return u.Holder, ok
}

// Reserves reports whether a holder is a reservation pod, which does not use the device itself.
func (t *Tracker) Reserves(h gpudata.Holder) bool { return t.view.Load().pods.reserves(h) }

// HasEnded reports whether a pod is known to hold no device at a sample time. at is in nanoseconds
// since the epoch.
func (t *Tracker) HasEnded(podUID string, at int64) bool {
	u, ok := t.view.Load().users.byPod[podUID]
	return ok && u.until <= at
}

// Owner returns the known owners of a pod.
func (t *Tracker) Owner(podUID string) gpudata.Owner { return t.view.Load().users.byPod[podUID].owner }

// Node returns the node's current instance type and labels.
func (t *Tracker) Node() (hostType string, labels map[string]string) {
	v := t.view.Load()
	return v.hostType, v.labels
}

// Stats counts the unusable allocations in the newest state.
type Stats struct {
	// Unattributed counts allocated devices that match no device in the telemetry, by reason.
	// Unmatched has the first of them.
	Unattributed [NumReasons]int
	Unmatched    [NumReasons]string
	// Conflicts counts devices that are allocated exclusively to several pods or claims.
	// Conflicting is the first of them.
	Conflicts   int
	Conflicting string
	// UnknownIDs contains one example for each resource that has device IDs with an unknown form.
	UnknownIDs map[string]string
}

// Stats returns the counts of the newest table.
func (t *Tracker) Stats() Stats {
	tables := t.view.Load().tables
	if len(tables) == 0 {
		return Stats{}
	}
	return tables[len(tables)-1].stats
}
