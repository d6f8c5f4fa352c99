package oracle

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Definition defines a windowed signal in PromQL.
type Definition struct {
	// Own is the value of the metric-specific attribute, or "" if the metric has no such attribute.
	Metric *signal.Metric
	Own    string
	// Query is a PromQL query. The query's result at the end of a window is the window's value.
	// Words that start with $ are placeholders for Parameters. Queries need two Prometheus feature
	// flags. promql-extended-range-selectors enables the anchored modifier, which includes the last
	// sample before a range and does not extrapolate. promql-experimental-functions enables
	// ts_of_last_over_time.
	Query string
}

// Parameters contains the values of the placeholders in queries.
type Parameters struct {
	// Window is the window length. The placeholder $window stands for the duration, and $seconds
	// stands for the number of seconds.
	Window time.Duration
	// Step is the scrape interval. Its placeholder is $step. Scrapes happen at multiples of Step,
	// so that subqueries are evaluated at the time of each scrape.
	Step time.Duration
	// Lookback is the maximum age that the last sample before the window may have at the start of
	// the window. Its placeholder is $lookback. Lookback must equal the query engine's lookback
	// delta.
	Lookback time.Duration
	// Threshold is the memory occupancy at which memory pressure begins. Its placeholder is
	// $threshold.
	Threshold float64
}

// Fill returns the query with all placeholders replaced by their values.
func (p Parameters) Fill(query string) string {
	return strings.NewReplacer(
		"$window", p.Window.String(),
		"$seconds", strconv.FormatFloat(p.Window.Seconds(), 'f', -1, 64),
		"$step", p.Step.String(),
		"$lookback", p.Lookback.String(),
		"$threshold", strconv.FormatFloat(p.Threshold, 'f', -1, 64),
	).Replace(query)
}

// Rule is a recording rule that is evaluated at the time of every scrape.
type Rule struct {
	Record, Expr string
}

// Reason is a clock event reason and its bit in DCGM's mask.
type Reason struct {
	Name string
	Bit  int
}

// Reasons lists the clock event reasons that have signals.
var Reasons = []Reason{
	{"sw_power_cap", 0x4},
	{"hw_slowdown", 0x8},
	{"sync_boost", 0x10},
	{"sw_thermal", 0x20},
	{"hw_thermal", 0x40},
	{"hw_power_brake", 0x80},
}

const (
	occupancy   = `(DCGM_FI_DEV_FB_USED / ((DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE) > 0))`
	reasonMask  = `(DCGM_FI_DEV_CLOCK_THROTTLE_REASONS or DCGM_FI_DEV_CLOCKS_EVENT_REASONS)`
	utilization = `(clamp(DCGM_FI_PROF_GR_ENGINE_ACTIVE, 0, 1) or clamp(DCGM_FI_DEV_GPU_UTIL{GPU_I_ID=""} / 100, 0, 1))`
)

