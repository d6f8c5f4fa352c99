//go:build !race

package usagestage

// The race detector also allocates memory, so `make test-long` runs these tests without the race
// detector.

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
)

// The limit on allocations is 10% above the value that was measured when this test was written.
func TestAFrameOfANodeStaysWithinItsAllocations(t *testing.T) {
	p, err := newWithoutPods(testConfig(), processortest.NewNopSettings(metadata.Type))
	require.NoError(t, err)
	f := largeNode("n1")
	copies := map[*gpudata.DeviceFrame]gpudata.Samples{}
	for _, d := range f.Devices {
		copies[d] = d.Samples
	}
	assert.Less(t, testing.AllocsPerRun(10, func() {
		step(f, copies)
		(&usageBatch{gpuUsage: p}).countFrame(f, time.Unix(0, f.Time))
	}), 339.0)
}
