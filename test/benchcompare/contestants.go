package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A contestant is one way to turn exporters into GPU signals.
type contestant struct {
	// name is the header of the contestant's column.
	name string
	// The sends field is the name of a metric that the contestant sends to a backend, with at least
	// one point per device and window. The backend counts the received bytes. If the contestant
	// sends nothing, the field is empty.
	sends string
	// prepare writes the contestant's configuration to a directory, and returns the contestant's
	// command and a URL that responds with 200 once the contestant is ready.
	prepare func(dir string, s setting) (command []string, ready string, err error)
	// verify, if not nil, returns an error if the contestant did not do the work that is being
	// measured.
	verify func(ctx context.Context) error
}

// Contestants run one at a time. The running contestant listens on ownAddress and, if it is being
// profiled, on profilerAddress.
const (
	ownAddress      = "127.88.1.1:13133"
	profilerAddress = "127.88.1.1:1777"
)

// setting contains the parameters of a contestant's configuration.
type setting struct {
	*harness
	// scale is the fleet, including the shortened intervals that the measurement uses.
	scale
	// exporters is the host:port that serves the nodes. backend is the URL that receives OTLP.
	exporters, backend string
	// compression is the exporter's compression setting.
	compression string
	// If samples is true, the agent sends samples with the devices' holders instead of windows.
	samples bool
}

// contestants lists the columns of the table. The agent is the first contestant.
var contestants = []contestant{
	{name: "agent", sends: "gpu.window.samples", prepare: prepareAgent},
	{name: "prometheus receiver", sends: "DCGM_FI_DEV_FB_USED", prepare: prepareReceiver},
	{name: "Prometheus", prepare: preparePrometheus, verify: verifyPrometheus},
}

// seriesPerDevice is greater than the number of series for any device without container series.
const seriesPerDevice = 80

// prepareAgent configures dcgm, gpu_synthesizer, and gpu_window in the form that the scale
// specifies. gpu_window computes series for devices and, if s.held is true, also for containers. If
// s.samples is true, the agent has gpu_k8s instead of gpu_window.
func prepareAgent(dir string, s setting) ([]string, string, error) {
	var receiver strings.Builder
	fmt.Fprintf(&receiver, "  dcgm:\n    collection_interval: %[1]s\n    timeout: %[1]s\n    endpoints:\n", s.interval)
	for i := range s.nodes {
		fmt.Fprintf(&receiver, "      - http://%s%s\n", s.exporters, path(i))
	}
	deviceAttributes := "point"
	if s.small {
		deviceAttributes = "resource"
	}
	const sources = "kubernetes: {auth_type: none}, sources: {pod_resources: {enabled: false}, dra: {enabled: false}}"
	holders := ""
	switch {
	case s.samples:
		holders = "gpu_k8s: {" + sources + ", power: {}}\n"
	case s.held:
		holders = "gpu_k8s: {" + sources + ", power: {}, usage: {}}\n"
	}
	stages := holders
	if !s.samples {
		stages += fmt.Sprintf("gpu_window: {window: %s, grace: %s, max_series: %d, device_attributes: %q}\n",
			s.window, s.window/12, max(200_000, seriesPerDevice*s.devices()), deviceAttributes)
	}
	processors, names := "", ""
	switch s.form {
	case inReceiver:
		receiver.WriteString("    stages:\n" + indent(stages, "      "))
	case inSynthesizer:
		processors, names = "  gpu_synthesizer:\n    stages:\n"+indent(stages, "      "), "gpu_synthesizer"
	case plainProcessors:
		processors, names = "  gpu_synthesizer: {}\n"+indent(stages, "  "), "gpu_synthesizer, gpu_window"
		if holders != "" {
			names = "gpu_synthesizer, gpu_k8s, gpu_window"
		}
	}
	if processors != "" {
		processors = "processors:\n" + processors
	}
	binary := s.collector
	if s.installed {
		binary = s.agent
	}
	return prepareCollector(dir, binary, s, "receivers:\n"+receiver.String()+processors,
		`{receivers: [dcgm], processors: [`+names+`], exporters: [otlp_http]}`)
}

