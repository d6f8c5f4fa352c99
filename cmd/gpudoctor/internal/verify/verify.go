package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/cmd/gpudoctor/internal/inprocess"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver"
)

// Options configures what to compare and for how long.
type Options struct {
	// NVML contains the settings of the nvml receiver, such as library_path, except for the
	// collection interval.
	NVML map[string]any
	// Exporter is the URL of a dcgm-exporter. Program is the path of nvidia-smi. If Exporter or
	// Program is empty, the corresponding source is not used.
	Exporter, Program string
	// Duration is the total length of the verification. Interval is the time between two readings.
	Duration, Interval time.Duration
	// Load is a function that keeps the devices busy until its context is done. The function is
	// called after a quarter of Duration. If Load is nil, there is no load.
	Load func(context.Context) error
	// Log is the logger of the receivers.
	Log *zap.Logger
}

// Report is the result of a verification.
type Report struct {
	Begun    time.Time
	Options  Options
	Devices  map[string]Device
	Readings map[string]int // Number of readings from each source.
	// Problems describes failures of sources and of the load.
	Problems    []string
	Comparisons []Comparison
	Questions   []Question
}

// Agrees reports whether all values agree and no question has the verdict No.
func (r *Report) Agrees() bool {
	return !slices.ContainsFunc(r.Comparisons, func(c Comparison) bool { return c.Verdict == Differs }) &&
		!slices.ContainsFunc(r.Questions, func(q Question) bool { return q.Verdict == No })
}

// The problem method adds err to r.Problems, unless err is nil.
func (r *Report) problem(what string, err error) {
	if err != nil {
		r.Problems = append(r.Problems, fmt.Sprintf("%s: %v", what, err))
	}
}

// ErrNothing means that no value is available from more than one source.
var ErrNothing = errors.New("nothing to compare: fewer than two of NVML, dcgm-exporter and nvidia-smi had GPU values")

var errSilent = errors.New("no GPU values were received; see the log on standard error")

// run is a verification in progress.
type run struct {
	*Report
	mu      sync.Mutex
	sources map[string]Readings
	smi     *smi
}

// sink returns a consumer that adds the received points to the readings of the given source.
func (r *run) sink(source string) consumer.Metrics {
	next, _ := consumer.NewMetrics(func(_ context.Context, md pmetric.Metrics) error { // NewMetrics can fail only if options are passed.
		r.mu.Lock()
		defer r.mu.Unlock()
		before := len(r.sources[source])
		r.sources[source].add(md, r.Devices)
		if len(r.sources[source]) > 0 || before > 0 {
			r.Readings[source]++
		}
		return nil
	})
	return next
}

