package kube

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
)

// Kind is a kind of API object.
type Kind uint8

// The kinds of objects in a [Cache].
const (
	Pods Kind = iota
	Nodes
	ResourceSlices
	ResourceClaims
	DeviceClasses
	ResourceClaimTemplates
	Jobs
	DeviceTaintRules
	numKinds // number of kinds
)

// String returns the resource name of the kind in the API's URLs, such as resourceslices.
func (k Kind) String() string { return kindNames[k] }

var kindNames = [numKinds]string{"pods", "nodes", "resourceslices", "resourceclaims", "deviceclasses", "resourceclaimtemplates", "jobs", "devicetaintrules"}

// Phase is the phase of a source. A source is either a kind of API objects or the kubelet.
type Phase uint8

// The phases of a source. In each phase, the data that was last fetched can be read.
const (
	// Off means that the source is not in use, because it is disabled, the kind was not requested,
	// or the program does not run in a cluster. In the last case, Err is set.
	Off Phase = iota
	// Syncing means that the data is not complete yet. If Err is set, it is the reason for the
	// delay.
	Syncing
	// Synced means that the data is complete and up to date.
	Synced
	// Stale means that the data was complete at some time, but changes do not arrive at present.
	Stale
	// Forbidden means that the program has no permission to list and watch the kind, or to open the
	// socket.
	Forbidden
	// Absent means that the server serves no supported version of the API, or that the socket does
	// not exist.
	Absent
)

func (p Phase) String() string { return phaseNames[p] }

var phaseNames = [...]string{"off", "syncing", "synced", "stale", "forbidden", "absent"}

// State is the state of a source.
type State struct {
	Phase Phase
	Since time.Time // when the phase began; zero if the phase has never changed
	Err   error     // the error that prevents the phase Synced, if any
}

// update sets the phase and the error, and reports whether either has changed.
func (s *State) update(phase Phase, err error, now time.Time) (changed bool) {
	changed = phase != s.Phase || (err == nil) != (s.Err == nil)
	if phase != s.Phase {
		s.Phase, s.Since = phase, now
	}
	s.Err = err
	return changed
}

// Observe records one data point per phase for a self-metric: 1 for the current phase, and 0 for
// the others.
func (s State) Observe(o metric.Int64Observer, attributes ...attribute.KeyValue) {
	for phase, name := range phaseNames {
		value := int64(0)
		if Phase(phase) == s.Phase {
			value = 1
		}
		o.Observe(value, metric.WithAttributes(append(slices.Clip(attributes), attribute.String("state", name))...))
	}
}

// waitSettled waits until a source is settled. If ctx is done first, the error contains the reason.
func waitSettled(ctx context.Context, subscribe func(func()) (unsubscribe func()), state func() State) error {
	changed := componenthelper.NewNotice()
	defer subscribe(changed.Notify)()
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

// Settled reports whether there is no reason to wait, because the source is complete or is not
// expected to be complete soon.
func (s State) Settled() bool { return s.Phase != Syncing }
