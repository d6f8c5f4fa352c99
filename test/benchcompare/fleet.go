package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/confmap"
	"go.yaml.in/yaml/v3"
)

// gateways is the chart's default number of gateway replicas.
const gateways = 3

// A tier is a set of gateways that are configured almost as in the chart; see gatewayConfig.
// Replayed agents send to the gateways, and the gateways send to a backend. In production, a hash
// determines each agent's gateway; here, agents are distributed evenly among the gateways. How
// agents are distributed does not affect the gateways' costs, because agents compute the hash.
type tier struct {
	// nodes is the size of the fleet, and gateways is the number of gateways that the fleet is
	// divided among. run is the number of gateways that are started. Each gateway receives data
	// only from its share of the fleet.
	nodes, gateways, run int
	interval             time.Duration
}

// The constants contain the chart's settings for a gateway. The limits of memory_limiter are
// fractions of resources.limits.memory, and GOMEMLIMIT is four fifths of that limit.
const (
	gatewayMemory = 2048 // MiB
	gatewayGoal   = "GOMEMLIMIT=1638MiB"
	chartInterval = 15 * time.Second
	chartWindow   = time.Minute
	chartGap      = 50 * time.Second
)

// outcome contains the results of running a tier.
type outcome struct {
	tier
	recording *recording
	// cpu is the CPU time per scrape interval, in seconds. resident and anonymous are in MiB. These
	// three values are sums over the gateways that ran. peak is the highest resident memory of any
	// gateway.
	cpu, resident, anonymous, peak float64
	// The all field is the number of requests from agents. failed is the number of rejected
	// requests. late is the number of requests that were sent long after their scheduled time.
	all, failed, late int64
	// series, refused, and lateSamples are self-metrics of gpu_window. unsent is the number of
	// points that the exporter could not send or queue. missing is the number of devices for which
	// no window was received.
	series, refused, lateSamples, unsent float64
	missing                              int
	firstError                           string
}

// agents returns the number of agents that send data to the running gateways.
func (tr tier) agents() int { return tr.nodes * tr.run / tr.gateways }

// stretched scales a duration from the chart by the ratio of the tier's scrape interval to the
// chart's.
func (tr tier) stretched(d time.Duration) time.Duration {
	return time.Duration(float64(d) * float64(tr.interval) / float64(chartInterval)).Round(time.Millisecond)
}

// gatewayAddress returns the IP address of a gateway, which listens on the same ports as in the
// chart.
func gatewayAddress(i int) string { return fmt.Sprintf("127.88.0.%d", i+1) }

// gatewayConfig adapts the chart's gateway configuration to this machine by removing certificates,
// setting the memory limit in bytes, and scaling durations.
func gatewayConfig(manifest []byte, tr tier, dir, backend string) ([]byte, error) {
	var chart map[string]any
	for document := range bytes.SplitSeq(manifest, []byte("\n---\n")) {
		var object struct {
			Data map[string]string
		}
		if err := yaml.Unmarshal(document, &object); err != nil {
			return nil, err
		}
		if text := object.Data["gateway.yaml"]; text != "" {
			if err := yaml.Unmarshal([]byte(text), &chart); err != nil {
				return nil, err
			}
		}
	}
	if chart == nil {
		return nil, errors.New("no ConfigMap with gateway.yaml")
	}
	gateway := confmap.NewFromStringMap(chart)
	here := map[string]any{
		"exporters::otlp_http": map[string]any{
			"endpoint": backend, "compression": "gzip", "sending_queue": gateway.Get("exporters::otlp_grpc::sending_queue"),
		},
		"service::pipelines::metrics::exporters": []any{"otlp_http"},
		"extensions::file_storage::directory":    dir,
		"processors::gpu_window::window":         tr.stretched(chartWindow).String(),
		"processors::gpu_window::max_gap":        tr.stretched(chartGap).String(),
		"processors::gpu_window::grace":          tr.stretched(time.Minute).String(),
	}
	gateway.Delete("exporters")
	gateway.Delete("receivers::otlp::protocols::grpc::tls")
	for _, limit := range []string{"processors::memory_limiter::limit", "processors::memory_limiter::spike_limit"} {
		percent, _ := gateway.Get(limit + "_percentage").(int)
		gateway.Delete(limit + "_percentage")
		here[limit+"_mib"] = gatewayMemory * percent / 100
	}
	err := gateway.Merge(confmap.NewFromStringMap(here))
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(gateway.ToStringMap())
}

