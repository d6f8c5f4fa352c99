package nvmlreceiver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receiverhelper"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/receiverstages"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/cgroup"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/collect"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/nvml"
)

const (
	// stuckAfter is the duration of a collection after which the receiver logs a warning that NVML
	// does not respond. Calls that access faulty GPUs may take minutes.
	stuckAfter = 30 * time.Second
	// shutdownWait is how long Shutdown waits for a library call to return, because library calls
	// cannot be interrupted.
	shutdownWait = 5 * time.Second

	nvidiaVendor = "0x10de"
)

// library is a loaded and initialized NVML library.
type library interface {
	collect.Library
	Close() error
}

// outcome is the result of a collection.
type outcome struct {
	// The name field is the attribute value in self-metrics. The text field is the log message.
	name, text string
	// The waits field is true if the receiver waits for the retry interval, or longer after
	// repeated crashes, before the next collection.
	waits bool
}

var (
	outcomeOK         = outcome{"ok", "Collecting from NVML.", false}
	outcomePartial    = outcome{"partial", "Some of NVML's calls fail.", false}
	outcomeNoDevice   = outcome{"no_device", "This machine has no NVIDIA device. The receiver is dormant.", true}
	outcomeNoLibrary  = outcome{"no_library", "There is an NVIDIA device but no NVML library. Waiting for a driver.", true}
	outcomeInitFailed = outcome{"init_failed", "NVML cannot be initialized. Waiting for the driver.", true}
	outcomeCrashed    = outcome{"crashed", "NVML crashed in a child process that tried to initialize it. The receiver will retry from time to time.", true}
	outcomeDriverLost = outcome{"driver_lost", "The driver became unavailable during a collection.", false}

	outcomes = []outcome{
		outcomeOK, outcomePartial, outcomeNoDevice, outcomeNoLibrary, outcomeInitFailed, outcomeCrashed, outcomeDriverLost,
	}
)

// nvmlReceiver calls the library in a single goroutine. Therefore, collections never overlap, and a
// call that does not return blocks only this receiver.
type nvmlReceiver struct {
	cfg       *Config
	settings  receiver.Settings
	next      consumer.Metrics
	telemetry *metadata.TelemetryBuilder
	obs       *receiverhelper.ObsReport
	metrics   selfMetrics
	host      component.Host
	outputs   receiverstages.Outputs
	status    componenthelper.Status // The status of the receiver and its stages.
	stages    *pdatagpu.Stages       // Nil if the section "stages" is missing.

	open      func(path string) (library, error)
	collector *collect.Collector
	writer    pdatagpu.Writer
	place     gpudata.Place

	allProcesses bool // whether NVML lists all processes

	openLib     library // Nil while no library is open.
	deviceFound bool    // Whether an NVIDIA device has been found.
	lastOutcome outcome // The last outcome that was logged.

	interval time.Duration // The interval between the last collection and the next one.
	retry    time.Duration // The interval after the next crash.

	// Two contexts are needed, because Shutdown stops the collection loop immediately, but allows
	// the next consumer to receive data until Shutdown stops waiting.
	stop          context.CancelFunc
	stopConsuming context.CancelFunc
	done          chan struct{}
}

func newReceiver(set receiver.Settings, cfg *Config, next consumer.Metrics) (*nvmlReceiver, error) {
	obs, err := receiverhelper.NewObsReport(receiverhelper.ObsReportSettings{
		ReceiverID:             set.ID,
		Transport:              "nvml",
		ReceiverCreateSettings: set,
	})
	if err != nil {
		return nil, err
	}
	telemetry, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	allProcesses := inHostPIDNamespace(cfg.ProcRoot)
	return &nvmlReceiver{
		cfg:       cfg,
		settings:  set,
		next:      next,
		outputs:   receiverstages.Outputs{Metrics: next},
		telemetry: telemetry,
		obs:       obs,
		metrics:   newSelfMetrics(telemetry),
		open:      openLibrary,
		collector: collect.New(collect.Options{
			Devices:      !cfg.ProcessesOnly,
			Processes:    cfg.processes(),
			AllProcesses: allProcesses,
			Disabled:     cfg.Metrics.Disabled(emitted),
			Hold:         cfg.holdMode() != HoldNever,
			Now:          time.Now,
		}),
		writer: pdatagpu.Writer{Scope: gpudata.NewScope(metadata.ScopeName, set.BuildInfo.Version)},
		place:  gpudata.Place{Cluster: cfg.ClusterName, Node: cfg.NodeName},

		allProcesses: allProcesses,
		retry:        retryInterval,
	}, nil
}

