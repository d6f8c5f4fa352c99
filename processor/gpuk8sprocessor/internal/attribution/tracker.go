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

// maxObservations bounds the history, in answers of the sources, whatever the interval
// of asking is.
const maxObservations = 128

// Tracker keeps who held what for a while. All methods are safe for concurrent
// use; reading takes no lock.
type Tracker struct {
	history, grace int64
	drivers        []string

	mu           sync.Mutex
	observations []observation // oldest first
	pods         podLog
	users        userIndex                      // of pods
	devices      map[string]gpudata.Description // by hw.id
	seen         map[string]int64               // when telemetry last showed a device
	labelled     map[DRADevice]string           // the instance that telemetry last showed as a DRA device

	view atomic.Pointer[view]
}

// observation has the answers of the sources from a moment on.
type observation struct {
	from    int64
	sources Sources
}

// view is the state for readers.
type view struct {
	tables []*Table // oldest first
	pods   podLog
	users  userIndex
	// hostType and labels are the node's now.
	hostType string
	labels   map[string]string
}

// New returns a Tracker that knows nothing. What was so serves late samples for the length of
// history; for that of grace after the kubelet's last answer nobody holds a device that it did not
// name. drivers are the DRA drivers whose devices are GPUs.
func New(history, grace time.Duration, drivers []string) *Tracker {
	t := &Tracker{
		history: int64(history), grace: int64(grace), drivers: drivers,
		devices: map[string]gpudata.Description{}, seen: map[string]int64{}, labelled: map[DRADevice]string{},
	}
	t.view.Store(&view{})
	return t
}

// Update takes over what the sources say now. A kubelet's answer holds from its
// own time on, everything else from now on. The Tracker keeps what s refers to,
// which must not change any more.
func (t *Tracker) Update(now time.Time, s Sources) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := now.UnixNano()
	if s.PodsState != kube.Off {
		t.pods = t.pods.update(n, n-t.history, s.Pods)
		t.users = t.pods.users()
	}
	s.Pods = nil // in the log, with their times
	// After a step of the clock backwards nothing holds from a later time on.
	for len(t.observations) > 0 && t.observations[len(t.observations)-1].from > n {
		t.observations = t.observations[:len(t.observations)-1]
	}
	from := n
	switch last := len(t.observations) - 1; {
	case last < 0:
		from = n - t.history // the first must do for samples that were under way
	case reflect.DeepEqual(t.observations[last].sources, s):
		t.rebuild()
		return
	case onlyListing(&t.observations[last].sources, &s) && s.Listing.State == kube.Synced:
		from = min(n, max(s.Listing.Time, t.observations[last].from))
	}
	t.observations = append(t.observations, observation{from, s})
	old := max(0, len(t.observations)-maxObservations)
	for old+1 < len(t.observations) && t.observations[old+1].from <= n-t.history {
		old++
	}
	t.observations = append([]observation(nil), t.observations[old:]...)
	t.rebuild()
}

func onlyListing(a, b *Sources) bool {
	x := *a
	x.Listing = b.Listing
	return reflect.DeepEqual(x, *b)
}

// See takes over which devices of this node telemetry shows now, by hw.id. Devices that
// it has not shown for the length of the history are forgotten: an instance
// that is no more must not stand in the way of a new one.
func (t *Tracker) See(now time.Time, devices map[string]gpudata.Description) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := now.UnixNano()
	changed := t.label(devices)
	for id, d := range devices {
		if known, ok := t.devices[id]; !ok || known != d {
			t.devices[id] = d
			changed = true
		}
		t.seen[id] = n
	}
	for id, at := range t.seen {
		if at < n-t.history {
			delete(t.seen, id)
			delete(t.devices, id)
			maps.DeleteFunc(t.labelled, func(_ DRADevice, instance string) bool { return instance == id })
			changed = true
		}
	}
	if changed {
		t.rebuild()
	}
}

