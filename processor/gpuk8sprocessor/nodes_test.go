package gpuk8sprocessor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
)

func TestANodeWithoutFramesIsDeletedWithItsJobs(t *testing.T) {
	p := newTestProcessor(t, "", processortest.NewNopSettings(metadata.Type))
	now := time.Unix(10_000, 0)
	frame := func(node, job string) {
		f := &gpudata.Frame{Place: gpudata.Place{Node: node}, Time: now.UnixNano()}
		d := f.Device("GPU-1")
		d.Observed = true
		d.User(gpudata.Holder{Job: job}).Holds = true
		p.attribute([]*gpudata.Frame{f}, now)
		p.sweep(now)
	}
	frame("n1", "7")
	now = now.Add(30 * time.Minute)
	frame("n2", "7")
	assert.Equal(t, 2, p.nodes.Len())
	assert.Equal(t, 1, p.jobs.Used(), "the job on n1 has expired")
	now = now.Add(31 * time.Minute)
	frame("n2", "7")
	assert.Equal(t, 1, p.nodes.Len())
	assert.Equal(t, 1, p.jobs.Used())
}