// Definitions returns the definitions of all windowed signals, in the order of the output contract.
//
// The recording rules from Derived produce gpu:xid_events and gpu:seen. The metric
// link_capacity_bytes_per_second{link, modelName} is the capacity of a link in one direction,
// according to NVIDIA's data sheets.
func Definitions() []Definition {
	defs := []Definition{
		timeRatio(signal.ThrottleViolationRatio, "power", "DCGM_FI_DEV_POWER_VIOLATION"),
		timeRatio(signal.ThrottleViolationRatio, "thermal", "DCGM_FI_DEV_THERMAL_VIOLATION"),
		timeRatio(signal.ThrottleViolationRatio, "sync_boost", "DCGM_FI_DEV_SYNC_BOOST_VIOLATION"),
		timeRatio(signal.ThrottleViolationRatio, "board_limit", "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION"),
	}
	for _, r := range Reasons {
		defs = append(defs, Definition{
			signal.ThrottleReasonRatio, r.Name,
			fmt.Sprintf(`avg_over_time((floor(%s / %d) %% 2)[$window:$step])`, reasonMask, r.Bit),
		})
	}
	return append(defs,
		timeRatio(signal.ThrottleTimeRatio, "sw_power_cap", "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS"),
		timeRatio(signal.ThrottleTimeRatio, "sync_boost", "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_NS"),
		timeRatio(signal.ThrottleTimeRatio, "sw_thermal", "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS"),
		timeRatio(signal.ThrottleTimeRatio, "hw_thermal", "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS"),
		timeRatio(signal.ThrottleTimeRatio, "hw_power_brake", "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS"),

		Definition{signal.MemoryUtilizationAvg, "", `avg_over_time(` + occupancy + `[$window:$step])`},
		Definition{signal.MemoryUtilizationMax, "", `max_over_time(` + occupancy + `[$window:$step])`},
		Definition{signal.MemoryPressureRatio, "", `avg_over_time((` + occupancy + ` >= bool $threshold)[$window:$step])`},

		Definition{signal.XIDErrors, "", `sum_over_time(gpu:xid_events[$window])`},

		Definition{signal.DRAMActiveAvg, "", `avg_over_time(clamp(DCGM_FI_PROF_DRAM_ACTIVE, 0, 1)[$window:$step])`},
		Definition{signal.DRAMActiveMax, "", `max_over_time(clamp(DCGM_FI_PROF_DRAM_ACTIVE, 0, 1)[$window:$step])`},
		Definition{signal.SMActiveAvg, "", `avg_over_time(clamp(DCGM_FI_PROF_SM_ACTIVE, 0, 1)[$window:$step])`},
		Definition{signal.SMOccupancyAvg, "", `avg_over_time(clamp(DCGM_FI_PROF_SM_OCCUPANCY, 0, 1)[$window:$step])`},

		Definition{signal.PCIeThroughputAvg, "transmit", `avg_over_time(DCGM_FI_PROF_PCIE_TX_BYTES[$window])`},
		Definition{signal.PCIeThroughputAvg, "receive", `avg_over_time(DCGM_FI_PROF_PCIE_RX_BYTES[$window])`},
		Definition{signal.NVLinkThroughputAvg, "transmit", `avg_over_time(DCGM_FI_PROF_NVLINK_TX_BYTES[$window])`},
		Definition{signal.NVLinkThroughputAvg, "receive", `avg_over_time(DCGM_FI_PROF_NVLINK_RX_BYTES[$window])`},
		linkUtilization(signal.PCIeUtilizationAvg, "transmit", "pcie", "DCGM_FI_PROF_PCIE_TX_BYTES"),
		linkUtilization(signal.PCIeUtilizationAvg, "receive", "pcie", "DCGM_FI_PROF_PCIE_RX_BYTES"),
		linkUtilization(signal.NVLinkUtilizationAvg, "transmit", "nvlink", "DCGM_FI_PROF_NVLINK_TX_BYTES"),
		linkUtilization(signal.NVLinkUtilizationAvg, "receive", "nvlink", "DCGM_FI_PROF_NVLINK_RX_BYTES"),

		Definition{signal.UtilizationAvg, "", `avg_over_time(` + utilization + `[$window:$step])`},
		Definition{signal.UtilizationMax, "", `max_over_time(` + utilization + `[$window:$step])`},

		// The time between two samples that are more than max_gap (90 s) apart is not observed.
		Definition{
			signal.WindowCoverage, "",
			`clamp_max(sum_over_time(((time() - ts_of_last_over_time(gpu:seen[1h] offset $step)) <= 90 and gpu:seen)[$window:$step]) / $seconds, 1)` +
				` or 0 * count_over_time(gpu:seen[$window])`,
		},
		Definition{signal.WindowSamples, "", `count_over_time(gpu:seen[$window])`},
	)
}

// timeRatio defines a signal that is the increase in a nanosecond counter as a fraction of the
// observed time. The observed time starts at the last sample before the window or, if there is
// none, at the first sample in the window. The observed time ends at the last sample in the window.
func timeRatio(m *signal.Metric, own, field string) Definition {
	return Definition{m, own, strings.ReplaceAll(
		`clamp_max(increase(M[$window] anchored) / 1e9`+
			` / ((ts_of_last_over_time(M[$window]) - (ts_of_last_over_time(M[$lookback] offset $window) or ts_of_first_over_time(M[$window]))) > 0), 1)`,
		"M", field)}
}

func linkUtilization(m *signal.Metric, own, link, field string) Definition {
	return Definition{m, own, fmt.Sprintf(
		`avg_over_time(clamp_max(%s / on (modelName) group_left () link_capacity_bytes_per_second{link=%q}, 1)[$window:$step])`, field, link)}
}

// These dcgm-exporter labels identify a device or a board.
const (
	byDevice = `by (Hostname, UUID, GPU_I_ID, modelName)`
	byBoard  = `by (Hostname, UUID, modelName)`
)

