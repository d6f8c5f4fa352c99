package gpuwatchdogexporter

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/decide"
)

const (
	// stateKey is the only key in the storage extension.
	stateKey = "state"
	// stateVersion is the version of the stored format.
	stateVersion = 1
	// recordKey is the key of the Lease annotation in which all watchdogs record their actions.
	recordKey = "otelcol-gpu/watchdog-actions"
)

// evaluationState contains the data that is kept between evaluations.
type evaluationState struct {
	breaches    map[decide.Device]decide.Breach
	actions     []decide.Action // this watchdog's actions only
	lastSuccess time.Time
}

func newEvaluationState() *evaluationState {
	return &evaluationState{breaches: map[decide.Device]decide.Breach{}}
}

type storedBreach struct {
	decide.Device
	decide.Breach
}

type storedState struct {
	Version     int             `json:"version"`
	LastSuccess time.Time       `json:"last_success,omitzero"`
	Breaches    []storedBreach  `json:"breaches"`
	Actions     []decide.Action `json:"actions"`
}

// hasOpenAction reports whether the watchdog took an action on the device and the shortage has not
// ended yet.
func (m *evaluationState) hasOpenAction(device decide.Device) bool {
	return slices.ContainsFunc(m.actions, func(a decide.Action) bool { return a.Device == device && !a.Ended })
}

// The encode method returns the state in the stored format. Devices without a breach are omitted,
// unless their ClearSince time is needed to detect that a shortage has ended.
func (m *evaluationState) encode() []byte {
	s := storedState{Version: stateVersion, LastSuccess: m.lastSuccess, Actions: m.actions}
	for device, breach := range m.breaches {
		if breach.Count > 0 || !breach.ClearSince.IsZero() && m.hasOpenAction(device) {
			s.Breaches = append(s.Breaches, storedBreach{device, breach})
		}
	}
	slices.SortFunc(s.Breaches, func(a, b storedBreach) int {
		return strings.Compare(a.Node+" "+a.ID, b.Node+" "+b.ID)
	})
	text, _ := json.Marshal(s) // all values can be encoded as JSON
	return text
}

func (s *storedState) evaluationState() *evaluationState {
	m := newEvaluationState()
	for _, b := range s.Breaches {
		m.breaches[b.Device] = b.Breach
	}
	m.actions, m.lastSuccess = s.Actions, s.LastSuccess
	return m
}