// Start implements component.Component. If the build does not contain the NVML binding, or if a
// stage fails to start, Start returns an error. If the machine has no device, library, or driver,
// Start does not return an error.
func (r *nvmlReceiver) Start(ctx context.Context, host component.Host) error {
	if r.open == nil {
		return nvml.ErrNoBinding
	}
	r.host = host
	if err := r.startStages(ctx, host); err != nil {
		return err
	}
	if r.cfg.processes() && !r.allProcesses {
		r.settings.Logger.Warn("NVML lists all processes only in the host's PID namespace. This is a different one, so gpu.process.count is absent. Set hostPID.",
			zap.String("proc_root", r.cfg.ProcRoot))
	}
	// The collection loop continues after ctx is canceled, because the context of Start may be
	// canceled as soon as Start returns.
	ctx = context.WithoutCancel(ctx)
	running, stop := context.WithCancel(ctx)
	consuming, stopConsuming := context.WithCancel(ctx)
	r.stop, r.stopConsuming, r.done = stop, stopConsuming, make(chan struct{})
	go func() {
		defer close(r.done)
		r.run(running, consuming)
		_ = r.release() // Ignore the error, because it cannot be handled.
	}()
	return nil
}

// Outputs implements receiverstages.Receiver.
func (r *nvmlReceiver) Outputs() *receiverstages.Outputs { return &r.outputs }

// startStages starts the stages.
func (r *nvmlReceiver) startStages(ctx context.Context, host component.Host) (err error) {
	if r.next == nil { // all pipelines have been created before Start is called
		r.next = r.outputs.MetricsOrDiscard()
	}
	set := r.settings
	if !r.cfg.Stages.HasValue() {
		if r.outputs.Logs != nil {
			set.Logger.Warn("The receiver is in a logs pipeline but sends no log records. Add the section stages::gpu_events, or remove the receiver from the pipeline.")
		}
		return nil
	}
	if r.stages, err = receiverstages.New(ctx, r.cfg.Stages.Get(), set, r.cfg.CollectionInterval, &r.outputs); err != nil {
		return err
	}
	r.status.Host = host
	r.host, r.next = r.status.Part("nvml"), r.stages
	return r.stages.Start(ctx, r.status.Part("stages"))
}

// Shutdown implements component.Component. Shutdown waits for the collection in progress until ctx
// is done, but for at most 5 seconds. If the collection is still running after that time, Shutdown
// abandons the collection and returns an error.
func (r *nvmlReceiver) Shutdown(ctx context.Context) error {
	defer r.telemetry.Shutdown()
	if r.stop == nil {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, shutdownWait)
	defer cancel()
	r.stop()
	defer r.stopConsuming()
	var err error
	select {
	case <-r.done:
	case <-waiting.Done():
		err = fmt.Errorf("a collection is still running and was abandoned: %w", waiting.Err())
		r.stopConsuming()
	}
	if r.stages != nil { // stop the stages last, so that they can still send the last data
		err = errors.Join(err, r.stages.Shutdown(ctx))
	}
	return err
}

// The run method performs collections until the first context is done. If a collection takes longer
// than the interval, the missed collections are skipped, and the next collection starts at the next
// multiple of the interval.
func (r *nvmlReceiver) run(running, consuming context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	due := time.Now()
	for {
		select {
		case <-running.Done():
			return
		case <-timer.C:
		}
		r.collect(consuming)
		componenthelper.ReleasePages(time.Now())
		skipped := int64(time.Since(due) / r.interval)
		r.telemetry.ReceiverNvmlCollectionsSkipped.Add(consuming, skipped)
		due = due.Add(time.Duration(skipped+1) * r.interval)
		timer.Reset(time.Until(due))
	}
}

// setInterval sets the interval that follows a collection with the given outcome.
func (r *nvmlReceiver) setInterval(result outcome) {
	r.interval = r.cfg.CollectionInterval
	if result == outcomeCrashed {
		r.interval, r.retry = r.retry, min(2*r.retry, maxRetryInterval)
	} else if r.retry = retryInterval; result.waits {
		r.interval = retryInterval
	}
}

