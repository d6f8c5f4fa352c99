package gpuk8sprocessor

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stage"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadatatest"
)

// jobProcessor returns a processor with the given job limit, together with the processor's
// self-metrics and log.
func jobProcessor(t *testing.T, limit int) (*gpuK8s, *componenttest.Telemetry, *observer.ObservedLogs) {
	t.Helper()
	tel := componenttest.NewTelemetry()
	t.Cleanup(func() { require.NoError(t, tel.Shutdown(context.Background())) })
	core, logs := observer.New(zapcore.WarnLevel)
	set := processortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = tel.NewTelemetrySettings()
	set.Logger = zap.New(core)
	p := newTestProcessor(t, "", set)
	p.jobs.limit.Value, p.jobs.Limit = limit, stage.NewLimit(limit)
	p.cfg.NodeName = "" // If no node name is set, the processor reads neither the kubelet nor the API server.
	require.NoError(t, p.start(t.Context(), componenttest.NewNopHost()))
	t.Cleanup(func() { require.NoError(t, p.shutdown(context.Background())) })
	return p, tel, logs
}

func lines(t *testing.T, p *gpuK8s, scrape ...string) string {
	t.Helper()
	md, err := p.processMetrics(context.Background(), parse(t, scrape, 10*time.Second))
	require.NoError(t, err)
	return shorten(render(md))
}

func TestADeviceOfARefusedJobHasAnUnknownHolder(t *testing.T) {
	p, tel, logs := jobProcessor(t, 1)
	got := lines(t, p, "GPU-1 hw.power=5", "job=1 GPU-1 gpu.device.holder=1")
	assert.Contains(t, got, "{hpc.job.id=1, k8s.node.name=n1} hw.power=5")

	// Job 2 shares a board with job 1, is the only holder of another board, and runs a process on a
	// third board.
	got = lines(t, p, "GPU-1 hw.power=5", "GPU-2 hw.power=5", "GPU-3 hw.power=5",
		"job=1 GPU-1 gpu.device.holder=1", "job=2 GPU-1 gpu.device.holder=1", "job=2 GPU-2 gpu.device.holder=1",
		"job=2 GPU-2 k8s.container.gpu.memory.usage=7", "job=2 GPU-3 process.gpu.memory.usage=7 process.pid=3")
	assert.NotContains(t, got, "hpc.job.id=2")
	assert.NotContains(t, got, "gpu.device.holder", "the holders of a board are reported only if all of them are known")
	assert.NotContains(t, got, "gpu.sharing.clients", "no board is reported as a board without holders")
	assert.Contains(t, got, "{k8s.node.name=n1} process.gpu.memory.usage=7", "the device series remain")

	metadatatest.AssertEqualProcessorGpuK8sJobsRefused(t, tel, []metricdata.DataPoint[int64]{{Value: 3}}, metricdatatest.IgnoreTimestamp())
	metadatatest.AssertEqualProcessorGpuK8sJobs(t, tel, []metricdata.DataPoint[int64]{{Value: 1}}, metricdatatest.IgnoreTimestamp())
	require.Equal(t, 1, logs.Len())
	assert.Contains(t, logs.All()[0].Message, "max_jobs of 1 is reached: new batch jobs are refused")
}

func TestAnExpiredJobDoesNotCountForTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, _ := jobProcessor(t, 1)
		lines(t, p, "GPU-1 hw.power=5", "job=1 GPU-1 gpu.device.holder=1")
		time.Sleep(9 * time.Minute)
		assert.NotContains(t, lines(t, p, "GPU-1 hw.power=5", "job=2 GPU-1 gpu.device.holder=1"), "hpc.job.id")
		time.Sleep(time.Minute)
		assert.Contains(t, lines(t, p, "GPU-1 hw.power=5", "job=2 GPU-1 gpu.device.holder=1"), "hpc.job.id=2")
	})
}

func TestASeriesOfAJobHasTheJobsUser(t *testing.T) {
	p, _, _ := jobProcessor(t, 1)
	md := parse(t, []string{"GPU-1 hw.power=5", "job=1 GPU-1 gpu.device.holder=1"}, 10*time.Second)
	md.ResourceMetrics().At(1).Resource().Attributes().PutStr(signal.HPCJobUser, "ada")
	frames, err := pdatagpu.Sections(p.section()).Process(t.Context(), &pdatagpu.Arrival{Metrics: md})
	require.NoError(t, err)
	assert.Empty(t, frames)
	assert.Contains(t, render(md), "{hpc.job.id=1, hpc.job.user=ada, k8s.node.name=n1} hw.power=5")
}

func TestThousandsOfJobsAreBounded(t *testing.T) {
	p, _, _ := jobProcessor(t, 100)
	for batch := range 10 {
		scrape := []string{"GPU-1 hw.power=5"}
		for i := range 1000 {
			scrape = append(scrape, fmt.Sprintf("job=%d GPU-2 k8s.container.gpu.memory.usage=7", batch*1000+i))
		}
		lines(t, p, scrape...)
	}
	assert.Equal(t, 100, p.jobs.Used())
}
