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

// maxObservations is the maximum number of observations in the history, regardless of the polling
// interval.
const maxObservations = 128

// Tracker stores the current and recent holders of devices. All methods are safe for concurrent
// use. The methods that only read data do not lock the mutex.
type Tracker struct {
	history, grace int64
	drivers        []string

	mu           sync.Mutex
	observations []observation // oldest first
	pods         podLog
	users        userIndex                      // users finds the containers and pods of processes.
	devices      map[string]gpudata.Description // devices maps hw.ids to descriptions.
	seen         map[string]int64               // seen contains the last time at which each device was in the telemetry.
	labeled      map[DRADevice]string           // labeled contains the instance that the labels last identified for each DRA device.

	view atomic.Pointer[trackerView]
}

// observation contains the data from the sources, and the time from which the data applies.
type observation struct {
	from    int64
	sources Sources
}

// trackerView is an immutable snapshot of the Tracker's state that readers use without locking.
type trackerView struct {
	tables []*Table // oldest first
	pods   podLog
	users  userIndex
	// hostType and labels are the node's current instance type and labels.
	hostType string
	labels   map[string]string
}

// New returns an empty Tracker. The history parameter is how long the Tracker keeps previous
// holders for samples that arrive late. The grace parameter is how long a device without holders
// counts as free after the kubelet's last response. The drivers parameter contains the DRA drivers
// whose devices are GPUs.
func New(history, grace time.Duration, drivers []string) *Tracker {
	t := &Tracker{
		history: int64(history), grace: int64(grace), drivers: drivers,
		devices: map[string]gpudata.Description{}, seen: map[string]int64{}, labeled: map[DRADevice]string{},
	}
	t.view.Store(&trackerView{})
	return t
}

// Update stores the current data from the sources. The data applies from the current time. If only
// the kubelet's response has changed, the data applies from the time at which the kubelet's
// response arrived. The caller must not modify s afterward, because the Tracker keeps references to
// the data in s.
func (t *Tracker) Update(now time.Time, s Sources) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := now.UnixNano()
	if s.PodsState != kube.Off {
		t.pods = t.pods.update(n, n-t.history, s.Pods)
		t.users = t.pods.users()
	}
	s.Pods = nil // The pods are stored in t.pods instead.
	// If the clock was set back, delete the observations whose time is in the future.
	for len(t.observations) > 0 && t.observations[len(t.observations)-1].from > n {
		t.observations = t.observations[:len(t.observations)-1]
	}
	from := n
	switch last := len(t.observations) - 1; {
	case last < 0:
		from = n - t.history // The first observation also applies to earlier samples that arrive late.
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

// StoreDevices stores the devices on this node that are currently in the telemetry. The keys of the
// devices map are hw.ids. StoreDevices also deletes the devices that have been missing from the
// telemetry for longer than t.history, so that a removed instance does not conflict with a new
// instance.
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

// storeLabels stores the instance that the exporter's labels identify for each DRA device. The
// changed result is true if the instance of any DRA device has changed. The latest labels are used,
// because a driver can create a different instance each time a DRA device is allocated. If the
// labels identify two instances for the same DRA device at the same time, both instances are
// ignored. The caller holds mu.
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

// rebuild builds all tables from the observations again. The caller holds mu.
func (t *Tracker) rebuild() {
	v := &trackerView{pods: t.pods, users: t.users, tables: make([]*Table, len(t.observations))}
	for i := range t.observations {
		o := &t.observations[i]
		v.hostType, v.labels = o.sources.HostType, o.sources.NodeLabels
		v.tables[i] = build(o.from, &o.sources, t.pods, t.devices, t.labeled, t.drivers, t.grace)
	}
	t.view.Store(v)
}

// Lookup returns the entry that applies to a device at a sample time, or nil if there is no entry.
// The at parameter is the sample time, in nanoseconds since the epoch.
func (t *Tracker) Lookup(id string, at int64) *Entry {
	tables := t.view.Load().tables
	for _, table := range slices.Backward(tables) {
		if table.from <= at {
			return table.entries[id]
		}
	}
	return nil
}

// Pod returns the UID of the pod that had the given namespace and name at a sample time, or "" if
// the UID is unknown. The at parameter is the sample time, in nanoseconds since the epoch. The
// ended result is true if the pod no longer holds any device, because its containers have ended or
// the pod was deleted. The uid parameter is the UID that the exporter reported together with the
// pod's name, or "" if the exporter reported no UID.
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

// Container returns the container of a process. The containerID and podUID parameters come from the
// process's cgroup, and are empty if unknown. If only the pod is found, the returned holder has no
// container name. If neither the container nor the pod is found, Container returns false.
func (t *Tracker) Container(podUID, containerID string) (gpudata.Holder, bool) {
	users := t.view.Load().users
	u, ok := users.byContainer[containerID]
	if !ok && podUID != "" {
		u, ok = users.byPod[podUID]
	}
	return u.Holder, ok
}

// Reserves reports whether h is a reservation pod. A reservation pod does not use its device
// itself.
func (t *Tracker) Reserves(h gpudata.Holder) bool { return t.view.Load().pods.reserves(h) }

// HasEnded reports whether a pod had already released its devices at a sample time. For an unknown
// pod, HasEnded returns false. The at parameter is the sample time, in nanoseconds since the epoch.
func (t *Tracker) HasEnded(podUID string, at int64) bool {
	u, ok := t.view.Load().users.byPod[podUID]
	return ok && u.until <= at
}

// Owner returns what is known about the owner of a pod.
func (t *Tracker) Owner(podUID string) gpudata.Owner { return t.view.Load().users.byPod[podUID].owner }

// Node returns the node's current instance type and labels.
func (t *Tracker) Node() (hostType string, labels map[string]string) {
	v := t.view.Load()
	return v.hostType, v.labels
}

// Stats describes the allocations that cannot be used.
type Stats struct {
	// Unattributed is the number of allocated devices that match no device in the telemetry, by
	// reason. For each reason, Unmatched contains the alphabetically first allocated device that
	// matches no device in the telemetry.
	Unattributed [NumReasons]int
	Unmatched    [NumReasons]string
	// Conflicts is the number of devices that are allocated exclusively to several pods or claims.
	// Conflicting is the alphabetically first device that has a conflict.
	Conflicts   int
	Conflicting string
	// If a resource has device IDs with an unknown format, UnknownIDs contains one of the unknown
	// IDs as an example.
	UnknownIDs map[string]string
}

// Stats returns the Stats of the newest table.
func (t *Tracker) Stats() Stats {
	tables := t.view.Load().tables
	if len(tables) == 0 {
		return Stats{}
	}
	return tables[len(tables)-1].stats
}
