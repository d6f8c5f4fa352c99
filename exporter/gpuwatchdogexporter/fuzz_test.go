package gpuwatchdogexporter

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/decide"
)

// Whatever the storage and the Lease contain, the watchdog either rejects the content, or accepts
// the content and can store it again. The watchdog never evicts a pod unless the watchdog has read
// the state of the pod from the API server.
func FuzzMemory(f *testing.F) {
	state := newEvaluationState()
	at := time.Unix(1_700_000_000, 0).UTC()
	device := decide.Device{Node: "n1", ID: "GPU-1"}
	state.breaches[device] = decide.Breach{Count: 3, LastAt: at, Over: map[string]int{"uid": 3}}
	state.actions = []decide.Action{{At: at, Device: device, Namespace: "a", Pod: "p", UID: "uid", Owner: "a/ReplicaSet/r"}}
	note, err := json.Marshal(state.actions)
	require.NoError(f, err)
	f.Add(state.encode(), note)
	f.Add([]byte(`{"version":1,"breaches":[{"node":"n1","id":"GPU-1","count":-9223372036854775808}],"actions":null}`), []byte(`null`))
	f.Add([]byte(`{"version":1,"breaches":[{"node":"n1","id":"GPU-1","count":9223372036854775807,"last_at":"9999-12-31T23:59:59Z"}]}`),
		[]byte(`[{"at":"0000-01-01T00:00:00Z"},{"at":"9999-12-31T23:59:59Z"}]`))
	f.Add([]byte(`{"version":2}`), []byte(`{}`))
	policy := createDefaultConfig().(*Config).policy()
	policy.Namespaces = []string{"a"}
	f.Fuzz(func(t *testing.T, text, note []byte) {
		m := newEvaluationState()
		var stored storedState
		if json.Unmarshal(text, &stored) == nil {
			m = stored.evaluationState()
		}
		var actions []decide.Action
		if json.Unmarshal(note, &actions) == nil {
			m.actions = decide.Merge(m.actions, actions)
		}
		sample := &decide.Sample{At: at, Headroom: 1 << 30, Usage: 79 << 30, Limit: 80 << 30, Attribution: decide.Valid}
		after, d := decide.Evaluate(decide.State{Breach: m.breaches[device], Actions: m.actions},
			decide.Input{Device: device, Sample: sample}, policy, at)
		require.Nil(t, d.Action, "no pod is over its budget")
		m.breaches[device], m.actions = after.Breach, after.Actions
		var again storedState
		require.NoError(t, json.Unmarshal(m.encode(), &again))
		require.Len(t, again.evaluationState().actions, len(m.actions))
	})
}
