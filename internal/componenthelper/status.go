package componenthelper

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
)

// ReportStatus reports a component's problem to the host. If the problem is nil, ReportStatus
// reports OK.
func ReportStatus(host component.Host, problem error) {
	event := componentstatus.NewEvent(componentstatus.StatusOK)
	if problem != nil {
		event = componentstatus.NewRecoverableErrorEvent(problem)
	}
	componentstatus.ReportStatus(host, event)
}

// Status reports the problems of a component's parts to the host, once for each change. Status is
// safe for concurrent use after Host has been set.
type Status struct {
	Host component.Host

	mu       sync.Mutex
	problems map[string]error // Problems by part. There is no entry for a part without a problem.
}

// Report sets the problem of a part. A nil problem means that the part has no problem. The first
// result reports whether the part's problem has changed. The second result is true if no part has a
// problem. Report holds the lock while it sends events to the host, so that the events arrive in
// the order in which the problems changed.
func (s *Status) Report(part string, problem error) (changed, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.problems[part]
	changed = (before == nil) != (problem == nil) || before != nil && before.Error() != problem.Error()
	if problem == nil {
		delete(s.problems, part)
	} else {
		if s.problems == nil {
			s.problems = map[string]error{}
		}
		s.problems[part] = problem
	}
	if changed {
		var all []error
		for _, part := range slices.Sorted(maps.Keys(s.problems)) {
			all = append(all, s.problems[part])
		}
		ReportStatus(s.Host, errors.Join(all...))
	}
	return changed, len(s.problems) == 0
}

// Part returns a host for a part of a component. If the part reports OK or a recoverable error, the
// returned host combines the event with the problems of the other parts, so that one part's OK does
// not hide another part's error. The returned host passes all other events to the component's host
// unchanged.
func (s *Status) Part(name string) component.Host { return &partHost{s.Host, s, name} }

type partHost struct {
	component.Host
	status *Status
	part   string
}

// Report implements componentstatus.Reporter.
func (h *partHost) Report(e *componentstatus.Event) {
	switch e.Status() {
	case componentstatus.StatusOK:
		h.status.Report(h.part, nil)
	case componentstatus.StatusRecoverableError:
		h.status.Report(h.part, e.Err())
	case componentstatus.StatusNone, componentstatus.StatusStarting, componentstatus.StatusPermanentError,
		componentstatus.StatusFatalError, componentstatus.StatusStopping, componentstatus.StatusStopped:
		componentstatus.ReportStatus(h.Host, e)
	}
}