// instanceFields lists fields whose values apply to the device that the row identifies. boardFields
// lists fields whose values apply to the entire board. On a MIG board, board fields are repeated in
// the rows of all instances.
var (
	instanceFields = []string{
		"DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
		"DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_SM_OCCUPANCY", "DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_DEV_XID_ERRORS",
	}
	boardFields = []string{
		"DCGM_FI_DEV_POWER_VIOLATION", "DCGM_FI_DEV_THERMAL_VIOLATION",
		"DCGM_FI_DEV_SYNC_BOOST_VIOLATION", "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION",
		"DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS", "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_NS",
		"DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS", "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS",
		"DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS",
		"DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES", "DCGM_FI_PROF_NVLINK_TX_BYTES", "DCGM_FI_PROF_NVLINK_RX_BYTES",
	}
	maskFields = []string{"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"}
)

// Folding returns the rules that combine an exporter's rows into one series per device, with the
// same metric name. The row without a pod contains the device's value. If every row has a pod, all
// rows are copies of the device's row. Labels such as err_code are ignored, because they contain a
// value and do not identify a device. Board fields become one series per board. If the rows of a
// board field differ, the rules use the maximum, although for gauges, the output contract uses the
// row with the lowest GPU_I_ID. Masks become one series per board that contains the bits of all
// rows.
func Folding() []Rule {
	device := func(field string) string {
		return fmt.Sprintf(`max %[1]s (%[2]s{pod=""}) or max %[1]s (%[2]s)`, byDevice, field)
	}
	var rules []Rule
	for _, f := range instanceFields {
		rules = append(rules, Rule{f, device(f)})
	}
	for _, f := range boardFields {
		rules = append(rules, Rule{f, fmt.Sprintf(`max %s (%s)`, byBoard, device(f))})
	}
	for _, f := range maskFields {
		var bits []string
		for _, r := range Reasons {
			bits = append(bits, fmt.Sprintf(`%d * max %s (floor(%s / %[1]d) %% 2)`, r.Bit, byBoard, f))
		}
		rules = append(rules, Rule{f, strings.Join(bits, " + ")})
	}
	return rules
}

// Derived returns the recording rules that the queries in Definitions depend on, in evaluation
// order.
func Derived() []Rule {
	sources := slices.Concat(instanceFields[3:7], maskFields, boardFields)
	return []Rule{
		// gpu:xid is the last XID of a device, regardless of err_code and err_msg.
		{"gpu:xid", `max ` + byDevice + ` (DCGM_FI_DEV_XID_ERRORS)`},
		// gpu:xid_transition is 1 if the last XID changed to a different, nonzero value, and 0
		// otherwise. In a device's first scrape, gpu:xid_transition is 0. If the device was scraped
		// before but had no XID metric, the previous XID counts as 0.
		{
			"gpu:xid_transition",
			`(gpu:xid != bool 0) * (gpu:xid != bool (last_over_time(gpu:xid[1h] offset $step)` +
				` or 0 * group ` + byDevice + ` (last_over_time({__name__=~"DCGM_.+"}[1h] offset $step)))) or 0 * gpu:xid`,
		},
		// gpu:xid_of_board is 1 if a board has at least two instances and all of them have the same
		// transition. The transition is then counted only once, for the board.
		{
			"gpu:xid_of_board",
			`min ` + byBoard + ` (gpu:xid_transition{GPU_I_ID!=""})` +
				` * (max ` + byBoard + ` (gpu:xid{GPU_I_ID!=""}) == bool min ` + byBoard + ` (gpu:xid{GPU_I_ID!=""}))` +
				` and count ` + byBoard + ` (gpu:xid{GPU_I_ID!=""}) >= 2`,
		},
		{
			"gpu:xid_events",
			`(gpu:xid_transition{GPU_I_ID!=""} - on (Hostname, UUID, modelName) group_left () gpu:xid_of_board)` +
				` or gpu:xid_transition or gpu:xid_of_board`,
		},
		// gpu:seen is 1 at the time of each scrape that contained a row from which a windowed
		// signal is computed.
		{
			"gpu:seen",
			`group ` + byDevice + ` ({__name__=~"` + strings.Join(sources, "|") + `"})` +
				` or group ` + byDevice + ` (DCGM_FI_DEV_GPU_UTIL{GPU_I_ID=""})` +
				` or group ` + byDevice + ` ((DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE) > 0)` +
				` or group ` + byDevice + ` (gpu:xid_events)`,
		},
	}
}
