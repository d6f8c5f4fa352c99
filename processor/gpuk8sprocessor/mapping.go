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
	// mappingAge is how long a reading is valid if no newer reading exists.
	mappingAge = 3 * mappingInterval
	// maxReadings limits the readings that are kept for late samples.
	maxReadings = int(history/mappingInterval) + 1
)

// jobMapping keeps the contents of the job mapping files for the GPUs of this machine. A separate
// goroutine reads them, because a network file system may hang.
type jobMapping struct {
	dir, node string
	driver    string // directory in which the driver lists its boards
	trouble   componenthelper.Failure

	mu       sync.Mutex
	readings []reading // newest last

	stop    context.CancelFunc
	stopped chan struct{}
}

// reading contains the contents of the files at one time. It is empty if they could not be read.
type reading struct {
	at      time.Time
	mapping *jobfiles.Mapping
	boards  map[string]int // file number by board UUID; nil if device names and file names use the same numbers
}

// newJobMapping returns the job mapping of the configured directory, or nil if there is none.
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
	ctx, j.stop = context.WithCancel(context.WithoutCancel(ctx)) // ctx is canceled when start returns
	j.stopped = make(chan struct{})
	go func() {
		defer close(j.stopped)
		j.read(time.Now())
		componenthelper.EveryTick(ctx, mappingInterval, j.read)
	}()
}

// shutdown stops the reader. It does not wait for a file system that hangs. It may be called
// without start.
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
	j.mu.Lock()
	defer j.mu.Unlock()
	j.readings = append(j.readings, reading{now, m, jobfiles.Boards(j.driver)})
	j.readings = j.readings[max(0, len(j.readings)-maxReadings):]
}

// jobsOn returns the jobs that hold a device according to the files. at is in nanoseconds since the
// epoch. A file name without an instance applies to the board and not to its instances.
func (j *jobMapping) jobsOn(d *gpudata.DeviceFrame, at int64) []string {
	number, ok := strings.CutPrefix(d.Name, "nvidia")
	if j == nil || !ok || d.Device.Place().Node != j.node {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := len(j.readings) - 1; i >= 0; i-- {
		if r := &j.readings[i]; r.at.UnixNano() <= at {
			if r.mapping == nil || at-r.at.UnixNano() > int64(mappingAge) {
				return nil
			}
			if r.boards != nil {
				board, found := r.boards[cmp.Or(d.Parent, d.Device.ID())]
				if !found {
					return nil
				}
				number = strconv.Itoa(board)
			}
			if d.Parent != "" {
				number += "." + d.Instance
			}
			return r.mapping.Jobs[number]
		}
	}
	return nil
}

// observe is the callback of the self-metric job_files.
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
