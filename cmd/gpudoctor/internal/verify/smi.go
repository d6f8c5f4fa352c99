package verify

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// property maps a property of nvidia-smi --help-query-gpu to a metric. Values are multiplied by
// scale to convert them to the metric's unit.
type property struct {
	name   string
	metric *signal.Metric
	part   string
	scale  float64
}

const mebi = 1 << 20

var properties = []property{
	{"power.draw", signal.HwPower, "", 1},
	{"enforced.power.limit", signal.GPUPowerLimit, "", 1},
	{"temperature.gpu", signal.HwTemperature, signal.LocationGPU, 1},
	{"temperature.memory", signal.HwTemperature, signal.LocationMemory, 1},
	{"utilization.gpu", signal.HwGPUUtilization, signal.TaskGeneral, 0.01},
	{"utilization.encoder", signal.HwGPUUtilization, signal.TaskEncoder, 0.01},
	{"utilization.decoder", signal.HwGPUUtilization, signal.TaskDecoder, 0.01},
	{"memory.total", signal.HwGPUMemoryLimit, "", mebi},
	{"memory.used", signal.HwGPUMemoryUsage, "", mebi},
	{"clocks.sm", signal.GPUClockFrequency, signal.DomainSM, 1e6},
	{"clocks.mem", signal.GPUClockFrequency, signal.DomainMemory, 1e6},
	{"clocks_event_reasons.sw_power_cap", signal.GPUClockEventActive, "sw_power_cap", 1},
	{"clocks_event_reasons.hw_slowdown", signal.GPUClockEventActive, "hw_slowdown", 1},
	{"clocks_event_reasons.sync_boost", signal.GPUClockEventActive, "sync_boost", 1},
	{"clocks_event_reasons.sw_thermal_slowdown", signal.GPUClockEventActive, "sw_thermal", 1},
	{"clocks_event_reasons.hw_thermal_slowdown", signal.GPUClockEventActive, "hw_thermal", 1},
	{"clocks_event_reasons.hw_power_brake_slowdown", signal.GPUClockEventActive, "hw_power_brake", 1},
	{"clocks_event_reasons_counters.sw_power_cap", signal.GPUClockEventTime, "sw_power_cap", 1e-6},
	{"clocks_event_reasons_counters.sw_thermal_slowdown", signal.GPUClockEventTime, "sw_thermal", 1e-6},
	{"clocks_event_reasons_counters.sync_boost", signal.GPUClockEventTime, "sync_boost", 1e-6},
	{"clocks_event_reasons_counters.hw_thermal_slowdown", signal.GPUClockEventTime, "hw_thermal", 1e-6},
	{"clocks_event_reasons_counters.hw_power_brake_slowdown", signal.GPUClockEventTime, "hw_power_brake", 1e-6},
	{"ecc.errors.corrected.volatile.total", signal.HwErrors, "corrected", 1},
	{"ecc.errors.uncorrected.volatile.total", signal.HwErrors, "uncorrected", 1},
	{"remapped_rows.correctable", signal.HwErrors, "row_remap_correctable", 1},
	{"remapped_rows.uncorrectable", signal.HwErrors, "row_remap_uncorrectable", 1},
}

// smi runs nvidia-smi and parses its output.
type smi struct {
	path    string
	known   []property        // properties that this nvidia-smi supports
	indexes map[string]string // nvidia-smi's index of each GPU, by UUID
}

// unknown is a regular expression that matches nvidia-smi's message about an unsupported property.
var unknown = regexp.MustCompile(`Field "([^"]+)" is not a valid field`)

// read adds the current values from nvidia-smi to r. If nvidia-smi rejects a property, read retries
// without it and never requests it again.
func (s *smi) read(ctx context.Context, r Readings) error {
	if s.known == nil {
		s.known = slices.Clone(properties)
	}
	for len(s.known) > 0 {
		names := []string{"uuid", "index"}
		for _, p := range s.known {
			names = append(names, p.name)
		}
		var out bytes.Buffer
		//nolint:gosec // The user specifies the program.
		cmd := exec.CommandContext(ctx, s.path, "--query-gpu="+strings.Join(names, ","), "--format=csv,noheader,nounits")
		cmd.Stdout, cmd.Stderr = &out, &out
		cmd.WaitDelay = time.Second
		err := cmd.Run()
		if err == nil {
			return s.parse(out.String(), time.Now(), r)
		}
		lacks := unknown.FindStringSubmatch(out.String())
		before := len(s.known)
		if lacks != nil {
			s.known = slices.DeleteFunc(s.known, func(p property) bool { return p.name == lacks[1] })
		}
		if len(s.known) == before {
			return fmt.Errorf("%w: %s", err, cut(strings.TrimSpace(out.String()), 200))
		}
	}
	return errors.New("nvidia-smi supports none of the properties")
}

// parse parses nvidia-smi's CSV output. Values that are not numbers, such as [N/A], are skipped.
func (s *smi) parse(text string, at time.Time, r Readings) error {
	lines := csv.NewReader(strings.NewReader(text))
	lines.TrimLeadingSpace = true
	lines.FieldsPerRecord = len(s.known) + 2
	rows, err := lines.ReadAll()
	if err != nil {
		return err
	}
	if s.indexes == nil {
		s.indexes = map[string]string{}
	}
	for _, row := range rows {
		uuid, index, values := row[0], row[1], row[2:]
		s.indexes[uuid] = index
		for i, p := range s.known {
			v, err := strconv.ParseFloat(values[i], 64)
			switch values[i] {
			case "Active":
				v, err = 1, nil
			case "Not Active":
				v, err = 0, nil
			}
			if err == nil {
				key := Key{uuid, p.metric.Name, p.part}
				r[key] = append(r[key], Sample{at, v * p.scale})
			}
		}
	}
	return nil
}

func cut(text string, n int) string {
	if len(text) > n {
		return text[:n] + "…"
	}
	return text
}
