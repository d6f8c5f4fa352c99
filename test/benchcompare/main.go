// Command benchcompare compares the agent with its alternatives at several fleet sizes. One
// alternative is the same binary with the prometheus receiver and an OTLP exporter. The other
// alternative is a real Prometheus server that evaluates OpenCost's queries as recording rules. The
// agent and its alternatives run as separate processes, one after another, and scrape the same
// simulated exporters. The output is a Markdown table with ratios and targets. With -results, the
// results are also stored in results.tsv in the given directory, and the plot and the tables in
// that directory's RESULTS.md are regenerated. With -fleet, a request from one agent is recorded
// and then replayed to a tier of gateways, as if many agents sent it.
//
// Only the CPU time of the measured process is counted, so other work on the machine has little
// effect. The machine's load average is printed with each run. So that a run takes only minutes,
// all intervals and windows are shortened. Each section of the output states the original and the
// shortened durations. The shorter intervals do not change the work per sample or the bytes per
// window. However, CPU caches stay warm, so the measured CPU costs are slightly too low, except
// those of the scrape loops of the agent and the prometheus receiver. Effects that take hours to
// appear are not measured. For example, the memory of Prometheus' head block is measured after only
// a few minutes.
//
// Missed targets are printed but do not change the exit status. The exit status is 1 if a
// measurement failed, and 2 if a flag is invalid.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// scales lists the valid values of the -scales flag. Each scale also has a variant with the suffix
// -small.
var scales = withSmall([]scale{
	oneNode("1", scale{cpu: 0.19, memory: 0.42}),
	oneNode("1-installed", scale{installed: true, cpu: 0.19, memory: 0.42}),
	oneNode("1-held", scale{held: true, cpu: 0.34, memory: 0.55}),
	oneNode("1-held-installed", scale{held: true, installed: true, cpu: 0.34, memory: 0.55}),
	oneNode("1-synthesizer", scale{form: inSynthesizer, cpu: 0.25}),
	oneNode("1-held-synthesizer", scale{held: true, form: inSynthesizer, cpu: 0.42}),
	oneNode("1-processors", scale{form: plainProcessors, cpu: 0.35}),
	oneNode("1-held-processors", scale{held: true, form: plainProcessors, cpu: 0.75}),
	{name: "10", nodes: 10, mig: 7, interval: 15 * time.Second, window: time.Minute, speed: 7.5, cpu: 0.11, memory: 0.45},
	{name: "100", nodes: 100, mig: 7, interval: 15 * time.Second, window: time.Minute, speed: 3, cpu: 0.12, memory: 0.45},
	{name: "1000", nodes: 1000, interval: time.Minute, window: 2 * time.Minute, speed: 6, cpu: 0.25, memory: 0.90},
	// The largest fleet for a single agent process has 100,016 MIG instances.
	{name: "100k-instances", nodes: 1786, mig: 7, interval: time.Minute, window: 2 * time.Minute, speed: 2, alone: true},
})

// oneNode returns a copy of s that is set to one node whose GPUs are divided into MIG instances.
func oneNode(name string, s scale) scale {
	s.name, s.nodes, s.mig = name, 1, 7
	s.interval, s.window, s.speed = 15*time.Second, time.Minute, 15
	return s
}

// withSmall inserts, after each scale, a copy with the cheapest settings.
func withSmall(of []scale) []scale {
	var all []scale
	for _, s := range of {
		all = append(all, s)
		s.name, s.small = s.name+"-small", true
		all = append(all, s)
	}
	return all
}

// enough is the minimum fraction of scheduled scrapes that must complete. Below this fraction, the
// CPU time of abandoned scrapes distorts the cost of the completed scrapes.
const enough = 0.9

