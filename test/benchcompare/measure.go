package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/cpumeter"
)

// A form is a way to configure the agent's processing stages.
type form string

const (
	// inReceiver runs the stages in the dcgm receiver.
	inReceiver form = ""
	// inSynthesizer runs the stages in gpu_synthesizer, which receives samples as pdata.
	inSynthesizer form = "stages in gpu_synthesizer"
	// plainProcessors runs each stage as a separate processor. The processors exchange pdata.
	plainProcessors form = "plain processors"
)

// A scale is a fleet size and the settings for measuring a fleet of that size.
type scale struct {
	name       string
	nodes, mig int
	// interval and window are the production values. The measurement divides both durations by
	// speed.
	interval, window time.Duration
	speed            float64
	// If held is true, the agent also computes container series for each device.
	held bool
	form form
	// If installed is true, the agent runs the smaller binary that the chart installs on nodes. The
	// prometheus receiver always runs in the full distribution, because the smaller binary does not
	// contain it.
	installed bool
	// If small is true, collectors compress requests with zstd, and the agent sends one Resource
	// per device.
	small bool
	// If alone is true, only the agent runs.
	alone bool
	// cpu and memory are the agent's targets as fractions of the prometheus receiver's cost. 0
	// means that there is no target.
	cpu, memory float64
}

func (s scale) devices() int { return s.nodes * 8 * max(s.mig, 1) }

// figures contains the measured costs of a contestant.
type figures struct {
	// cpu is in µs per sample. All memory values are in MiB. sent is in compressed bytes per device
	// and window. start is the time in seconds until the contestant is ready. resident and
	// anonymous (resident memory without a backing file) are averages over the measured time.
	// charged and cache are averages for the memory cgroup, or 0 if there is no cgroup.
	cpu, resident, anonymous, charged, cache, peak, sent, start float64
	// kept is the fraction of scheduled scrapes that completed.
	kept float64
}

// harness contains the settings of a measurement.
type harness struct {
	// collector is the full distribution, and agent is the binary that the chart installs on nodes.
	collector, agent, prometheus string
	// windows is the number of measured windows, which does not include the three warm-up windows.
	windows int
	// cgroup is the cgroup directory in which a memory cgroup is created for each contestant, or ""
	// if no cgroups are created.
	cgroup string
	// agentConfig is the path of a file with additional agent configuration, or "" if there is no
	// such file.
	agentConfig string
	// profiles is the directory for profiles, and results is the directory for results. "" means
	// that profiles or results are not saved.
	profiles, results string
}

