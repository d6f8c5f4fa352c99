package kube

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	base "github.com/otelcol-gpu/otelcol-gpu/internal/component"
)

// Kind is a kind of API objects.
type Kind uint8

// The kinds that a [Cache] can hold.
const (
	Pods Kind = iota
	Nodes
	ResourceSlices
	ResourceClaims
	DeviceClasses
	ResourceClaimTemplates
	Jobs
	kinds // how many there are
)

// String returns the resource name of the kind as in a URL of the API, such as
// resourceslices.
func (k Kind) String() string { return kindNames[k] }

var kindNames = [kinds]string{"pods", "nodes", "resourceslices", "resourceclaims", "deviceclasses", "resourceclaimtemplates", "jobs"}

// Phase says what is known of a source: of a kind of API objects, or of the
// kubelet.
type Phase uint8

// The phases of a source. In all of them what was last seen stays readable.
const (
	// Off: not in use. By configuration, because the kind was not asked for, or
	// because the program does not run in a cluster, which is the error then.
	Off Phase = iota
	// Syncing: not yet complete. An error says why it takes long.
	Syncing
	// Synced: complete, and changes arrive.
	Synced
	// Stale: was complete once, and changes do not arrive any more.
	Stale
	// Forbidden: the permission to list and watch, or to open the socket, is
	// missing or was taken away.
	Forbidden
	// Absent: the server serves no known version of the API; the socket does not
	// exist.
	Absent
)

// String returns the phase in lower case, as an attribute of self-metrics.
func (p Phase) String() string { return phaseNames[p] }

var phaseNames = [...]string{"off", "syncing", "synced", "stale", "forbidden", "absent"}

// State is the state of a source.
type State struct {
	Phase Phase
	Since time.Time // when the phase began; zero when it never changed
	Err   error     // why the source is not Synced, when something went wrong
}

// become sets phase and error, and reports whether that is news.
func (s *State) become(phase Phase, err error, now time.Time) (news bool) {
	news = phase != s.Phase || (err == nil) != (s.Err == nil)
	if phase != s.Phase {
		s.Phase, s.Since = phase, now
	}
	s.Err = err
	return news
}

// Observe gives a self-metric a point for each phase, 1 for the one that is, 0 for the others.
func (s State) Observe(o metric.Int64Observer, of ...attribute.KeyValue) {
	for phase, name := range phaseNames {
		is := int64(0)
		if Phase(phase) == s.Phase {
			is = 1
		}
		o.Observe(is, metric.WithAttributes(append(slices.Clip(of), attribute.String("state", name))...))
	}
}

// waitSettled waits until a source is settled. When ctx ends before, the error says why it is not.
func waitSettled(ctx context.Context, subscribe func(func()) (unsubscribe func()), state func() State) error {
	changed := base.NewNotice()
	defer subscribe(changed.Give)()
	for {
		s := state()
		if s.Settled() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if s.Err != nil {
				return fmt.Errorf("%w (%w)", ctx.Err(), s.Err)
			}
			return ctx.Err()
		}
	}
}

// Settled says that there is no point in waiting: the source is complete, or will not be soon.
func (s State) Settled() bool { return s.Phase != Syncing }