// prepareReceiver configures the prometheus receiver, which sends what it scrapes.
func prepareReceiver(dir string, s setting) ([]string, string, error) {
	return prepareCollector(dir, s.collector, s, `receivers:
  prometheus:
    config:
`+indent(scrapeConfig(s), "      "), `{receivers: [prometheus], exporters: [otlp_http]}`)
}

func prepareCollector(dir, binary string, s setting, input, pipeline string) ([]string, string, error) {
	config := filepath.Join(dir, "config.yaml")
	profiler, extensions := "", "[health_check]"
	if s.profiles != "" {
		profiler, extensions = fmt.Sprintf("  pprof: {endpoint: %q}\n", profilerAddress), "[health_check, pprof]"
	}
	err := os.WriteFile(config, fmt.Appendf(nil, `extensions:
  health_check: {endpoint: %q}
%s%s
exporters:
  otlp_http: {endpoint: %q, compression: %q}
service:
  extensions: %s
  pipelines: {metrics: %s}
  telemetry: {metrics: {level: none}, logs: {level: warn}}
`, ownAddress, profiler, input, s.backend, s.compression, extensions, pipeline), 0o600)
	return []string{binary, "--config", config}, "http://" + ownAddress + "/", err
}

// preparePrometheus configures a Prometheus server that scrapes and stores samples, and that
// evaluates OpenCost's queries once per window.
func preparePrometheus(dir string, s setting) ([]string, string, error) {
	config, rules := filepath.Join(dir, "prometheus.yaml"), filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(config, []byte(scrapeConfig(s)+"rule_files: [rules.yaml]\n"), 0o600); err != nil {
		return nil, "", err
	}
	if err := os.WriteFile(rules, []byte(recordingRules(s.interval, s.window)), 0o600); err != nil {
		return nil, "", err
	}
	return []string{
		s.harness.prometheus, "--config.file=" + config, "--storage.tsdb.path=" + filepath.Join(dir, "data"),
		"--web.listen-address=" + ownAddress, "--log.level=warn",
	}, "http://" + ownAddress + "/-/ready", nil
}

// verifyPrometheus checks that every recording rule, except those for throttling and XID errors,
// has a value for each device that a container holds. OpenCost's queries omit devices that no
// container holds.
func verifyPrometheus(ctx context.Context) error {
	query := url.Values{"query": {`min(count by (__name__) ({__name__=~"opencost:.*",__name__!~"opencost:(throttle|xid).*"}))
		== on () count(DCGM_FI_PROF_DRAM_ACTIVE{container!=""})`}}
	text, err := get(ctx, "http://"+ownAddress+"/api/v1/query?"+query.Encode())
	if err != nil {
		return err
	}
	var answer struct {
		Data struct {
			Result []any
		}
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return err
	}
	if len(answer.Data.Result) != 1 {
		return errors.New("a recording rule has no value for some devices")
	}
	return nil
}

// scrapeConfig returns the scrape configuration for Prometheus and for the prometheus receiver.
// Each node is a separate target with its own path and instance label.
func scrapeConfig(s setting) string {
	var b strings.Builder
	fmt.Fprintf(&b, `global: {scrape_interval: %[1]s, scrape_timeout: %[1]s, evaluation_interval: %[2]s}
scrape_configs:
  - job_name: dcgm
    honor_labels: true
    static_configs:
`, prometheusDuration(s.interval), prometheusDuration(s.window))
	for i := range s.nodes {
		fmt.Fprintf(&b, "      - {targets: [%q], labels: {__metrics_path__: %q, instance: \"node-%d:9400\"}}\n", s.exporters, path(i), i)
	}
	return b.String()
}

