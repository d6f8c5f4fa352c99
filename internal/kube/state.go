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

// Kinds of objects that a [Cache] can contain.
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

// String returns the kind's resource name in API URLs, such as resourceslices.
func (k Kind) String() string { return kindNames[k] }

var kindNames = [numKinds]string{"pods", "nodes", "resourceslices", "resourceclaims", "deviceclasses", "resourceclaimtemplates", "jobs", "devicetaintrules"}

// Phase is the phase of a data source. A data source is either the API server, for one kind of
// objects, or the kubelet.
type Phase uint8

// Phases of a source. In every phase, components can read the data that was fetched last.
const (
	// Off means that the source is not in use. There are three possible reasons: the source is
	// disabled, the kind was not requested, or the program does not run in a cluster. If the
	// program does not run in a cluster, Err is set.
	Off Phase = iota
	// Syncing means that the data is not complete yet. If Err is set, Err is the reason for the
	// delay.
	Syncing
	// Synced means that the data is complete and up to date.
	Synced
	// Stale means that the data was complete in the past, but the program currently does not
	// receive changes.
	Stale
	// Forbidden means that the program has no permission to list and watch objects of the kind, or
	// to open the kubelet's socket.
	Forbidden
	// Absent means that the server does not serve a supported version of the API, or that the
	// kubelet's socket does not exist.
	Absent
)

func (p Phase) String() string { return phaseNames[p] }

var phaseNames = [...]string{"off", "syncing", "synced", "stale", "forbidden", "absent"}

// State is the state of a data source.
type State struct {
	Phase Phase
	Since time.Time // When the phase began, or zero if the phase has never changed.
	Err   error     // The error that prevents the phase from being Synced, or nil.
}

// Failing reports whether the source exists, but its data currently cannot be read.
func (s State) Failing() bool { return s.Err != nil && s.Phase != Off && s.Phase != Absent }

// update sets the phase and the error. The result is true if the phase has changed, or if there is
// an error now but not before, or the other way around. The result is false if one error replaces
// another.
func (s *State) update(phase Phase, err error, now time.Time) (changed bool) {
	changed = phase != s.Phase || (err == nil) != (s.Err == nil)
	if phase != s.Phase {
		s.Phase, s.Since = phase, now
	}
	s.Err = err
	return changed
}

// Observe records one data point of a self-metric for each phase: 1 for the current phase, and 0
// for the others.
func (s State) Observe(o metric.Int64Observer, attributes ...attribute.KeyValue) {
	for phase, name := range phaseNames {
		value := int64(0)
		if Phase(phase) == s.Phase {
			value = 1
		}
		o.Observe(value, metric.WithAttributes(append(slices.Clip(attributes), attribute.String("state", name))...))
	}
}

// waitSettled waits until a source is settled. If ctx is done before the source is settled, the
// error explains why the source is not settled.
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

// Settled reports whether waiting for the source is pointless, either because the source's data is
// complete or because the data is not expected to become complete soon.
func (s State) Settled() bool { return s.Phase != Syncing }
