package gpuk8sprocessor

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadatatest"
)

// withMapping configures the processor with a directory that contains the given job mapping files.
// The modification times of the job mapping files are in the past.
func withMapping(t *testing.T, p *gpuK8s, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		require.NoError(t, os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)))
	}
	cfg := *p.cfg
	cfg.NodeName, cfg.Sources.JobMappingDir = "n1", dir
	p.mapping = newJobMapping(&cfg, p.logger)
}

const named = " " + signal.HardwareName + "="

func TestTheJobMappingAddsHoldersThatLabelsLack(t *testing.T) {
	p, tel, logs := jobProcessor(t, 10)
	withMapping(t, p, map[string]string{"0": "4711\n4712\n", "1": "no id\n", "2": "4713\n", "3": "4714\n", "3.7": "4715\n"})
	p.mapping.read(time.Unix(9, 0))
	scrape := []string{
		"GPU-1 hw.power=10" + named + "nvidia0",
		"GPU-2 hw.power=20" + named + "nvidia1",
		"GPU-3 hw.power=30" + named + "nvidia2", "job=9 GPU-3 gpu.device.holder=1",
		"GPU-4/gi7 hw.gpu.memory.usage=47" + named + "nvidia3", "GPU-4/gi8 hw.gpu.memory.usage=48" + named + "nvidia3",
		"node=n2 GPU-5 hw.power=50" + named + "nvidia0",
		"GPU-6 hw.power=60" + named + "card0",
	}
	var holders []string
	for line := range strings.Lines(lines(t, p, scrape...)) {
		if job, rest, ok := strings.Cut(line, ", k8s.node.name=n1} gpu.device.holder=1 "); ok {
			_, job, _ = strings.Cut(job, "{hpc.job.id=")
			_, device, _ := strings.Cut(rest, "hw.id=")
			holders = append(holders, job+" "+strings.TrimRight(strings.Split(device, ",")[0], "}\n"))
		}
	}
	assert.ElementsMatch(t, []string{"4711 GPU-1", "4712 GPU-1", "9 GPU-3", "4715 GPU-4/gi7"}, holders)

	require.Equal(t, 1, logs.Len())
	assert.Contains(t, logs.All()[0].ContextMap()["error"], "file 1 is invalid")
	of := func(state string, n int64) metricdata.DataPoint[int64] {
		return metricdata.DataPoint[int64]{Value: n, Attributes: attribute.NewSet(attribute.String("state", state))}
	}
	// Register the callback again, because the callback that start registered uses the original job
	// mapping.
	require.NoError(t, p.telemetry.RegisterProcessorGpuK8sJobFilesCallback(p.mapping.observe))
	metadatatest.AssertEqualProcessorGpuK8sJobFiles(t, tel, []metricdata.DataPoint[int64]{
		of("used", 4), of("unfinished", 0), of("unreadable", 0), of("invalid", 1), of("too_large", 0),
	}, metricdatatest.IgnoreTimestamp())
}

// Outside Kubernetes, a device without processes counts as free only if its job mapping file shows
// that no job holds the device.
func TestAnUnusableJobMappingFileIsNoProofThatADeviceIsFree(t *testing.T) {
	p, tel, _ := jobProcessor(t, 1)
	p.cfg.Sources.PodResources.Enabled, p.cfg.Sources.DRA.Enabled = false, false
	scrape := func() (free []string) {
		var points []string
		for i, name := range []string{"GPU-0", "GPU-1", "GPU-2", "GPU-3", "GPU-4"} {
			points = append(points, name+" hw.power=10"+named+"nvidia"+strconv.Itoa(i), name+" gpu.process.count=0")
		}
		for line := range strings.Lines(lines(t, p, points...)) {
			if _, device, ok := strings.Cut(line, "gpu.sharing.clients=0 {hw.id="); ok {
				free = append(free, device[:5])
			}
		}
		return free
	}
	assert.Equal(t, []string{"GPU-0", "GPU-1", "GPU-2", "GPU-3", "GPU-4"}, scrape(), "no directory is configured")

	withMapping(t, p, map[string]string{"0": "", "1": "no id\n", "2": "4711\n", "3": "4712\n"})
	assert.Empty(t, scrape(), "the directory has not been read yet")
	p.mapping.read(time.Unix(9, 0))
	assert.Equal(t, []string{"GPU-0", "GPU-4"}, scrape(), "file 1 is invalid, and the job in file 3 exceeds max_jobs")
	metadatatest.AssertEqualProcessorGpuK8sJobsRefused(t, tel, []metricdata.DataPoint[int64]{{Value: 1}}, metricdatatest.IgnoreTimestamp())

	path := filepath.Join(p.mapping.dir, "0")
	require.NoError(t, os.Chtimes(path, time.Unix(9, 0), time.Unix(9, 500e6)))
	p.mapping.read(time.Unix(10, 0))
	assert.Equal(t, []string{"GPU-4"}, scrape(), "file 0 is being written")

	require.NoError(t, os.RemoveAll(p.mapping.dir))
	require.NoError(t, os.WriteFile(p.mapping.dir, nil, 0o600))
	p.mapping.read(time.Unix(10, 0))
	assert.Empty(t, scrape(), "the directory cannot be read")
}

