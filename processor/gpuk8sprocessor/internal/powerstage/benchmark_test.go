package powerstage

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/cpumeter"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pdatatest"
)

// largeNode returns a batch from a node with 8 boards that each have 7 instances. Three containers
// share each instance. Each container runs one process.
func largeNode(t testing.TB, seconds int) pmetric.Metrics {
	t.Helper()
	var b strings.Builder
	line := func(resource, metric, attrs string, v float64) {
		fmt.Fprintf(&b, "%ds {k8s.node.name=n1%s} %s {%s} = %v\n", seconds, resource, metric, attrs, v)
	}
	for board := range 8 {
		id := fmt.Sprintf("GPU-%08d-0000-0000-0000-000000000000", board)
		describe := "hw.model=NVIDIA H100 80GB HBM3, hw.vendor=NVIDIA, hw.type=gpu, hw.id=" + id
		line("", "hw.power", describe, 700)
		for gi := range 7 {
			instance := fmt.Sprintf("%s/gi%d", id, 7+gi)
			describe := describe + fmt.Sprintf("/gi%d, hw.parent=%s, gpu.mig.profile=1g.10gb, gpu.mig.gpu_instance.id=%d", 7+gi, id, 7+gi)
			line("", "gpu.process.count", describe, 3)
			for _, m := range []string{"gpu.engine.active", "gpu.sm.active", "gpu.dram.active", "hw.gpu.memory.utilization"} {
				line("", m, describe, 0.1*float64(gi+1))
			}
			for c := range 3 {
				pod := fmt.Sprintf("b%d-i%d-c%d", board, gi, c)
				line(fmt.Sprintf(", k8s.namespace.name=ns, k8s.pod.name=%s, k8s.pod.uid=uid-%s, k8s.container.name=main", pod, pod),
					"gpu.device.holder", describe+", gpu.holder.source=pod_resources, gpu.sharing.strategy=time_slicing", 1)
				line(", k8s.pod.uid=uid-"+pod, "process.gpu.utilization",
					fmt.Sprintf("hw.id=%s, process.pid=%d%d%d", instance, board+1, gi, c), 0.1*float64(c+1))
			}
		}
	}
	return parse(t, b.String(), false)
}

func BenchmarkPower(b *testing.B) {
	cfg := createDefaultConfig().(*Config)
	idle := 70.0
	cfg.Idle.Watts = &idle
	p, err := NewFactory().CreateMetrics(context.Background(), processortest.NewNopSettings(metadata.Type), cfg, consumertest.NewNop())
	require.NoError(b, err)
	template := largeNode(b, 10)
	batch := template.DataPointCount()
	b.ReportAllocs()
	var cpu cpumeter.Meter
	seconds := 10
	for b.Loop() {
		b.StopTimer()
		md := pmetric.NewMetrics()
		template.CopyTo(md)
		seconds++
		setTime(md, seconds)
		b.StartTimer()
		cpu.Start(b)
		require.NoError(b, p.ConsumeMetrics(context.Background(), md))
		cpu.Stop(b)
	}
	cpu.Report(b, batch)
}

func setTime(md pmetric.Metrics, seconds int) {
	for _, rm := range md.ResourceMetrics().All() {
		for _, m := range rm.ScopeMetrics().At(0).Metrics().All() {
			for _, dp := range points.Of(m).All() {
				dp.SetTimestamp(pcommon.Timestamp(seconds) * 1e9)
			}
		}
	}
}

// The limit on allocations is 10% above the value that was measured when this test was written.
func TestABatchOfANodeStaysWithinItsAllocations(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	idle := 70.0
	cfg.Idle.Watts = &idle
	p, err := newProcessor(cfg, processortest.NewNopSettings(metadata.Type))
	require.NoError(t, err)
	assert.Less(t, pdatatest.Allocations(t, functionsOf(p).Process, func(i int) pmetric.Metrics { return largeNode(t, 10+i) }), 2680.0)
}
