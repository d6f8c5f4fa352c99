package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fleetScale is the prefix of a fleet's name in the results. The number of nodes follows the
// prefix.
const fleetScale = "fleet-"

// gatewayColumns lists the columns of the fleet table.
var gatewayColumns = []struct {
	key, what string
	of        func(*outcome) float64
}{
	{"cpu", "CPU per 1,000 devices, % of a core", func(o *outcome) float64 {
		return 100 * o.cpu / chartInterval.Seconds() * o.perThousandDevices()
	}},
	{"resident", "resident MiB per 1,000 devices", func(o *outcome) float64 { return o.resident * o.perThousandDevices() }},
	{"anonymous", "anonymous MiB per 1,000 devices", func(o *outcome) float64 { return o.anonymous * o.perThousandDevices() }},
	{"series", "series per gateway", func(o *outcome) float64 { return o.series / float64(o.run) }},
	{"peak", "highest resident MiB of a gateway", func(o *outcome) float64 { return o.peak }},
	{"failed", "refused requests, %", func(o *outcome) float64 { return 100 * float64(o.failed) / float64(max(1, o.all)) }},
	{"refused", "samples refused by `max_series`", func(o *outcome) float64 { return o.refused }},
	{"late", "late samples", func(o *outcome) float64 { return o.lateSamples }},
	{"unsent", "points that were not sent", func(o *outcome) float64 { return o.unsent }},
	{"missing", "devices without a window, %", func(o *outcome) float64 {
		return 100 * float64(o.missing) / float64(o.agents()*o.recording.gpus)
	}},
}

func (o *outcome) perThousandDevices() float64 {
	return 1000 / float64(o.agents()*o.recording.gpus)
}

// fleetFlags contains the flags for replaying agents' requests to gateways.
type fleetFlags struct {
	sizes, manifest string
	run             int
	rate            float64
}

func (f *fleetFlags) declare() {
	flag.StringVar(&f.sizes, "fleet", "", "instead of -scales: numbers of nodes, such as 1000,10000, whose agents are replaced by what one sends, before a tier of gateways")
	flag.IntVar(&f.run, "fleet-run", gateways, "how many of the tier's gateways run, with their share of the agents")
	flag.Float64Var(&f.rate, "fleet-rate", 50, "scrapes a second that the machine bears; with more agents times are longer than production's")
	flag.StringVar(&f.manifest, "fleet-chart", "test/charts/testdata/gateways_compute_windows_and_a_page_shows_them/manifests.yaml", "what the chart renders, with a gateway's configuration")
}

// numbers parses the list of fleet sizes and validates all flags.
func (f *fleetFlags) numbers() ([]int, error) {
	if f.run < 1 || f.run > gateways || f.rate <= 0 {
		return nil, fmt.Errorf("-fleet-run %d, -fleet-rate %g: must be from 1 to %d, and above 0", f.run, f.rate, gateways)
	}
	var sizes []int
	for text := range strings.SplitSeq(f.sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < gateways || n >= maxAgents {
			return nil, fmt.Errorf("-fleet %q: must be from %d to %d", text, gateways, maxAgents-1)
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}

// maxAgents is the number of agents that can be numbered with five digits.
const maxAgents = 100_000

// runFleets measures a tier for each fleet size given in the flags.
func (h *harness) runFleets(ctx context.Context, f fleetFlags, out io.Writer) error {
	sizes, err := f.numbers()
	if err != nil {
		return err
	}
	manifest, err := os.ReadFile(f.manifest)
	if err != nil {
		return err
	}
	r, err := h.record(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nAn agent sends %d points of %d GPUs a scrape, %d bytes before compression.\n", r.points, r.gpus, len(r.body))
	for _, nodes := range sizes {
		tr := tier{nodes: nodes, gateways: gateways, run: f.run}
		// Use the shortest scrape interval that the machine can handle, but at least a fifth of the
		// production interval.
		tr.interval = max(chartInterval/5, time.Duration(float64(tr.agents())/f.rate*float64(time.Second))).Round(100 * time.Millisecond)
		o, err := h.fleet(ctx, tr, r, manifest)
		if err != nil {
			return fmt.Errorf("%d nodes: %w", nodes, err)
		}
		figures := map[string]float64{}
		for _, c := range gatewayColumns {
			figures[c.key] = c.of(o)
		}
		fmt.Fprintf(out, "\n- %d nodes: %d agents into %d of %d gateways, %s between scrapes; %d of %d requests sent in time, load average %s",
			nodes, tr.agents(), f.run, gateways, tr.interval, o.all-o.late, o.all, loadAverage())
		if o.firstError != "" {
			fmt.Fprintf(out, "; first error: %s", o.firstError)
		}
		if float64(o.late) > (1-enough)*float64(o.all) {
			fmt.Fprint(out, ". **The machine was too busy; these figures prove nothing.**")
		}
		put := func(r results) { r.set(fleetScale+strconv.Itoa(nodes), "gateway", figures) }
		measured := results{}
		put(measured)
		fmt.Fprint(out, "\n\n"+fleetTable(measured))
		if h.results == "" {
			continue
		}
		if err := revise(h.results, put); err != nil {
			return err
		}
	}
	return nil
}

// fleetTable renders the fleets in the results as a Markdown table, or returns "" if the results
// contain no fleets.
func fleetTable(r results) string {
	sizes := map[int]bool{}
	for k := range r {
		if text, ok := strings.CutPrefix(k.scale, fleetScale); ok {
			if n, err := strconv.Atoi(text); err == nil {
				sizes[n] = true
			}
		}
	}
	if len(sizes) == 0 {
		return ""
	}
	var b strings.Builder
	sorted := slices.Sorted(maps.Keys(sizes))
	b.WriteString("| nodes with 8 whole GPUs ")
	for _, n := range sorted {
		fmt.Fprintf(&b, "| %d ", n)
	}
	b.WriteString("|\n|---" + strings.Repeat("|--:", len(sorted)) + "|\n")
	for _, c := range gatewayColumns {
		b.WriteString("| " + c.what + " ")
		for _, n := range sorted {
			v := "0"
			if figure := r[resultKey{fleetScale + strconv.Itoa(n), "gateway", c.key}]; figure != 0 {
				v = cell(figure)
			}
			b.WriteString("| " + v + " ")
		}
		b.WriteString("|\n")
	}
	return b.String()
}
