package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

const (
	// gatewayWindow is long enough for a change to happen within one window.
	gatewayWindow   = 3 * time.Second
	gatewayInterval = 200 * time.Millisecond
	agents          = 2
	nodesPerAgent   = 6
)

// tier consists of agents and window collectors. Each window collector has its own backend, so that
// the tests know which collector sent a point.
type tier struct {
	hosts     string
	port      string
	exporters []*exporter
	agents    []*collector
	gateways  map[string]*gateway // by address
}

type gateway struct {
	*collector
	backend *backend
}

// The members method sets the addresses of the window collectors that the agents send to.
func (tr *tier) members(t *testing.T, addresses ...string) {
	t.Helper()
	lines := "127.0.0.1 localhost\n"
	for _, a := range addresses {
		lines += a + " windows.test\n"
	}
	require.NoError(t, os.WriteFile(tr.hosts, []byte(lines), 0o600))
}

// add starts a window collector and waits until it is ready.
func (tr *tier) add(t *testing.T, address string) {
	t.Helper()
	b := newBackend(t)
	tr.gateways[address] = &gateway{backend: b, collector: startCollector(t, setting{
		file: "testdata/gateway.yaml",
		env:  map[string]string{"GRPC_ENDPOINT": address + ":" + tr.port, "OTLP_ENDPOINT": b.url(), "WINDOW": gatewayWindow.String()},
	})}
	processtest.Until(t, "a window collector", func() bool {
		return strings.Contains(tr.gateways[address].Output.String(), processtest.Ready)
	}, tr.gateways[address].Process)
}

// owners returns the addresses of the window collectors that sent windows of the given node that
// end after the given time.
func (tr *tier) owners(node string, after time.Time) []string {
	var found []string
	for address, g := range tr.gateways {
		for _, p := range g.backend.all() {
			if p.metric == signal.WindowSamples.Name && p.node == node && p.end.After(after) {
				found = append(found, address)
				break
			}
		}
	}
	return found
}

// settled waits until each node's windows come from a single window collector, and returns a map
// from nodes to the addresses of their collectors. settled ignores windows that end less than two
// window lengths after the given time.
func (tr *tier) settled(t *testing.T, after time.Time) map[string]string {
	t.Helper()
	owner := map[string]string{}
	processtest.Until(t, "each node to have a collector", func() bool {
		for _, e := range tr.exporters {
			owners := tr.owners(e.node, after.Add(2*gatewayWindow))
			if len(owners) != 1 {
				return false
			}
			owner[e.node] = owners[0]
		}
		return true
	})
	return owner
}

// part contains the values that one window collector reports for a window.
type part struct {
	gateway           string
	samples, coverage float64
}

// parts maps the end time of each window for a node's first device to the window's parts.
func (tr *tier) parts(e *exporter) map[time.Time][]part {
	all := map[time.Time][]part{}
	for address, g := range tr.gateways {
		found := map[time.Time]*part{}
		for _, p := range g.backend.all() {
			if p.node != e.node || p.device != e.device(0) {
				continue
			}
			if found[p.end] == nil {
				found[p.end] = &part{gateway: address}
			}
			switch p.metric {
			case signal.WindowSamples.Name:
				found[p.end].samples += p.value
			case signal.WindowCoverage.Name:
				found[p.end].coverage += p.value
			}
		}
		for end, p := range found {
			if p.samples > 0 {
				all[end] = append(all[end], *p)
			}
		}
	}
	return all
}

