package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/dcgmsim"
)

// load simulates the exporters of many nodes, which it serves at /node/<n>/metrics. Bodies are
// rendered only when load is created. For each scrape, load copies the body and formats only the
// values that change. The exporters therefore take almost no CPU time away from the measured
// processes.
type load struct {
	nodes []*node
	// scrapes and samples are the numbers of scrapes and samples served since the last reset.
	scrapes, samples atomic.Int64
}

// node is the response body of one exporter, split into the values and the text between them.
type node struct {
	mu     sync.Mutex
	served int64
	// pieces[i] is the text before values[i]; the last piece is the end of the body.
	pieces [][]byte
	values []value
	buffer []byte
}

// value defines how a sample's value changes from scrape to scrape.
type value struct {
	// first is the value in the first scrape. step is a counter's increase per scrape or a gauge's
	// amplitude.
	first, step float64
	counter     bool
	// decimals is the number of decimal places that the exporter prints.
	decimals int
}

// swing is the number of scrapes after which a gauge's values repeat.
const swing = 8

// newLoad renders nodes with eight GPUs and every simulated field enabled. mig is the number of MIG
// instances on each GPU, or zero if the GPUs are not partitioned. interval is the time between
// scrapes. At each scrape, every counter increases by the amount for one interval, so that counters
// of elapsed time do not run faster than the clock.
func newLoad(nodes, mig int, interval time.Duration) (*load, error) {
	config := dcgmsim.NewDefaultConfig()
	config.Scenario, config.Style = dcgmsim.ScenarioPowerCapped, dcgmsim.Style45
	config.Nodes, config.MIG = nodes, mig
	config.CollectInterval = 0
	simulation, err := dcgmsim.New(config)
	if err != nil {
		return nil, err
	}
	// At this point in the simulation, many GPUs are at their power limit and their clocks vary.
	const at = 25 * time.Second
	l := &load{}
	for i := range nodes {
		body := simulation.AppendBody(nil, i, at)
		n, err := cut(body, simulation.AppendBody(nil, i, at+interval))
		if err != nil {
			return nil, fmt.Errorf("node %d: %w", i, err)
		}
		l.nodes = append(l.nodes, n)
	}
	return l, nil
}

// cut splits a response at its values. The body and next parameters are two consecutive responses,
// which cut compares to compute how each value changes.
func cut(body, next []byte) (*node, error) {
	counters, later := map[string]bool{}, map[string]string{}
	for line := range bytes.Lines(next) {
		if series, text, ok := sample(line); ok {
			later[series] = text
		}
	}
	n := &node{}
	start, at := 0, 0
	for line := range bytes.Lines(body) {
		if fields := strings.Fields(string(line)); len(fields) == 4 && fields[1] == "TYPE" {
			counters[fields[2]] = fields[3] == "counter"
		}
		if series, text, ok := sample(line); ok {
			v, err := change(text, later[series])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", series, err)
			}
			name, _, _ := strings.Cut(series, "{")
			v.counter = counters[name]
			from := at + len(series) + 1
			n.pieces = append(n.pieces, body[start:from])
			n.values = append(n.values, v)
			start = from + len(text)
		}
		at += len(line)
	}
	n.pieces = append(n.pieces, body[start:])
	return n, nil
}

// sample splits a line at the last space, into the series and the value, because label values can
// contain spaces.
func sample(line []byte) (series, text string, ok bool) {
	s := strings.TrimSuffix(string(line), "\n")
	if s == "" || s[0] == '#' {
		return "", "", false
	}
	end := strings.LastIndexByte(s, ' ')
	if end < 0 {
		return "", "", false
	}
	return s[:end], s[end+1:], true
}

// change determines how a value changes. The text parameter is the value in the first scrape, and
// the next parameter is the value in the second scrape. If next is empty, the value is constant.
func change(text, next string) (value, error) {
	v := value{}
	_, fraction, _ := strings.Cut(text, ".")
	v.decimals = len(fraction)
	var err error
	if v.first, err = strconv.ParseFloat(text, 64); err != nil {
		return v, err
	}
	if next == "" {
		return v, nil
	}
	after, err := strconv.ParseFloat(next, 64)
	v.step = after - v.first
	return v, err
}

// The at function returns the value in the scrape with the given number. The first scrape is number
// 0.
func (v value) at(scrape int64) float64 {
	if v.counter {
		return v.first + v.step*float64(scrape)
	}
	return v.first + v.step*float64(scrape%swing)/(swing-1)
}

// body returns the response to the next scrape of the node. The returned slice is valid until the
// next call.
func (n *node) body() []byte {
	n.buffer = n.buffer[:0]
	for i, v := range n.values {
		n.buffer = append(n.buffer, n.pieces[i]...)
		n.buffer = strconv.AppendFloat(n.buffer, v.at(n.served), 'f', v.decimals, 64)
	}
	n.buffer = append(n.buffer, n.pieces[len(n.values)]...)
	n.served++
	return n.buffer
}

// path returns the URL path of a node.
func path(node int) string { return fmt.Sprintf("/node/%d/metrics", node) }

func (l *load) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /node/{node}/metrics", func(w http.ResponseWriter, r *http.Request) {
		i, err := strconv.Atoi(r.PathValue("node"))
		if err != nil || i < 0 || i >= len(l.nodes) {
			http.NotFound(w, r)
			return
		}
		n := l.nodes[i]
		n.mu.Lock()
		defer n.mu.Unlock()
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		if _, err := w.Write(n.body()); err != nil {
			return // do not count a scrape if the client has disconnected
		}
		l.scrapes.Add(1)
		l.samples.Add(int64(len(n.values)))
	})
	return mux
}