// The collect method performs one collection and sends the collected points.
func (r *nvmlReceiver) collect(ctx context.Context) outcome {
	started := time.Now()
	stuck := time.AfterFunc(stuckAfter, func() {
		if ctx.Err() != nil {
			return // Shutdown has already reported the call that does not return.
		}
		r.settings.Logger.Warn("NVML does not respond. Collections continue when it does.", zap.Duration("after", stuckAfter))
		componenthelper.ReportStatus(r.host, errors.New("NVML does not respond"))
	})
	points, result, err := r.read()
	r.setInterval(result)
	if !stuck.Stop() {
		r.lastOutcome = outcome{} // Log the outcome even if it is the same as before.
	}
	if ctx.Err() != nil {
		return result // Shutdown has abandoned this collection.
	}
	r.metrics.collected(ctx, result, time.Since(started), r.collector.Stats())
	r.reportOutcome(result, err)
	frame, owners := frameOf(r.place, started, points, func(pid uint32) cgroup.Owner { return cgroup.Of(r.cfg.ProcRoot, pid) })
	md := pmetric.NewMetrics()
	r.writer.Write([]*gpudata.Frame{frame}, md)
	r.metrics.processes(ctx, owners)
	n := md.DataPointCount()
	if n == 0 {
		return result
	}
	obsCtx := r.obs.StartMetricsOp(ctx)
	r.obs.EndMetricsOp(obsCtx, metadata.Type.String(), n, r.next.ConsumeMetrics(obsCtx, md))
	return result
}

// The read method reads all devices. Unless the Hold setting keeps the library loaded, read closes
// the library before it returns, so that neither the library file nor the driver remains in use.
func (r *nvmlReceiver) read() ([]collect.Point, outcome, error) {
	if r.deviceFound = r.deviceFound || hasDevice(r.cfg.SysRoot); !r.deviceFound {
		return nil, outcomeNoDevice, nil
	}
	if r.openLib == nil {
		lib, err := r.open(r.cfg.LibraryPath)
		if err != nil {
			r.collector.Forget()
			return nil, openOutcome(err), err
		}
		r.openLib = lib
	}
	points, err := r.collector.Collect(r.openLib)
	var closed error
	holdMode := r.cfg.holdMode()
	if err != nil || holdMode == HoldNever || holdMode == HoldBetweenFailures && r.collector.Problem() != nil {
		closed = r.release()
	}
	switch {
	case err != nil:
		return nil, outcomeDriverLost, err
	case r.collector.Problem() != nil:
		return points, outcomePartial, r.collector.Problem()
	case closed != nil:
		return points, outcomePartial, fmt.Errorf("closing the library: %w", closed)
	}
	return points, outcomeOK, nil
}

// openOutcome returns the outcome of a collection that could not open the library.
func openOutcome(err error) outcome {
	switch {
	case errors.Is(err, nvml.ErrNoLibrary):
		return outcomeNoLibrary
	case errors.Is(err, nvml.ErrCrashed):
		return outcomeCrashed
	}
	return outcomeInitFailed
}

// The release method closes the library if it is open.
func (r *nvmlReceiver) release() error {
	if r.openLib == nil {
		return nil
	}
	r.collector.Release(r.openLib)
	err := r.openLib.Close()
	r.openLib = nil
	return err
}

// hasDevice reports whether the machine has an NVIDIA PCI device.
func hasDevice(sysRoot string) bool {
	sys := os.DirFS(sysRoot)
	devices, _ := fs.Glob(sys, "bus/pci/devices/*") // Glob returns an error only if the pattern is malformed.
	return slices.ContainsFunc(devices, func(device string) bool {
		vendor, err := fs.ReadFile(sys, device+"/vendor")
		return err == nil && strings.TrimSpace(string(vendor)) == nvidiaVendor
	})
}

// hostPIDNamespace is the target of the symbolic link to the initial PID namespace. The target is
// the same on every Linux system, because the inode number is the constant PROC_PID_INIT_INO.
const hostPIDNamespace = "pid:[4026531836]"

// inHostPIDNamespace reports whether this process is in the host's PID namespace. In other PID
// namespaces, NVML's process lists are incomplete.
func inHostPIDNamespace(procRoot string) bool {
	link, err := os.Readlink(filepath.Join(procRoot, "self", "ns", "pid"))
	return err == nil && link == hostPIDNamespace
}

// reportOutcome logs an outcome and reports the component status, but only if the outcome differs
// from the last logged outcome.
func (r *nvmlReceiver) reportOutcome(result outcome, err error) {
	if result == r.lastOutcome {
		return
	}
	r.lastOutcome = result
	level, fields := zap.InfoLevel, []zap.Field{}
	if err != nil {
		level, fields = zap.WarnLevel, append(fields, zap.Error(err))
	}
	if result == outcomeNoDevice {
		fields = append(fields, zap.String("sys_root", r.cfg.SysRoot))
	}
	if result.waits {
		fields = append(fields, zap.Duration("retry_after", r.interval))
	}
	r.settings.Logger.Log(level, result.text, fields...)
	componenthelper.ReportStatus(r.host, err)
}