// record runs one agent on a node with unpartitioned GPUs and records the request that the agent
// sends for one scrape. The agent sends samples with the devices' holders instead of windows, as
// it does if the chart installs gateways.
func (h *harness) record(ctx context.Context) (*recording, error) {
	const interval = time.Second
	l, err := newLoad(1, 0, interval)
	if err != nil {
		return nil, err
	}
	for _, n := range l.nodes {
		for i := range n.pieces {
			n.pieces[i] = bytes.ReplaceAll(n.pieces[i], []byte(`"gpu-node-0"`), []byte(`"`+recordedNode+`"`))
		}
	}
	exporters := httptest.NewServer(l.handler())
	defer exporters.Close()
	bodies := make(chan []byte, 1)
	backend := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil {
			select {
			case bodies <- body:
			default:
			}
		}
	}))
	defer backend.Close()
	dir, err := os.MkdirTemp("", "benchcompare-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s := setting{
		harness: h, scale: scale{nodes: 1, interval: interval, window: time.Minute},
		exporters: exporters.Listener.Addr().String(), backend: backend.URL, compression: "none",
		samples: true,
	}
	command, _, err := prepareAgent(dir, s)
	if err != nil {
		return nil, err
	}
	p, err := start(ctx, dir, command)
	if err != nil {
		return nil, err
	}
	defer p.kill()
	var last error
	for range 10 {
		select {
		case body := <-bodies:
			r, err := newRecording(body)
			if err == nil {
				return r, nil
			}
			last = err
		case <-p.ended:
			return nil, fmt.Errorf("the agent ended: %s", p.output())
		case <-time.After(time.Minute):
			return nil, fmt.Errorf("the agent sent nothing: %s", p.output())
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, fmt.Errorf("no scrape to record: %w", last)
}

// The fleet function runs a tier that receives data from replayed agents.
func (h *harness) fleet(ctx context.Context, tr tier, r *recording, manifest []byte) (*outcome, error) {
	dir, err := os.MkdirTemp("", "benchcompare-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var counts counter
	backend := httptest.NewServer(&counts)
	defer backend.Close()
	processes := make([]*process, 0, tr.run)
	defer func() {
		for _, p := range processes {
			p.kill()
		}
	}()
	for i := range tr.run {
		own := filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(own, 0o700); err != nil {
			return nil, err
		}
		config, err := gatewayConfig(manifest, tr, own, backend.URL)
		if err != nil {
			return nil, err
		}
		file := filepath.Join(own, "config.yaml")
		if err := os.WriteFile(file, config, 0o600); err != nil {
			return nil, err
		}
		command := []string{"/usr/bin/env", "POD_IP=" + gatewayAddress(i), gatewayGoal, h.collector, "--config", file}
		p, err := start(ctx, own, command)
		if err != nil {
			return nil, err
		}
		processes = append(processes, p)
		if _, err := p.awaitReady(ctx, "http://"+gatewayAddress(i)+":13133/"); err != nil {
			return nil, err
		}
	}

	o := &outcome{tier: tr, recording: r}
	var replayed replay
	sending, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() {
		done <- replayed.run(sending, tr, r, func(i int) string { return gatewayAddress(i) + ":4317" })
	}()
	// After this wait, two windows have been sent, and a third is open.
	window := tr.stretched(chartWindow)
	wait := func(d time.Duration) error {
		select {
		case <-time.After(d):
		case err := <-done:
			return fmt.Errorf("agents stopped: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		}
		return nil
	}
	if err := wait(window * 13 / 4); err != nil {
		return nil, err
	}
	var f figures
	cpu, err := h.watch(&f, processes, "", window, wait)
	if err != nil {
		return nil, err
	}
	o.resident, o.anonymous = f.resident, f.anonymous
	o.cpu = cpu.Seconds() / float64(h.windows) / float64(chartWindow/chartInterval)
	if o.missing, err = counts.missing("gpu.window.samples", tr.agents()*r.gpus, window, wait); err != nil {
		return nil, err
	}
	for i, p := range processes {
		status, err := p.status()
		if err != nil {
			return nil, err
		}
		o.peak = max(o.peak, float64(status.VmHWM)/mib)
		text, err := get(ctx, "http://"+gatewayAddress(i)+":8888/metrics")
		if err != nil {
			return nil, err
		}
		o.series += selfMetric(text, "otelcol_processor_gpu_window_series", "")
		o.refused += selfMetric(text, "otelcol_processor_gpu_window_samples", `outcome="refused"`)
		o.lateSamples += selfMetric(text, "otelcol_processor_gpu_window_samples", `outcome="late"`)
		o.unsent += selfMetric(text, "otelcol_exporter_send_failed_metric_points", "") + selfMetric(text, "otelcol_exporter_enqueue_failed_metric_points", "")
	}
	stop()
	if err := <-done; err != nil {
		return nil, err
	}
	o.all, o.failed, o.late = replayed.sent.Load(), replayed.failed.Load(), replayed.late.Load()
	if e := replayed.first.Load(); e != nil {
		o.firstError = *e
	}
	return o, nil
}

// get returns the body of the response from a URL.
func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %s", url, response.Status)
	}
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// selfMetric returns the sum of the samples of a self-metric that have the given label.
func selfMetric(text, name, label string) float64 {
	sum := 0.0
	for line := range strings.Lines(text) {
		series, value, ok := sample([]byte(line))
		found, labels, _ := strings.Cut(series, "{")
		if !ok || strings.TrimSuffix(found, "_total") != name || !strings.Contains(labels, label) {
			continue
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			sum += v
		}
	}
	return sum
}
