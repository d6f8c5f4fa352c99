package pdatagpu

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/goldentest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pointtest"
)

func TestAmountsHaveTheUnitOfTheirCurrency(t *testing.T) {
	md := goldentest.Points(t, `10s {k8s.node.name=n1} gpu.unallocated.cost {hw.id=GPU-1, gpu.cost.currency=USD} = 1
10s {k8s.node.name=n1} gpu.unallocated.cost {hw.id=GPU-2, gpu.cost.currency=EUR} = 1
10s {k8s.node.name=n1, k8s.pod.name=a} k8s.container.gpu.cost {hw.id=GPU-1, gpu.usage.estimated=true, gpu.cost.currency=USD} = 1
10s {k8s.node.name=n1, k8s.pod.name=a} k8s.container.gpu.cost.idle {hw.id=GPU-1, gpu.usage.estimated=true} = 1`, false)
	out := pmetric.NewMetrics()
	(&Writer{}).Write(Read(md, func(*signal.Metric) bool { return true }).Frames, out)
	var got []string
	for p := range points.All(out) {
		got = append(got, p.Metric.Name()+" "+p.Metric.Unit()+" "+pointtest.Text(p.Attributes()))
	}
	assert.ElementsMatch(t, []string{
		"gpu.unallocated.cost {USD} {gpu.cost.currency=USD, hw.id=GPU-1}",
		"gpu.unallocated.cost {EUR} {gpu.cost.currency=EUR, hw.id=GPU-2}",
		"k8s.container.gpu.cost {USD} {gpu.cost.currency=USD, gpu.usage.estimated=true, hw.id=GPU-1}",
		"k8s.container.gpu.cost.idle {currency} {gpu.usage.estimated=true, hw.id=GPU-1}",
	}, got)
}

func TestTheInstanceTypeAndLabelsOfANodeAreRead(t *testing.T) {
	md := goldentest.Points(t, `10s {k8s.node.name=n1, host.type=a3, k8s.node.label.pool=spot} hw.power {hw.id=GPU-1} = 1`, false)
	frames := Read(md, func(*signal.Metric) bool { return true }).Frames
	require.Len(t, frames, 1)
	assert.Equal(t, "a3", frames[0].HostType)
	assert.Equal(t, map[string]string{"pool": "spot"}, frames[0].NodeLabels)
	out := pmetric.NewMetrics()
	(&Writer{}).Write(frames, out)
	assert.Equal(t, "{host.type=a3, k8s.node.label.pool=spot, k8s.node.name=n1}", pointtest.Text(out.ResourceMetrics().At(0).Resource().Attributes()))
}
