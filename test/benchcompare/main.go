// Command benchcompare compares the agent with its alternatives at several fleet sizes. One
// alternative is the same binary with the prometheus receiver and OTLP. The other is a real
// Prometheus that scrapes and evaluates OpenCost's queries as recording rules. They run as
// processes, one after another, with the same simulated exporters. The output is a Markdown table
// with ratios and targets. With -results, the results are stored in results.tsv in that directory,
// and the tables in its RESULTS.md and the plot are regenerated. With -fleet, one agent's requests
// are recorded and then sent to a tier of gateways, as if many agents sent them.
//
// Only the process's own CPU time is measured, so other work on the machine has little effect. The
// machine's load is printed with each run. All intervals and windows are shortened by a factor,
// which each section states, so that a run takes minutes. This does not change the work per sample
// or the bytes per window. However, CPU caches stay warm, so the CPU costs are slightly too low,
// except those of the scrape loops of the agent and the receiver. Effects that take hours are not
// measured. In particular, the memory of Prometheus' head block is measured after only a few
// minutes.
//
// A missed target is printed and does not change the exit status. The status is 1 if something
// could not be measured, and 2 for invalid flags.
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

// scales are the values of -scales. Each scale also exists with the suffix -small.
var scales = withSmall([]scale{
	oneNode("1", scale{cpu: 0.19, memory: 0.42}),
	oneNode("1-held", scale{held: true, cpu: 0.34, memory: 0.55}),
	oneNode("1-synthesizer", scale{form: inSynthesizer, cpu: 0.25}),
	oneNode("1-held-synthesizer", scale{held: true, form: inSynthesizer, cpu: 0.42}),
	oneNode("1-processors", scale{form: plainProcessors, cpu: 0.35}),
	oneNode("1-held-processors", scale{held: true, form: plainProcessors, cpu: 0.75}),
	{name: "10", nodes: 10, mig: 7, interval: 15 * time.Second, window: time.Minute, speed: 7.5, cpu: 0.11, memory: 0.45},
	{name: "100", nodes: 100, mig: 7, interval: 15 * time.Second, window: time.Minute, speed: 3, cpu: 0.12, memory: 0.45},
	{name: "1000", nodes: 1000, interval: time.Minute, window: 2 * time.Minute, speed: 6, cpu: 0.25, memory: 0.90},
	// 100,016 MIG instances in one process is the largest fleet for one agent.
	{name: "100k-instances", nodes: 1786, mig: 7, interval: time.Minute, window: 2 * time.Minute, speed: 2, alone: true},
})

// oneNode returns a scale of one node whose GPUs are divided into MIG instances.
func oneNode(name string, s scale) scale {
	s.name, s.nodes, s.mig = name, 1, 7
	s.interval, s.window, s.speed = 15*time.Second, time.Minute, 15
	return s
}

// withSmall adds, after each scale, the same scale with the cheapest settings.
func withSmall(of []scale) []scale {
	var all []scale
	for _, s := range of {
		all = append(all, s)
		s.name, s.small = s.name+"-small", true
		all = append(all, s)
	}
	return all
}

// enough is the minimum fraction of due scrapes that must run. If fewer run, the CPU time of
// abandoned scrapes distorts the cost of the others.
const enough = 0.9

func main() {
	var names []string
	for _, s := range scales {
		names = append(names, s.name)
	}
	h := harness{}
	flag.StringVar(&h.collector, "collector", "bin/otelcol-gpu", "the built collector")
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

// run measures all contestants at one scale and prints their table.
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
		// Collect garbage, so that one run does not affect the next.
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