// Run reads all sources for o.Duration and compares their values. If no two sources have a value in
// common, Run returns the report and ErrNothing.
func Run(ctx context.Context, o Options) (*Report, error) {
	report := &Report{Begun: time.Now(), Options: o, Devices: map[string]Device{}, Readings: map[string]int{}}
	r := &run{Report: report, sources: map[string]Readings{NVML: {}, DCGM: {}, SMI: {}}, smi: &smi{path: o.Program}}
	meterOfHold := &meter{hold: nvmlreceiver.HoldAlways}
	if hold, ok := o.NVML["hold"].(string); ok {
		meterOfHold.hold = hold
	}
	stopNVML, err := r.startNVML(ctx, meterOfHold, o.Interval, r.sink(NVML))
	report.problem(NVML, err)
	var stopDCGM func(context.Context) error
	if o.Exporter != "" {
		p := inprocess.New(o.Log)
		p.Into(r.sink(DCGM))
		p.Receiver(ctx, dcgmreceiver.NewFactory(), map[string]any{
			"endpoints": []any{o.Exporter}, "collection_interval": o.Interval.String(), "start_jitter": "0s", "stages": map[string]any{"gpu_synthesizer": map[string]any{}},
		})
		stopDCGM, err = p.Start(ctx)
		report.problem(DCGM, err)
	}
	loaded := r.watch(ctx)
	for _, source := range []struct {
		name string
		stop func(context.Context) error
	}{{NVML, stopNVML}, {DCGM, stopDCGM}} {
		if source.stop == nil {
			continue
		}
		if err := source.stop(context.WithoutCancel(ctx)); err != nil {
			report.Problems = append(report.Problems, err.Error())
		}
		if !r.hasRead(source.name, 1) {
			report.problem(source.name, errSilent)
		}
	}
	meterOfHold.read(ctx)
	costs := []*meter{meterOfHold}
	if stopNVML != nil && meterOfHold.hold != nvmlreceiver.HoldNever && ctx.Err() == nil {
		costs = append(costs, r.measureUnheld(ctx))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nameDevices()
	report.Comparisons = compare(r.sources)
	report.Questions = answerQuestions(r.sources, report.Comparisons, costs, loaded)
	for _, c := range report.Comparisons {
		if len(c.Figures) > 1 {
			return report, ctx.Err()
		}
	}
	return report, errors.Join(ErrNothing, ctx.Err())
}

// nameDevices gives a name to each board for which no source reports a name. If nvidia-smi reports
// the board, the name contains nvidia-smi's index. Otherwise, the name contains a number. Without a
// name, the report would contain the board's UUID.
func (r *run) nameDevices() {
	devices := map[string]bool{}
	for _, readings := range r.sources {
		for key := range readings {
			devices[key.Device] = true
		}
	}
	unnamed := 0
	for _, id := range slices.Sorted(maps.Keys(devices)) {
		board, _, _ := strings.Cut(id, "/")
		d := r.Devices[board]
		if d.Name != "" || r.Devices[id].Name != "" {
			continue
		}
		if index, ok := r.smi.indexes[board]; ok {
			d.Name = "nvidia-smi index " + index
		} else {
			unnamed++
			d.Name = fmt.Sprintf("unnamed device %d", unnamed)
		}
		r.Devices[board] = d
	}
}

// startNVML starts an nvml receiver that has the hold setting m.hold.
func (r *run) startNVML(ctx context.Context, m *meter, interval time.Duration, next consumer.Metrics) (stop func(context.Context) error, err error) {
	settings := map[string]any{}
	maps.Copy(settings, r.Options.NVML)
	maps.Copy(settings, map[string]any{"collection_interval": interval.String(), "hold": m.hold})
	m.reader = sdk.NewManualReader()
	p := inprocess.New(r.Options.Log)
	p.Meter(sdk.NewMeterProvider(sdk.WithReader(m.reader)))
	p.Into(next)
	p.Receiver(ctx, nvmlreceiver.NewFactory(), settings)
	return p.Start(ctx)
}

// The watch method runs nvidia-smi every o.Interval for o.Duration. The load runs during the last
// three quarters of that time. On a slow machine, the load starts after NVML's second reading, or
// after half of o.Duration if that is earlier. The result is the time at which the load started.
func (r *run) watch(ctx context.Context) (loaded time.Time) {
	o := &r.Options
	ctx, cancel := context.WithTimeout(ctx, o.Duration)
	defer cancel()
	var busy sync.WaitGroup
	defer busy.Wait()
	started, due := time.Now(), false
	var loadDue <-chan time.Time
	if o.Load != nil {
		loadDue = time.After(o.Duration / 4)
	}
	failed := make(chan error, 1)
	tick := time.NewTicker(o.Interval)
	defer tick.Stop()
	smiRan := o.Program == ""
	for {
		if o.Program != "" {
			readings := Readings{}
			switch err := r.smi.read(ctx, readings); {
			case err == nil:
				r.mu.Lock()
				for key, samples := range readings {
					r.sources[SMI][key] = append(r.sources[SMI][key], samples...)
				}
				r.Readings[SMI]++
				r.mu.Unlock()
			case !smiRan && ctx.Err() == nil:
				r.problem(SMI, err)
			}
			smiRan = true
		}
		select {
		case <-loadDue:
			due, loadDue = true, nil
		case err := <-failed:
			if err != nil {
				r.problem("load", err)
				loaded = time.Time{}
			}
		case <-tick.C:
		case <-ctx.Done():
			return loaded
		}
		if due && (r.hasRead(NVML, 2) || time.Since(started) >= o.Duration/2) {
			due, loaded = false, time.Now()
			busy.Go(func() { failed <- o.Load(ctx) })
		}
	}
}

// hasRead reports whether a source has at least n readings.
func (r *run) hasRead(source string, n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Readings[source] >= n
}

// measureUnheld measures a few collections of an nvml receiver that reloads the NVML library for
// each collection.
func (r *run) measureUnheld(ctx context.Context) *meter {
	m := &meter{hold: nvmlreceiver.HoldNever}
	nowhere, _ := consumer.NewMetrics(func(context.Context, pmetric.Metrics) error { return nil })
	stop, err := r.startNVML(ctx, m, time.Second, nowhere)
	if err != nil {
		return m
	}
	select {
	case <-time.After(3500 * time.Millisecond):
	case <-ctx.Done():
	}
	_ = stop(context.WithoutCancel(ctx)) // Errors do not matter, because the durations have already been recorded.
	m.read(ctx)
	return m
}

// A meter reads the durations of collections from the self-metrics of an nvml receiver.
type meter struct {
	hold        string
	reader      *sdk.ManualReader
	collections uint64
	seconds     float64 // sum of the durations
}

func (m *meter) read(ctx context.Context) {
	var all metricdata.ResourceMetrics
	if m.reader.Collect(context.WithoutCancel(ctx), &all) != nil {
		return
	}
	for _, scope := range all.ScopeMetrics {
		for _, metric := range scope.Metrics {
			h, ok := metric.Data.(metricdata.Histogram[float64])
			if !ok || metric.Name != "otelcol_receiver_nvml_collection_duration" {
				continue
			}
			for _, dp := range h.DataPoints {
				m.collections += dp.Count
				m.seconds += dp.Sum
			}
		}
	}
}
