package gpuk8sprocessor

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/jobfiles"
)

const (
	mappingInterval = 10 * time.Second
	// mappingAge is the maximum age at which the contents of the job mapping files are used.
	mappingAge = 3 * mappingInterval
	// maxReadings is the maximum length of jobMapping.readings. Earlier readings are needed for
	// samples that arrive late.
	maxReadings = int(history/mappingInterval) + 1
)

// jobMapping stores the contents of the job mapping files for the GPUs of this machine. A separate
// goroutine reads the job mapping files, because reading from a network file system can block.
type jobMapping struct {
	dir, node string
	driver    string // driver is the directory in which the GPU driver lists its boards.
	trouble   componenthelper.Failure

	mu       sync.Mutex
	readings []reading // newest last

	stop    context.CancelFunc
	stopped chan struct{}
}

// reading contains the contents of the job mapping files at one time. If the files could not be
// read, mapping is nil.
type reading struct {
	at      time.Time
	mapping *jobfiles.Mapping
	boards  map[string]int // boards maps board UUIDs to the numbers in the names of the job mapping files. If device names contain the same numbers, or if the numbers are unknown, boards is nil.
}

// newJobMapping returns a jobMapping for the configured directory, or nil if no directory is
// configured.
func newJobMapping(cfg *Config, logger *zap.Logger) *jobMapping {
	if cfg.Sources.JobMappingDir == "" {
		return nil
	}
	host, _ := os.Hostname()
	return &jobMapping{
		dir: cfg.Sources.JobMappingDir, node: cmp.Or(cfg.NodeName, host), driver: jobfiles.DriverDir,
		trouble: componenthelper.Failure{
			Logger: logger,
			Fails:  "Some job mapping files cannot be read. The jobs on their GPUs are unknown.",
			Works:  "All job mapping files can be read again.",
		},
	}
}

func (j *jobMapping) start(ctx context.Context) {
	if j == nil {
		return
	}
	ctx, j.stop = context.WithCancel(context.WithoutCancel(ctx)) // Ignore the cancellation of the original ctx, which is canceled when start returns.
	j.stopped = make(chan struct{})
	go func() {
		defer close(j.stopped)
		j.read(time.Now())
		componenthelper.EveryTick(ctx, mappingInterval, j.read)
	}()
}

// shutdown stops the goroutine that reads the job mapping files. If the file system blocks,
// shutdown waits at most one second. Calling shutdown without start is allowed.
func (j *jobMapping) shutdown(ctx context.Context) {
	if j == nil || j.stop == nil {
		return
	}
	j.stop()
	select {
	case <-j.stopped:
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
}

func (j *jobMapping) read(now time.Time) {
	m, err := jobfiles.Read(j.dir, now)
	if err == nil && m.Bad != "" {
		err = fmt.Errorf("file %s is %s", m.Bad, m.BadState)
	}
	j.trouble.Result(err, zap.String("directory", j.dir))
	boards := jobfiles.Boards(j.driver) // Call Boards before locking, because the driver can hang.
	j.mu.Lock()
	defer j.mu.Unlock()
	j.readings = append(j.readings, reading{now, m, boards})
	j.readings = j.readings[max(0, len(j.readings)-maxReadings):]
}

// jobsOn returns the jobs that hold a device according to the job mapping files. The at parameter
// is the sample time, in nanoseconds since the epoch. A file whose name contains no instance
// applies to the board but not to the board's instances. The known result is false if a job might
// hold the device, because the device's file cannot be used, or because the directory was not read
// at that time. If no directory is configured, or if files cannot describe the device, there are no
// jobs and known is true.
func (j *jobMapping) jobsOn(d *gpudata.DeviceFrame, at int64) (jobs []string, known bool) {
	number, ok := strings.CutPrefix(d.Name, "nvidia")
	if j == nil || !ok || d.Device.Place().Node != j.node {
		return nil, true
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := len(j.readings) - 1; i >= 0; i-- {
		if r := &j.readings[i]; r.at.UnixNano() <= at {
			if r.mapping == nil || at-r.at.UnixNano() > int64(mappingAge) {
				return nil, false
			}
			if r.boards != nil {
				board, found := r.boards[cmp.Or(d.Parent, d.Device.ID())]
				if !found {
					return nil, false
				}
				number = strconv.Itoa(board)
			}
			if d.Parent != "" {
				number += "." + d.Instance
			}
			return r.mapping.Jobs[number], !r.mapping.Unusable[number]
		}
	}
	return nil, false
}

// observe is the callback for the job_files self-metric.
func (j *jobMapping) observe(_ context.Context, o metric.Int64Observer) error {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := len(j.readings); n > 0 && j.readings[n-1].mapping != nil {
		for state, files := range j.readings[n-1].mapping.Files {
			o.Observe(int64(files), metric.WithAttributes(attribute.String("state", jobfiles.State(state).String())))
		}
	}
	return nil
}