// All samples of a node are sent to a single window collector. When the tier changes, some nodes
// move to another collector. The open window is sent in two parts only for nodes that move.
// Together, the two parts contain every sample, and both have a coverage of less than 1. If a
// collector is killed, the data that the collector has not yet sent is lost. The nodes of other
// collectors are not affected.
func TestATierOfWindowCollectorsSplitsOnlyTheOpenWindowsOfMovedNodes(t *testing.T) {
	t.Parallel()
	processtest.Binary(t, "otelcol-gpu")
	requireMounts(t)
	// Use fixed addresses and node names, because nodes are assigned to collectors by a hash of
	// both.
	const port = "19317"
	tr := &tier{hosts: filepath.Join(t.TempDir(), "hosts"), port: port, gateways: map[string]*gateway{}}
	all := []string{"127.77.0.2", "127.77.0.3", "127.77.0.4", "127.77.0.5"}
	for _, address := range all[:3] {
		tr.add(t, address)
	}
	tr.members(t, all[:3]...)
	for a := range agents {
		var endpoints []string
		for n := range nodesPerAgent {
			e := newExporter(t, fmt.Sprintf("node-%d-%d", a, n))
			tr.exporters = append(tr.exporters, e)
			endpoints = append(endpoints, e.url())
		}
		tr.agents = append(tr.agents, startCollector(t, setting{
			file:   "testdata/agents.yaml",
			set:    []string{"receivers.dcgm.endpoints=[" + strings.Join(endpoints, ",") + "]"},
			env:    map[string]string{"GATEWAY_PORT": port},
			mounts: "mount --bind " + tr.hosts + " /etc/hosts",
		}))
	}
	before := tr.settled(t, time.Now())
	used := map[string]bool{}
	for _, address := range before {
		used[address] = true
	}
	assert.Len(t, used, 3, "the nodes are spread over the tier")

	// A collector is added. The agents are updated after the new collector is ready.
	tr.add(t, all[3])
	added := time.Now()
	tr.members(t, all...)
	processtest.Until(t, "a node to move", func() bool { return len(tr.gateways[all[3]].backend.all()) > 0 })
	joined := tr.settled(t, time.Now())
	moved := 0
	for node, address := range joined {
		if address != before[node] {
			moved++
			assert.Equal(t, all[3], address, "nodes only move to the new collector")
		}
	}
	t.Logf("%d of %d nodes moved to the new collector", moved, len(joined))
	assert.Positive(t, moved)
	assert.Less(t, moved, len(joined))

	// A collector is removed gracefully: the collector's address is removed, then its nodes move to
	// other collectors, and finally its process is stopped.
	leaving := joined[tr.exporters[0].node]
	left := time.Now()
	staying := slices.DeleteFunc(slices.Clone(all), func(a string) bool { return a == leaving })
	tr.members(t, staying...)
	pass(t, tr.gateways[leaving].collector, left.Add(6*time.Second)) // host names are cached for 5 s
	tr.gateways[leaving].stop(t)
	drained := tr.settled(t, time.Now())
	for node, address := range drained {
		if joined[node] != leaving {
			assert.Equal(t, joined[node], address, "%s does not move", node)
		}
	}

	// A collector is killed.
	dying := drained[tr.exporters[0].node]
	tr.gateways[dying].kill(t)
	died := time.Now()
	var rest []string
	for _, address := range staying {
		if address != dying {
			rest = append(rest, address)
		}
	}
	tr.members(t, rest...)
	final := tr.settled(t, time.Now())
	for _, a := range tr.agents {
		a.stop(t)
	}
	for _, address := range rest {
		tr.gateways[address].stop(t)
	}

	compared, split, lost, orphans := 0, 0, 0, 0
	for _, e := range tr.exporters {
		answers := e.served()
		for end, parts := range tr.parts(e) {
			// Exclude the first and last windows, which are incomplete because sampling started or
			// stopped during these windows. Also exclude the windows that the killed collector
			// lost.
			whole := end.Add(-gatewayWindow).After(answers[0].at.Add(gatewayWindow)) && end.Before(answers[len(answers)-1].at.Add(-gatewayWindow)) &&
				(drained[e.node] != dying || end.Before(died.Add(-gatewayWindow)))
			served := servedIn(answers, end)
			samples, coverage := 0.0, 0.0
			for _, p := range parts {
				samples += p.samples
				coverage += p.coverage
			}
			// During a move, two consecutive scrapes may be sent to different collectors and arrive
			// in reverse order.
			overlap := float64(len(parts)-1) * gatewayInterval.Seconds() / gatewayWindow.Seconds()
			assert.LessOrEqual(t, coverage, 1.0+1e-9+overlap, "parts do not overlap: %v", parts)
			if whole {
				compared++
				// The numbers may differ by one scrape at the edge of the window and by the scrapes
				// that timed out.
				assert.InDelta(t, served, samples, float64(1+failures(tr, e, end)), "samples of the window ending at %s: %v", end, parts)
			}
			switch {
			// Check the coverage only if no scrapes are missing, because missing scrapes reduce the
			// coverage.
			case len(parts) == 1 && whole && int(samples) >= served-1 && served >= int(gatewayWindow/gatewayInterval)-1:
				assert.GreaterOrEqual(t, coverage, 1-3*gatewayInterval.Seconds()/gatewayWindow.Seconds(), "%v", parts)
			case len(parts) > 1:
				split++
				assert.Len(t, parts, 2)
				moves := before[e.node] != joined[e.node] || joined[e.node] != drained[e.node] || drained[e.node] != final[e.node]
				assert.True(t, moves, "%s never moved: %v", e.node, parts)
				assert.True(t, end.After(added), "nothing had changed yet")
				for _, p := range parts {
					assert.Less(t, p.coverage, 1.0)
				}
			}
		}
		// For the nodes of the killed collector, the data that the collector had not yet sent is
		// missing. The data that agents sent before they noticed that the collector was gone is
		// also missing. For other nodes, no samples may be missing.
		known := tr.parts(e)
		for end := answers[0].at.Truncate(gatewayWindow).Add(2 * gatewayWindow); end.Before(answers[len(answers)-1].at.Add(-gatewayWindow)); end = end.Add(gatewayWindow) {
			samples := 0
			for _, p := range known[end.UTC()] {
				samples += int(p.samples)
			}
			if drained[e.node] != dying {
				assert.GreaterOrEqual(t, samples, servedIn(answers, end)-1-failures(tr, e, end), "%s lacks samples in the window ending at %s", e.node, end)
			} else {
				lost += max(0, servedIn(answers, end)-samples-1-failures(tr, e, end))
			}
		}
		if drained[e.node] == dying {
			orphans++
		}
	}
	assert.Positive(t, lost, "the killed collector had an open window")
	// At most, the samples from the open window, its grace period, and the time for which host
	// names are cached may be lost.
	assert.LessOrEqual(t, lost, orphans*int((gatewayWindow+3*time.Second+6*time.Second)/gatewayInterval))
	peak := 0.0
	for _, g := range tr.gateways {
		peak = max(peak, g.peak)
		for _, p := range g.backend.all() {
			assert.False(t, p.ended, "a node that moved has not ended")
		}
	}
	assert.Positive(t, split)
	report(t, result{
		group: "gateway", fault: fmt.Sprintf("%d nodes send to 3 gateways; one gateway is added, one is drained, and one is killed", len(tr.exporters)),
		held: fmt.Sprintf("the open window of a node that moves is sent in two parts, which together contain all its samples (%d windows, counted as doubled); "+
			"only the %d nodes of the killed gateway lose samples", split, orphans),
		windows: compared, lost: strconv.Itoa(lost), doubled: strconv.Itoa(split), peak: peak, recovery: -1,
	})
}

// servedIn returns the number of responses in the window that ends at the given time.
func servedIn(answers []answer, end time.Time) int {
	n := 0
	for _, a := range answers {
		if a.at.After(end.Add(-gatewayWindow)) && !a.at.After(end) {
			n++
		}
	}
	return n
}

// failures returns the number of failed scrapes of an exporter during or close to the window that
// ends at the given time.
func failures(tr *tier, e *exporter, end time.Time) int {
	n := 0
	for _, g := range tr.gateways {
		for _, p := range ups(g.backend.all(), e.url(), end.Add(-gatewayWindow-gatewayInterval)) {
			if p.value == 0 && p.end.Before(end.Add(gatewayInterval)) {
				n++
			}
		}
	}
	return n
}