// measure runs one contestant at one scale.
func (h *harness) measure(ctx context.Context, c contestant, s scale, l *load) (_ figures, err error) {
	dir, err := os.MkdirTemp("", "benchcompare-")
	if err != nil {
		return figures{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()

	var counts counter
	exporters := httptest.NewServer(l.handler())
	defer exporters.Close()
	backend := httptest.NewServer(&counts)
	defer backend.Close()
	run := s
	run.interval, run.window = s.shortened()
	window := run.window
	compression := "gzip"
	if s.small {
		compression = "zstd"
	}
	command, ready, err := c.prepare(dir, setting{
		harness: h, scale: run,
		exporters: exporters.Listener.Addr().String(), backend: backend.URL, compression: compression,
	})
	if err != nil {
		return figures{}, err
	}

	if h.agentConfig != "" && c.name == contestants[0].name {
		command = append(command, "--config", h.agentConfig)
	}
	group, err := newMemoryCgroup(h.cgroup)
	if err != nil {
		return figures{}, err
	}
	defer group.remove()
	p, err := start(ctx, dir, group.command(command))
	if err != nil {
		return figures{}, err
	}
	defer p.kill()
	var f figures
	if f.start, err = p.awaitReady(ctx, ready); err != nil {
		return f, err
	}
	// Each window ends at a multiple of the window length since the epoch and is sent soon
	// afterward. The measurement starts and ends late in a window, so that it includes sending only
	// complete windows.
	since := time.Duration(time.Now().UnixNano() % int64(window))
	wait := func(d time.Duration) error { return p.wait(ctx, d) }
	if err := wait(3*window + window*3/4 - since); err != nil {
		return f, err
	}
	bytesBefore, samples, scrapes := counts.sent.Load(), l.samples.Load(), l.scrapes.Load()
	if h.profiles != "" && c.sends != "" {
		profiled := h.profile(ctx, s.name+"-"+c.sends, time.Duration(h.windows)*window)
		defer func() { err = errors.Join(err, <-profiled) }()
	}
	cpu, err := h.watch(&f, []*process{p}, group, window, wait)
	if err != nil {
		return f, err
	}
	seen := span{windows: h.windows, cpu: cpu, samples: l.samples.Load() - samples, scrapes: l.scrapes.Load() - scrapes, sent: counts.sent.Load() - bytesBefore}
	if seen.samples == 0 {
		return f, fmt.Errorf("nothing was scraped: %s", p.output())
	}
	f.cpu, f.sent, f.kept = s.rates(seen)
	status, err := p.status()
	if err != nil {
		return f, err
	}
	f.peak = float64(status.VmHWM) / mib
	if c.sends != "" {
		switch missing, err := counts.missing(c.sends, s.devices(), window, wait); {
		case err != nil:
			return f, err
		case missing > 0:
			return f, fmt.Errorf("only %d of %d devices had a %s in three windows: %s", s.devices()-missing, s.devices(), c.sends, p.output())
		}
	}
	if c.verify != nil {
		if err := c.verify(ctx); err != nil {
			return f, fmt.Errorf("%w: %s", err, p.output())
		}
	}
	return f, nil
}

// profile records a collector's CPU profile over the given duration, and then a heap profile.
func (h *harness) profile(ctx context.Context, name string, d time.Duration) <-chan error {
	done := make(chan error, 1)
	go func() {
		var all error
		for _, query := range []string{fmt.Sprintf("profile?seconds=%d", int(d.Seconds())), "heap"} {
			text, err := get(ctx, "http://"+profilerAddress+"/debug/pprof/"+query)
			if err == nil {
				kind, _, _ := strings.Cut(query, "?")
				err = os.WriteFile(filepath.Join(h.profiles, name+"."+kind+".pprof"), []byte(text), 0o600)
			}
			all = errors.Join(all, err)
		}
		done <- all
	}()
	return done
}

// span contains the totals for the measured windows.
type span struct {
	windows                int
	cpu                    time.Duration
	samples, scrapes, sent int64
}

// rates returns the CPU cost per sample, the bytes sent per device and window, and the fraction of
// scheduled scrapes that completed.
func (s scale) rates(seen span) (cpu, sent, kept float64) {
	windows := float64(seen.windows)
	due := float64(s.nodes) * windows * float64(s.window/s.interval)
	return float64(seen.cpu.Nanoseconds()) / float64(seen.samples) / 1000,
		float64(seen.sent) / float64(s.devices()) / windows,
		float64(seen.scrapes) / due
}

// shortened returns the scrape interval and the window length that the measurement uses.
func (s scale) shortened() (interval, window time.Duration) {
	interval = time.Duration(float64(s.interval) / s.speed).Round(time.Millisecond)
	return interval, time.Duration(int64(s.window/s.interval) * int64(interval))
}

// process is a running contestant.
type process struct {
	cmd   *exec.Cmd
	begun time.Time
	log   string
	ended chan struct{}
}

func start(ctx context.Context, dir string, command []string) (*process, error) {
	p := &process{log: filepath.Join(dir, "log"), ended: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	p.cmd = exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // a contestant
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.begun = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// awaitReady waits until the URL responds with 200, and returns the number of seconds since the
// process started.
func (p *process) awaitReady(ctx context.Context, url string) (float64, error) {
	for {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		_, err := get(attempt, url)
		cancel()
		if err == nil {
			return time.Since(p.begun).Seconds(), nil
		}
		if time.Since(p.begun) > time.Minute {
			return 0, fmt.Errorf("not ready after a minute: %s", p.output())
		}
		if err := p.wait(ctx, 5*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// wait waits for the given duration and returns an error if the process exits before then.
func (p *process) wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-p.ended:
		return fmt.Errorf("the process ended: %s", p.output())
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readingsPerWindow is the number of memory readings per window. A single reading would be
// misleading, because garbage collection can happen at any time in a window.
const readingsPerWindow = 8

// watch waits until the measured windows have passed, records the average memory use in f, and
// returns the CPU time that the processes used.
func (h *harness) watch(f *figures, processes []*process, group memoryCgroup, window time.Duration, wait func(time.Duration) error) (time.Duration, error) {
	before, err := cpuTime(processes)
	if err != nil {
		return 0, err
	}
	n := h.windows * readingsPerWindow
	for range n {
		if err := wait(window / readingsPerWindow); err != nil {
			return 0, err
		}
		for _, p := range processes {
			status, err := p.status()
			if err != nil {
				return 0, err
			}
			f.resident += float64(status.VmRSS) / mib / float64(n)
			f.anonymous += float64(status.RssAnon) / mib / float64(n)
		}
		charged, cache, err := group.charged()
		if err != nil {
			return 0, err
		}
		f.charged += charged / float64(n)
		f.cache += cache / float64(n)
	}
	after, err := cpuTime(processes)
	return after - before, err
}

func (p *process) kill() {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err == nil || errors.Is(err, os.ErrProcessDone) {
		select {
		case <-p.ended:
			return
		case <-time.After(30 * time.Second):
		}
	}
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// output returns the last part of the process's output.
func (p *process) output() string {
	content, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-2000):])
}

// status reads /proc/<pid>/status, and returns an error if the process has exited.
func (p *process) status() (status procfs.ProcStatus, err error) {
	proc, err := procfs.NewProc(p.cmd.Process.Pid)
	if err == nil {
		status, err = proc.NewStatus()
	}
	if err == nil && status.VmRSS == 0 {
		err = errors.New("the process has no memory values")
	}
	if err != nil {
		return status, fmt.Errorf("%w: %s", err, p.output())
	}
	return status, nil
}

// cpuTime returns the total CPU time of the processes.
func cpuTime(processes []*process) (sum time.Duration, err error) {
	for _, p := range processes {
		had, err := cpumeter.Of(p.cmd.Process.Pid)
		if err != nil {
			return 0, fmt.Errorf("%w: %s", err, p.output())
		}
		sum += had
	}
	return sum, nil
}
