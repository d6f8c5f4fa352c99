package dashboards

import (
	"math"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// room is the free memory that the gate's queries require, in MiB.
const room = 6 * 1024

// TestTheGateIsOpenOnlyWhileAGPUHasRoom runs KEDA's query and the recording rule on a real
// Prometheus server that receives the agent's data.
func TestTheGateIsOpenOnlyWhileAGPUHasRoom(t *testing.T) {
	server := startPrometheus(t)
	keda, rule := gateQueries(t)
	const none = -1 // KEDA treats a missing value as 0
	gate := func(at time.Time) [2]float64 { return [2]float64{server.value(t, keda, at), server.value(t, rule, at)} }
	assert.Equal(t, [2]float64{none, 0}, gate(time.Now()), "before the first telemetry")

	gpu := func(others int, tenants ...tenant) card { return card{uuid: fullGPU, others: others, tenants: tenants} }
	transcriber := func(used int) tenant { return uses("batch", "transcriber-x", "uid-of-no-matter", used) }
	doubtful := transcriber(1000)
	doubtful.reported = cardMemory - 1000
	exporter := startCardExporter(t, gpu(cardMemory-room+1))
	agent := start(t, map[string]string{
		"DCGM_ENDPOINT": exporter.URL + "/metrics", "OTLP_ENDPOINT": server.URL + "/api/v1/otlp", "STORAGE_DIR": t.TempDir(),
		"HEALTH_ENDPOINT": processtest.FreeAddress(t),
	}, "otelcol-gpu", "--config", examplesDir+"/agent.yaml", "--config", examplesDir+"/backends/prometheus.yaml", "--config", "testdata/gate.yaml")

	for _, step := range []struct {
		name string
		card card
		want [2]float64
	}{
		{"a MiB is missing", gpu(cardMemory - room + 1), [2]float64{0, 0}},
		{"exactly the required memory is free", gpu(cardMemory - room), [2]float64{1, 1}},
		{"the tenant uses the memory", gpu(cardMemory-room, transcriber(room-cudaContext)), [2]float64{1, 1}},
		{"the tenant has ended, and another process uses the memory", gpu(cardMemory - 1000), [2]float64{0, 0}},
		{"memory is free again", gpu(1000), [2]float64{1, 1}},
		{"memory is free, but the values contradict each other", gpu(1000, doubtful), [2]float64{none, 0}},
		{"they do not any more", gpu(1000), [2]float64{1, 1}},
	} {
		exporter.show(step.card)
		var got [2]float64
		until(t, agent, processtest.Patience, func() bool {
			got = gate(time.Now())
			free := server.value(t, `gpu_memory_headroom_bytes{k8s_pod_name=""} / 1024 / 1024`, time.Now())
			return got == step.want && math.Round(free) == float64(step.card.free())
		})
		require.Equal(t, step.want, got, step.name)
	}

	// The exporter fails. By default, Prometheus would use the last value for another five minutes.
	exporter.show()
	var last float64
	until(t, agent, processtest.Patience, func() bool {
		last = server.value(t, `max(timestamp(gpu_memory_headroom_bytes))`, time.Now())
		failed := server.value(t, `max(timestamp(gpu_exporter_up == 0))`, time.Now())
		return failed-last >= 5 // seconds; more than a window and its grace period, so all headroom samples have been sent
	})
	at := func(age time.Duration) time.Time { return time.UnixMilli(int64(last * 1000)).Add(age) }
	assert.Equal(t, [2]float64{1, 1}, gate(at(3*time.Minute-time.Second)))
	assert.Equal(t, [2]float64{none, 0}, gate(at(3*time.Minute)))
	assert.Equal(t, [2]float64{none, 0}, gate(at(10*time.Minute)))
}

// value evaluates an expression at the given time and returns the single resulting value, or -1 if
// there is no result.
func (p *prometheus) value(t *testing.T, expr string, at time.Time) float64 {
	t.Helper()
	var data struct {
		Result []struct{ Value [2]any }
	}
	p.API(t, "query?"+url.Values{"query": {expr}, "time": {at.Format(time.RFC3339Nano)}}.Encode(), &data)
	if len(data.Result) == 0 {
		return -1
	}
	require.Len(t, data.Result, 1)
	v, err := strconv.ParseFloat(data.Result[0].Value[1].(string), 64)
	require.NoError(t, err)
	return v
}