// If minor numbers are not in PCI bus order, the number in NVML's device name differs from the
// number in the file name.
func TestBoardsAreNumberedInBusOrder(t *testing.T) {
	p, _, _ := jobProcessor(t, 10)
	withMapping(t, p, map[string]string{"0": "4710\n", "1": "4711\n", "1.7": "4717\n", "2": "4712\n"})
	p.mapping.driver = t.TempDir()
	boards := func(minors ...string) {
		for i, minor := range minors {
			dir := filepath.Join(p.mapping.driver, "0000:0"+strconv.Itoa(i+1)+":00.0")
			require.NoError(t, os.MkdirAll(dir, 0o700))
			uuid := "GPU-" + strconv.Itoa(i)
			if i == 2 {
				uuid = "GPU-????????-????-????-????-????????????"
			}
			text := "Model: \t\t NVIDIA H100\nGPU UUID: \t " + uuid + "\nBus Location: \t 0000:01:00.0\nDevice Minor: \t " + minor + "\nGPU Excluded:\t No\n"
			require.NoError(t, os.WriteFile(filepath.Join(dir, "information"), []byte(text), 0o600))
		}
		p.mapping.read(time.Unix(9, 0))
	}
	jobs := func(id, name string) []string {
		d := &gpudata.DeviceFrame{Device: gpudata.NewDevice(gpudata.Place{Node: "n1"}, id)}
		d.Name = name
		if board, instance, ok := strings.Cut(id, "/gi"); ok {
			d.Parent, d.Instance = board, instance
		}
		ids, _ := p.mapping.jobsOn(d, time.Unix(9, 0).UnixNano())
		return ids
	}
	boards("1", "2", "0")
	assert.Equal(t, []string{"4710"}, jobs("GPU-0", "nvidia1"), "by NVML")
	assert.Equal(t, []string{"4710"}, jobs("GPU-0", "nvidia0"), "by the exporter")
	assert.Equal(t, []string{"4711"}, jobs("GPU-1", "nvidia2"))
	assert.Equal(t, []string{"4717"}, jobs("GPU-1/gi7", "nvidia2"))
	assert.Nil(t, jobs("GPU-2", "nvidia0"), "a board without a UUID")

	for name, minors := range map[string][]string{"the same numbers": {"0", "1", "2"}, "invisible boards": {"1", "4", "0"}, "none": {"x", "y", "z"}} {
		boards(minors...)
		assert.Equal(t, []string{"4712"}, jobs("GPU-1", "nvidia2"), name)
	}
}

// A driver that hangs does not answer reads of its files.
func TestADriverThatHangsDoesNotBlockThePipeline(t *testing.T) {
	p, _, _ := jobProcessor(t, 10)
	withMapping(t, p, map[string]string{"0": "4711\n"})
	p.mapping.read(time.Unix(9, 0))
	p.mapping.driver = t.TempDir()
	board := filepath.Join(p.mapping.driver, "0000:01:00.0")
	require.NoError(t, os.Mkdir(board, 0o700))
	information := filepath.Join(board, "information")
	require.NoError(t, syscall.Mkfifo(information, 0o600))
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.mapping.read(time.Unix(19, 0))
	}()
	driver, err := os.OpenFile(information, os.O_WRONLY, 0) // Opening the file waits until read opens the file.
	require.NoError(t, err)

	if assert.True(t, p.mapping.mu.TryLock(), "read holds the lock") {
		p.mapping.mu.Unlock()
		d := &gpudata.DeviceFrame{Device: gpudata.NewDevice(gpudata.Place{Node: "n1"}, "GPU-1")}
		d.Name = "nvidia0"
		jobs, known := p.mapping.jobsOn(d, time.Unix(20, 0).UnixNano())
		assert.Equal(t, []string{"4711"}, jobs, "the previous reading applies")
		assert.True(t, known)
	}
	require.NoError(t, driver.Close())
	<-done
	assert.Len(t, p.mapping.readings, 2)
}

func TestASampleGetsTheJobsOfItsTime(t *testing.T) {
	p, _, _ := jobProcessor(t, 10)
	withMapping(t, p, map[string]string{"0": "4711\n"})
	d := &gpudata.DeviceFrame{Device: gpudata.NewDevice(gpudata.Place{Node: "n1"}, "GPU-1")}
	d.Name = "nvidia0"
	at := func(seconds int64) []string {
		ids, _ := p.mapping.jobsOn(d, time.Unix(seconds, 0).UnixNano())
		return ids
	}
	p.mapping.read(time.Unix(100, 0))
	require.NoError(t, os.Remove(filepath.Join(p.mapping.dir, "0")))
	p.mapping.read(time.Unix(110, 0))
	assert.Nil(t, at(99), "before the first reading")
	assert.Equal(t, []string{"4711"}, at(109))
	assert.Nil(t, at(110))

	path := filepath.Join(p.mapping.dir, "0")
	require.NoError(t, os.WriteFile(path, []byte("4712\n"), 0o600))
	require.NoError(t, os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)))
	p.mapping.read(time.Unix(120, 0))
	assert.Equal(t, []string{"4712"}, at(150))
	assert.Nil(t, at(151), "the last reading of a blocked file system has expired")

	require.NoError(t, os.RemoveAll(p.mapping.dir))
	require.NoError(t, os.WriteFile(p.mapping.dir, nil, 0o600))
	p.mapping.read(time.Unix(130, 0))
	assert.Nil(t, at(130), "the directory could not be read at that time")
	for i := range int64(100) {
		p.mapping.read(time.Unix(140+i, 0))
	}
	assert.Len(t, p.mapping.readings, maxReadings)
}

func TestTheJobMappingIsReadPeriodically(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, _ := jobProcessor(t, 10)
		withMapping(t, p, nil)
		p.mapping.start(t.Context())
		time.Sleep(mappingInterval + time.Second)
		synctest.Wait()
		assert.Len(t, p.mapping.readings, 2)
		p.mapping.shutdown(context.Background())
		p.mapping.shutdown(context.Background())
		time.Sleep(time.Minute)
		assert.Len(t, p.mapping.readings, 2)
	})
}