// recordingRules returns the queries from OpenCost's Prometheus source for the signals that the
// agent also computes. Each query covers one window. The resolution of subqueries is the scrape
// interval, because with OpenCost's resolution of five minutes, a window would contain no samples.
func recordingRules(interval, window time.Duration) string {
	by := "by (container, pod, namespace, device, modelName, UUID, GPU_I_PROFILE, GPU_I_ID, pod_uid)"
	of := `{container!=""}`
	over, sub := "["+prometheusDuration(window)+"]", "["+prometheusDuration(window)+":"+prometheusDuration(interval)+"]"
	var b strings.Builder
	b.WriteString("groups:\n  - name: opencost\n    rules:\n")
	rule := func(name, expr string) { fmt.Fprintf(&b, "      - {record: %q, expr: %q}\n", "opencost:"+name, expr) }
	mean := func(metric string) string { return "avg(avg_over_time(" + metric + of + over + ")) " + by }
	highest := func(metric string) string { return "max(max_over_time(" + metric + of + over + ")) " + by }
	labeled := func(expr, label string) string {
		return fmt.Sprintf(`label_replace(%s, "reason", %q, "", "")`, expr, label)
	}

	var violations, reasons []string
	for _, policy := range []string{"power", "thermal", "sync_boost", "board_limit"} {
		violations = append(violations, labeled(fmt.Sprintf("avg(increase(DCGM_FI_DEV_%s_VIOLATION%s%s)) %s / %g",
			strings.ToUpper(policy), of, over, by, float64(window.Microseconds())), policy))
	}
	rule("throttle_violation", strings.Join(violations, " or "))
	for _, reason := range []struct {
		name string
		bit  int
	}{{"sw_power_cap", 4}, {"hw_slowdown", 8}, {"sync_boost", 16}, {"sw_thermal", 32}, {"hw_thermal", 64}, {"hw_power_brake", 128}} {
		reasons = append(reasons, labeled(fmt.Sprintf(
			"avg(avg_over_time(((floor((DCGM_FI_DEV_CLOCK_THROTTLE_REASONS%[1]s or DCGM_FI_DEV_CLOCKS_EVENT_REASONS%[1]s) / %[2]d)) %% 2)%[3]s)) %[4]s",
			of, reason.bit, sub, by), reason.name))
	}
	rule("throttle_reason", strings.Join(reasons, " or "))

	const used, free = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"
	total := "(" + mean(used) + " + " + mean(free) + ")"
	rule("memory_avg", mean(used)+" / "+total)
	rule("memory_max", highest(used)+" / "+total)
	rule("memory_pressure", fmt.Sprintf("avg(avg_over_time(((%[1]s%[3]s / (%[1]s%[3]s + %[2]s%[3]s)) >= bool 0.9)%[4]s)) %[5]s", used, free, of, sub, by))
	rule("xid", "sum(changes(DCGM_FI_DEV_XID_ERRORS"+of+over+")) "+by)
	rule("usage_avg", mean("DCGM_FI_PROF_GR_ENGINE_ACTIVE"))
	rule("dram_avg", mean("DCGM_FI_PROF_DRAM_ACTIVE"))
	rule("dram_max", highest("DCGM_FI_PROF_DRAM_ACTIVE"))
	rule("sm_active", mean("DCGM_FI_PROF_SM_ACTIVE"))
	rule("sm_occupancy", mean("DCGM_FI_PROF_SM_OCCUPANCY"))
	for _, link := range []string{"PCIE_TX", "PCIE_RX", "NVLINK_TX", "NVLINK_RX"} {
		rule(strings.ToLower(link), "avg(rate(DCGM_FI_PROF_"+link+"_BYTES"+of+over+")) "+by)
	}
	return b.String()
}

// prometheusDuration formats a duration in Prometheus syntax.
func prometheusDuration(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }

func indent(text, by string) string {
	return by + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+by) + "\n"
}