func main() {
	var names []string
	for _, s := range scales {
		names = append(names, s.name)
	}
	h := harness{}
	flag.StringVar(&h.collector, "collector", "bin/otelcol-gpu", "the built collector")
	flag.StringVar(&h.agent, "agent", "bin/otelcol-gpu-agent", "the built collector that the chart installs on nodes")
	flag.StringVar(&h.prometheus, "prometheus", "", "a built Prometheus; empty: without it")
	flag.IntVar(&h.windows, "windows", 6, "windows to measure, after three that warm up")
	flag.StringVar(&h.cgroup, "cgroup", "", "a directory in which each contestant gets its own memory cgroup, such as one that systemd delegates; empty: what the kernel charges is not measured")
	flag.StringVar(&h.agentConfig, "agent-config", "", "a file with configuration that is merged over the agent's")
	alone := flag.Bool("alone", false, "run the agent alone")
	flag.StringVar(&h.profiles, "profiles", "", "a directory for CPU and heap profiles of the agent and the receiver, for collectors with the pprof extension; their CPU is not to be compared then")
	chosen := flag.String("scales", strings.Join(names, ","), "fleets to measure at")
	flag.StringVar(&h.results, "results", "", "a directory to write the results into; empty: none")
	var tiers fleetFlags
	tiers.declare()
	speed := flag.Float64("speed", 0, "factor by which times are shortened, 1 for production's; 0: as each scale has it")
	flag.Parse()
	picked, err := pick(*chosen)
	switch {
	case err != nil:
	case h.windows < 1:
		err = fmt.Errorf("-windows is %d: must be at least 1", h.windows)
	case *speed < 0 || *speed > 60:
		err = fmt.Errorf("-speed is %g: must be from 0 to 60", *speed)
	case flag.NArg() > 0:
		err = errors.New("unexpected arguments: only flags are allowed")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchcompare:", err)
		os.Exit(2)
	}
	for i := range picked {
		picked[i].speed = cmp.Or(*speed, picked[i].speed)
		picked[i].alone = picked[i].alone || *alone
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if tiers.sizes != "" {
		err = h.runFleets(ctx, tiers, os.Stdout)
	} else {
		for i := 0; i < len(picked) && err == nil; i++ {
			err = h.run(ctx, picked[i], os.Stdout)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchcompare:", err)
		cancel()
		os.Exit(1) //nolint:gocritic // cancel ran
	}
}

// pick returns the scales with the given names, in the given order.
func pick(names string) ([]scale, error) {
	var picked []scale
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(scales, func(s scale) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-scales %q: no such scale", name)
		}
		picked = append(picked, scales[i])
	}
	return picked, nil
}

// run measures all contestants at one scale and prints a table of the results.
func (h *harness) run(ctx context.Context, s scale, out io.Writer) error {
	interval, window := s.shortened()
	l, err := newLoad(s.nodes, s.mig, interval)
	if err != nil {
		return err
	}
	samples := 0
	for _, n := range l.nodes {
		samples += len(n.values)
	}
	fmt.Fprintf(out, "\n## %s\n\n%d samples a scrape; each %s into windows of %s, run as %s and %s, %d windows; %d CPUs.\n",
		s.fleet(), samples, s.interval, s.window, interval, window, h.windows, runtime.NumCPU())
	if h.cgroup == "" {
		fmt.Fprint(out, "What a memory cgroup is charged is not measured: -cgroup names none.\n")
	}
	measured := make([]*figures, len(contestants))
	for i, c := range contestants {
		if s.alone && i > 0 || c.name == "Prometheus" && h.prometheus == "" {
			continue
		}
		before := loadAverage()
		f, err := h.measure(ctx, c, s, l)
		if err != nil {
			return fmt.Errorf("%d nodes, %s: %w", s.nodes, c.name, err)
		}
		measured[i] = &f
		fmt.Fprintf(out, "\n- %s: %.0f %% of the scrapes that were due; load average %s before, %s after", c.name, 100*f.kept, before, loadAverage())
		if f.kept < enough {
			fmt.Fprint(out, ". **Too few: the machine was too busy, or the times too short; its figures prove nothing.**")
		}
		// Collect garbage so that one contestant's run does not affect the next.
		runtime.GC()
	}
	fmt.Fprint(out, "\n\n"+table(s, measured))
	if h.results == "" {
		return nil
	}
	return keep(h.results, s, measured)
}

// loadAverage returns the machine's load average over the last minute.
func loadAverage() string {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	minute, _, _ := strings.Cut(string(content), " ")
	return minute
}
