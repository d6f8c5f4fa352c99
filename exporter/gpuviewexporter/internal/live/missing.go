package live

import (
	"fmt"
	"slices"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/store"
	"github.com/otelcol-gpu/otelcol-gpu/internal/diagnose"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Diagnosis contains the reasons why numbers are missing. Devices with the same reasons share a
// Diagnosis.
type Diagnosis struct {
	// Diagnosed is true if gpu.signal.available was received for the device.
	Diagnosed bool `json:"diagnosed,omitempty"`
	// Why contains one index for each element of the document's Numbers. The index refers to the
	// reason in the document's Why list.
	Why []int `json:"why"`
	// Lacks contains positions in the document's Missing, for the metrics that the exporter does
	// not provide.
	Lacks []int `json:"lacks,omitempty"`
}

// A Why explains why a device has no value for a number.
type Why struct {
	Text string `json:"text"`
	// If the device can never have the number, Never is true, and the number is omitted from the
	// device's details. If the number is measured for the board instead of its instances, or vice
	// versa, Elsewhere is true.
	Never     bool `json:"never,omitempty"`
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// Missing describes a metric that exporters do not provide for some devices, and one reason why the
// metric is missing.
type Missing struct {
	Metric string `json:"metric"`
	// Parts contains the values of the metric's own attribute for which the metric is missing. If
	// the metric does not have its own attribute, Parts is empty.
	Parts []string `json:"parts,omitempty"`
	// Fields contains the exporter fields that the metric is computed from.
	Fields []string `json:"fields,omitempty"`
	Text   string   `json:"text"`
	// Lasting is true if the metric cannot be made available by changing a setting.
	Lasting bool `json:"lasting,omitempty"`
}

// The number type describes one number of a device, or one column that can show several numbers,
// together with the reasons why the number may be missing.
type number struct {
	name string
	// If only boards have the number, onBoard is the reason why the number is missing for a MIG
	// instance. If only MIG instances have the number, onInstances is the reason why the number is
	// missing for a board with instances.
	onBoard, onInstances string
	// The metrics field contains the metrics that the number comes from, with the values of their
	// own attributes. If there is no verdict on any of the number's metrics, the usual reason is
	// shown.
	metrics []string
	usual   string
	// For MIG instances, usualOfInstance is shown instead of the usual reason.
	usualOfInstance string
}

const (
	seeBoard     = "Measured for the whole board: see the board's row."
	seeInstances = "Measured for each MIG instance: see the instances' rows."
)

func usualReason(format string, args ...any) string {
	return "Usual reason: " + fmt.Sprintf(format, args...)
}

func notInProfile(fields string) string {
	return usualReason("the exporter does not provide %s. It needs DCGM's profiling module (Volta or newer, not on every virtual GPU), and the field in the exporter's counters csv.", fields)
}

func notInCSV(fields string) string {
	return usualReason("the exporter does not provide %s, which its counters csv must list.", fields)
}

// The numbers slice contains the columns of the page, the windowed metrics in the signal table, and
// the gauges that are shown in the details.
var numbers = func() []number {
	noPower := usualReason("gpu_k8s has no section power, or does not know the board's idle power yet.")
	noBudget := usualReason("no memory budget is declared on this device, or gpu_k8s has no section budget.")
	noCoverage := "The window does not report how much of it was observed."
	columns := []number{
		{name: "utilization", onInstances: seeInstances, metrics: fieldKeys(signal.UtilizationAvg), usual: notInProfile("DCGM_FI_PROF_GR_ENGINE_ACTIVE") + " Without it, DCGM_FI_DEV_GPU_UTIL is used, which MIG does not have."},
		{name: "memory", onInstances: seeInstances, metrics: fieldKeys(signal.MemoryUtilizationAvg), usual: notInCSV("DCGM_FI_DEV_FB_USED and DCGM_FI_DEV_FB_FREE")},
		{name: "throttle", onBoard: seeBoard, metrics: causeKeys(), usual: notInCSV("DCGM_FI_DEV_*_VIOLATION or DCGM_FI_DEV_CLOCKS_EVENT_REASONS") + " A counter's first window has no increase yet."},
		{name: "pcie", onBoard: seeBoard, metrics: fieldKeys(signal.PCIeThroughputAvg), usual: notInProfile("DCGM_FI_PROF_PCIE_TX_BYTES and _RX_BYTES")},
		{name: "nvlink", onBoard: seeBoard, metrics: fieldKeys(signal.NVLinkThroughputAvg), usual: notInProfile("DCGM_FI_PROF_NVLINK_TX_BYTES and _RX_BYTES") + " A GPU without NVLink has none."},
		{name: "xid", metrics: fieldKeys(signal.XIDErrors), usual: notInCSV("DCGM_FI_DEV_XID_ERRORS")},
		{name: "power", metrics: []string{signal.HwPower.Name}, usual: notInCSV("DCGM_FI_DEV_POWER_USAGE"), usualOfInstance: noPower},
		{name: "budget", usual: noBudget},
		{name: "finding", usual: usualReason("the stage gpu_findings does not run, or a signal that its rules need is absent.")},
		{name: "holders", onInstances: "Held by instance: see the instances' rows.", metrics: []string{signal.GPUDeviceHolder.Name}, usual: "No holder is known: the device is free, or neither the exporter's pod labels nor the gpu_k8s processor name its holder."},
		{name: "coverage", usual: noCoverage},
	}
	column := func(name string) number {
		return columns[slices.IndexFunc(columns, func(n number) bool { return n.name == name })]
	}
	out := columns
	// The add function adds a line to the details. The reasons are the same as for the given
	// column, but only the verdicts on the line's metric apply.
	add := func(key string, like number) {
		like.name, like.metrics = key, []string{key}
		out = append(out, like)
	}
	of := map[*signal.Metric]string{
		signal.UtilizationAvg: "utilization", signal.MemoryUtilizationAvg: "memory", signal.XIDErrors: "xid",
		signal.PCIeThroughputAvg: "pcie", signal.NVLinkThroughputAvg: "nvlink",
	}
	for _, samples := range signal.All() {
		for _, w := range samples.Windows {
			if w.Label == "" {
				continue
			}
			described := describeWindow(samples, &w)
			like := number{usual: usualReason("the exporter does not provide it.")}
			if name, ok := of[samples.Windows[0].Metric]; ok {
				like = column(name)
			} else {
				if fields := strings.Join(described.fields, " and "); described.profiling {
					like.usual = notInProfile(fields)
				} else if fields != "" {
					like.usual = notInCSV(fields)
				}
				like.onInstances = seeInstances
				if described.board {
					like.onBoard, like.onInstances = seeBoard, ""
				}
			}
			keys := windowKeys(&described)
			if len(keys) > 1 { // add a column that shows all values together
				like.name, like.metrics = w.Name, keys
				out = append(out, like)
			}
			for _, key := range keys {
				add(key, like)
			}
		}
	}
	for _, key := range causeKeys() {
		add(key, column("throttle"))
	}
	board := number{onBoard: seeBoard, usual: notInCSV("DCGM_FI_DEV_POWER_USAGE")}
	add(signal.HwPower.Name, board)
	board.usual = notInCSV("DCGM_FI_DEV_GPU_TEMP")
	add(keyOf(signal.HwTemperature.Name, signal.LocationGPU), board)
	for _, m := range []*signal.Metric{signal.GPUPowerIdle, signal.GPUPowerActive, signal.GPUInstancePower, signal.GPUPowerUnattributed} {
		add(m.Name, number{usual: noPower})
	}
	for _, m := range []*signal.Metric{signal.HwGPUMemoryUsage, signal.HwGPUMemoryLimit} {
		add(m.Name, column("memory"))
	}
	for _, m := range []*signal.Metric{signal.GPUMemoryBudgetDeclared, signal.GPUMemoryUsageUnbudgeted, signal.GPUMemoryHeadroom} {
		add(m.Name, number{usual: noBudget})
	}
	for _, m := range []*signal.Metric{signal.WindowCoverage, signal.WindowSamples} {
		add(m.Name, number{usual: noCoverage})
	}
	return out
}()

// numberNames returns the names of all numbers.
func numberNames() []string {
	out := make([]string, len(numbers))
	for i, n := range numbers {
		out[i] = n.name
	}
	return out
}

// keyOf returns the name of a metric, followed by the value of the metric's own attribute in
// braces.
func keyOf(metric, value string) string {
	if value == "" {
		return metric
	}
	return metric + "{" + value + "}"
}

func fieldKeys(m *signal.Metric) []string {
	var out []string
	for _, f := range store.FieldsOf(m) {
		out = append(out, keyOf(m.Name, f.Value()))
	}
	return out
}

func windowKeys(w *Window) []string {
	out := make([]string, len(w.Values))
	for i, v := range w.Values {
		out[i] = keyOf(w.Metric, v)
	}
	return out
}

func causeKeys() []string {
	var out []string
	for _, c := range causes() {
		out = append(out, c.Key)
	}
	return out
}

// signalsOf returns the positions of the signals that a number is computed from. A signal without a
// Part applies to all values of the metric's own attribute.
func signalsOf(key string) []int {
	metric, _, _ := strings.Cut(key, "{")
	var exact, anyPart []int
	for i, s := range store.Diagnosed() {
		for _, name := range append([]string{s.Metric.Name}, signal.Names(s.Feeds)...) {
			if key == name || s.Part != "" && key == keyOf(name, s.Part) {
				exact = append(exact, i)
			}
			if metric == name && s.Part == "" {
				anyPart = append(anyPart, i)
			}
		}
	}
	if exact != nil {
		return exact
	}
	return anyPart
}

// numberSignals contains the signals that each number is computed from.
var numberSignals = func() [][]int {
	out := make([][]int, len(numbers))
	for i, n := range numbers {
		for _, key := range n.metrics {
			for _, s := range signalsOf(key) {
				if !slices.Contains(out[i], s) {
					out[i] = append(out[i], s)
				}
			}
		}
	}
	return out
}()

// The circumstances type contains everything about a device that affects why numbers are missing.
type circumstances struct {
	verdicts                                string // the verdicts, one byte per signal, or empty if there are no verdicts
	hasWindow, held, instance, hasInstances bool
}

func (d *Device) circumstances(verdicts []store.Verdict, hasInstances bool) circumstances {
	text := make([]byte, len(verdicts))
	for i, v := range verdicts {
		text[i] = byte(v)
	}
	return circumstances{string(text), d.End > 0, len(d.Holders) > 0, d.Parent != "", hasInstances}
}

// The verdict method returns the verdict on a signal.
func (c *circumstances) verdict(i int) store.Verdict {
	if c.verdicts == "" {
		return store.Unknown
	}
	return store.Verdict(c.verdicts[i])
}

// The reason method returns the reason why a signal is missing, or false if the signal is available
// or if there is no verdict on the signal.
func (c *circumstances) reason(i int) (diagnose.Reason, bool) {
	v := c.verdict(i)
	if v < store.Missing {
		return diagnose.None, false
	}
	return diagnose.Reason(v - store.Missing), true
}

func reasonText(r diagnose.Reason) string {
	if r == diagnose.None {
		return "the reason is not known here"
	}
	return r.Text()
}

// The diagnoses type collects the diagnoses in a document.
type diagnoses struct {
	document *Document
	known    map[circumstances]int
	whys     map[Why]int
	missing  map[string]int
	// The lacking map contains the missing signals that could be enabled, with the reason why each
	// signal is missing.
	lacking map[signalReason]bool
}

type signalReason struct {
	signal int
	reason diagnose.Reason
}

func newDiagnoses(d *Document) *diagnoses {
	return &diagnoses{d, map[circumstances]int{}, map[Why]int{}, map[string]int{}, map[signalReason]bool{}}
}

// The add method adds the diagnosis of a device to the document, unless the document already
// contains an equal diagnosis. The result is the 1-based position of the diagnosis.
func (x *diagnoses) add(c circumstances) int {
	if at, ok := x.known[c]; ok {
		return at
	}
	out := Diagnosis{Diagnosed: c.verdicts != "", Why: make([]int, len(numbers)), Lacks: x.addMissing(&c)}
	for i := range numbers {
		w := c.why(i)
		at, ok := x.whys[w]
		if !ok {
			at = len(x.document.Why)
			x.document.Why, x.whys[w] = append(x.document.Why, w), at
		}
		out.Why[i] = at
	}
	x.document.Diagnoses = append(x.document.Diagnoses, out)
	x.known[c] = len(x.document.Diagnoses)
	if out.Diagnosed {
		x.document.Lacking = new(len(x.lacking))
	}
	return x.known[c]
}

// addMissing adds the metrics that the exporter does not provide to the document and returns the
// positions of these metrics. A missing holder signal is ignored if the device is free or if the
// device's holder is known.
func (x *diagnoses) addMissing(c *circumstances) []int {
	var order []string
	byReason := map[string]*Missing{}
	for i, s := range store.Diagnosed() {
		reason, missing := c.reason(i)
		if !missing || reason == diagnose.Free || s.Metric == signal.GPUDeviceHolder && c.held {
			continue
		}
		if !reason.Lasting() {
			x.lacking[signalReason{i, reason}] = true
		}
		id := s.Metric.Name + " " + reason.String()
		m := byReason[id]
		if m == nil {
			m = &Missing{Metric: s.Metric.Name, Text: reasonText(reason), Lasting: reason.Lasting()}
			order, byReason[id] = append(order, id), m
		}
		if s.Part != "" {
			m.Parts = append(m.Parts, s.Part)
		}
		for _, f := range s.Fields() {
			if !slices.Contains(m.Fields, f) {
				m.Fields = append(m.Fields, f)
			}
		}
	}
	var out []int
	for _, id := range order {
		m := byReason[id]
		id += " " + strings.Join(m.Parts, ",")
		at, ok := x.missing[id]
		if !ok {
			at = len(x.document.Missing)
			x.missing[id] = at
			x.document.Missing = append(x.document.Missing, *m)
		}
		out = append(out, at)
	}
	return out
}

// The why method returns the reason why a device has no value for a number.
func (c *circumstances) why(at int) Why {
	n := &numbers[at]
	switch {
	case c.instance && n.onBoard != "":
		return Why{n.onBoard, true, true}
	case c.hasInstances && n.onInstances != "":
		return Why{n.onInstances, true, true}
	case !c.hasWindow:
		return Why{Text: "No window of this device has arrived yet."}
	}
	var lacking []int
	judged, lasting := 0, 0
	for _, i := range numberSignals[at] {
		if c.verdict(i) != store.Unknown {
			judged++
		}
		if reason, missing := c.reason(i); missing {
			lacking = append(lacking, i)
			if reason.Lasting() {
				lasting++
			}
		}
	}
	switch {
	case judged == 0 && c.instance && n.usualOfInstance != "":
		return Why{Text: n.usualOfInstance}
	case judged == 0:
		return Why{Text: n.usual}
	case len(lacking) == 0:
		return Why{Text: "The exporter provides it, but no window has it: a counter's first window has no increase, and a limit may refuse it."}
	}
	return Why{Text: c.listReasons(lacking), Never: lasting == judged}
}

// listReasons returns a string with one line per reason. Each line names the exporter fields that
// are missing for that reason or, if there are no fields, the first signal that is missing.
func (c *circumstances) listReasons(lacking []int) string {
	var order []diagnose.Reason
	fields, names := map[diagnose.Reason][]string{}, map[diagnose.Reason]string{}
	for _, i := range lacking {
		reason, _ := c.reason(i)
		s := store.Diagnosed()[i]
		if !slices.Contains(order, reason) {
			order, names[reason] = append(order, reason), s.Name()
		}
		for _, f := range s.Fields() {
			if !slices.Contains(fields[reason], f) {
				fields[reason] = append(fields[reason], f)
			}
		}
	}
	lines := make([]string, len(order))
	for i, reason := range order {
		about := strings.Join(fields[reason], ", ")
		if about == "" {
			about = names[reason]
		}
		lines[i] = about + ": " + reasonText(reason) + "."
	}
	return strings.Join(lines, "\n")
}