// label notes which instances labels name as DRA devices, and reports whether that changed. A driver can make
// another instance for each allocation of a device, so the last one counts. A device that labels two
// instances at once is neither. mu is held.
func (t *Tracker) label(devices map[string]gpudata.Description) (changed bool) {
	now := map[DRADevice]string{}
	for id, d := range devices {
		if d.Parent != "" && d.Allocation.Device != "" {
			note(now, draDevice(&d.Allocation), id)
		}
	}
	for device, id := range now {
		if last, known := t.labelled[device]; !known || last != id {
			t.labelled[device] = id
			changed = true
		}
	}
	return changed
}

// rebuild makes the tables anew; mu is held.
func (t *Tracker) rebuild() {
	v := &view{pods: t.pods, users: t.users, tables: make([]*Table, len(t.observations))}
	for i := range t.observations {
		o := &t.observations[i]
		v.hostType, v.labels = o.sources.HostType, o.sources.NodeLabels
		v.tables[i] = build(o.from, &o.sources, t.pods, t.devices, t.labelled, t.drivers, t.grace)
	}
	t.view.Store(v)
}

// Lookup returns the entry of a device at a time in nanoseconds; nil when there is none.
func (t *Tracker) Lookup(id string, at int64) *Entry {
	tables := t.view.Load().tables
	for _, table := range slices.Backward(tables) {
		if table.from <= at {
			return table.entries[id]
		}
	}
	return nil
}

// Pod returns the UID of the pod that has a name at a time in nanoseconds, empty when it is not
// known, and whether the pod is known to hold nothing any more: its containers had ended, or it
// was deleted. uid is the UID that is known with the name, empty for none.
func (t *Tracker) Pod(namespace, name, uid string, at int64) (known string, gone bool) {
	pods := t.view.Load().pods
	if uid != "" {
		a := pods.find(namespace, name, uid)
		return uid, a != nil && a.holding() <= at
	}
	if a := pods.at(namespace, name, at); a != nil {
		return a.UID, a.ended <= at
	}
	return "", pods.left(namespace, name, at)
}

// Container returns the container of a process by the container's ID and the pod's UID as
// control groups spell them, both empty where they are not known. An unknown container of a
// known pod has no name. It reports false when both are unknown.
func (t *Tracker) Container(podUID, containerID string) (gpudata.Holder, bool) {
	users := t.view.Load().users
	u, ok := users.byContainer[containerID]
	if !ok && podUID != "" {
		u, ok = users.byPod[podUID]
	}
	return u.Holder, ok
}

// Reserves reports whether a holder is a reservation pod, which holds nothing itself.
func (t *Tracker) Reserves(h gpudata.Holder) bool { return t.view.Load().pods.reserves(h) }

// Gone reports whether a pod is known to hold nothing any more at a time in
// nanoseconds.
func (t *Tracker) Gone(podUID string, at int64) bool {
	u, ok := t.view.Load().users.byPod[podUID]
	return ok && u.until <= at
}

// Owner returns what is known of who made a pod.
func (t *Tracker) Owner(podUID string) gpudata.Owner { return t.view.Load().users.byPod[podUID].owner }

// Node returns the node's instance type and labels as they are now.
func (t *Tracker) Node() (hostType string, labels map[string]string) {
	v := t.view.Load()
	return v.hostType, v.labels
}

// Stats counts what the sources' newest state cannot be used for.
type Stats struct {
	// Unattributed counts allocated devices that cannot be joined with one that
	// telemetry shows.
	Unattributed [NumReasons]int
	// Conflicts counts devices that pods were given as if each had them alone.
	Conflicts int
	// NotUnderstood has, for each resource with ids in an unknown form, one such id.
	NotUnderstood map[string]string
}

// Stats returns the counts of the newest table.
func (t *Tracker) Stats() Stats {
	tables := t.view.Load().tables
	if len(tables) == 0 {
		return Stats{}
	}
	return tables[len(tables)-1].stats
}
