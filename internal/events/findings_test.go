package events

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// withFinding returns a frame with two held GPUs in which a finding starts or ends.
func withFinding(s int64, x gpudata.Finding) *gpudata.Frame {
	f := &gpudata.Frame{Place: node, Time: at(s).UnixNano(), Findings: []gpudata.Finding{x}}
	for _, id := range []string{"GPU-1", "GPU-2"} {
		d := f.Device(id)
		d.Observed, d.Model = true, "H100"
		d.User(gpudata.Holder{Namespace: "team", Pod: "of-" + id}).Holds = true
	}
	return f
}

func TestAFindingIsAnEventOfItsDeviceAndHolder(t *testing.T) {
	tr := New(DefaultSettings())
	got := tr.Frame(withFinding(0, gpudata.Finding{Name: "spinning", Device: "GPU-2", Start: true, Body: "why", Numbers: map[string]float64{"gpu.finding.power": 70}}), at(0), nil)
	require.Len(t, got, 1)
	assert.Equal(t, "0s gpu.finding.start GPU-2 gpu.finding=spinning x1 WARN", line(got[0]))
	assert.Equal(t, "of-GPU-2", got[0].Holder.Pod)
	assert.Equal(t, "H100", got[0].Description.Model)
	assert.Equal(t, "why", got[0].Body)
	got = tr.Frame(withFinding(100, gpudata.Finding{Name: "spinning", Device: "GPU-2", Duration: 100 * time.Second}), at(100), nil)
	require.Len(t, got, 1)
	assert.Equal(t, "100s gpu.finding.end GPU-2 gpu.finding=spinning x1 WARN", line(got[0]))
	assert.Equal(t, map[string]float64{AttrDuration: 100}, got[0].Numbers)
}

func TestFindingsOfTwoWorkloadsOfANodeAreTwoEvents(t *testing.T) {
	tr := New(DefaultSettings())
	for i, id := range []string{"GPU-1", "GPU-2"} {
		got := tr.Frame(withFinding(int64(i), gpudata.Finding{Name: "spinning", Device: id, Workload: true, Start: true}), at(int64(i)), nil)
		require.Len(t, got, 1)
		assert.Empty(t, got[0].Device, "the finding is not about a single device")
		assert.Equal(t, "of-"+id, got[0].Holder.Pod)
	}
}

func TestAFindingOfARemovedDeviceHasNoHolder(t *testing.T) {
	tr := New(DefaultSettings())
	got := tr.Frame(withFinding(0, gpudata.Finding{Name: "spinning", Device: "GPU-9"}), at(0), nil)
	require.Len(t, got, 1)
	assert.Equal(t, "0s gpu.finding.end GPU-9 gpu.finding=spinning x1 WARN", line(got[0]))
	assert.True(t, got[0].Holder.IsZero())
}
