package gpuviewexporter

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/allocation"
	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/store"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pdatatest"
)

var update = flag.Bool("update", false, "write the files under testdata/golden")

// noon is the time at which the newest window in the golden files ends.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// minutesBefore returns a batch for the window that ends n minutes before noon.
func minutesBefore(n int) *batch {
	return newBatch(noon.Add(-time.Duration(n)*time.Minute), time.Minute)
}

const (
	boardA = "GPU-aaaaaaaa-0000-0000-0000-000000000000"
	boardB = "GPU-bbbbbbbb-0000-0000-0000-000000000000"
)

// TestGolden fills a store and compares each response with the file of the same name in
// testdata/golden. All requests are made three seconds after noon.
func TestGolden(t *testing.T) {
	h100 := []string{signal.HardwareName, "nvidia0", signal.HardwareModel, "NVIDIA H100 80GB HBM3"}
	second := []string{signal.HardwareName, "nvidia1", signal.HardwareModel, "NVIDIA H100 80GB HBM3"}
	exclusive := func(name []string) []string {
		return append([]string{signal.SharingStrategy, signal.SharingNone}, name...)
	}
	for _, tt := range []struct {
		name      string
		batches   []*batch
		aggregate string
	}{
		{
			"windows of a container are weighted by observed time", []*batch{
				minutesBefore(1).onNode("node-1", "ml", "train-0", "main").device(boardA, exclusive(h100)...).load(0.2, 0.5, 0.4).addPoint(signal.WindowCoverage, 0.25).addPoint(signal.XIDErrors, 2),
				minutesBefore(0).onNode("node-1", "ml", "train-0", "main").device(boardA, exclusive(h100)...).load(0.6, 0.95, 0).addPoint(signal.WindowCoverage, 0.75).addPoint(signal.XIDErrors, 1),
			}, "container",
		},
		{
			"unobserved signals are absent and observed zeros are 0", []*batch{
				minutesBefore(0).onNode("node-1", "ml", "train-0", "main").device(boardA, h100...).
					addPoint(signal.WindowCoverage, 1).addPoint(signal.XIDErrors, 0).addPoint(signal.ThrottleReasonRatio, 0, "hw_thermal"),
			}, "container",
		},
		{
			"a container without saturation signals has no saturation", []*batch{
				minutesBefore(0).onNode("node-1", "ml", "train-0", "main").device(boardA).addPoint(signal.WindowCoverage, 0.5).addPoint(signal.UtilizationAvg, 0.5),
			}, "container",
		},
		{
			"a container with two devices is one allocation", []*batch{
				minutesBefore(0).onNode("node-1", "ml", "train-0", "main").
					device(boardA, exclusive(h100)...).load(0.9, 0.5, 0.3).addPoint(signal.XIDErrors, 1).
					device(boardB, exclusive(second)...).load(0.3, 0.7, 0).addPoint(signal.XIDErrors, 2).addPoint(signal.WindowCoverage, 0.5),
			}, "container",
		},
		{
			"a container on a mig instance also has the signals of the board", []*batch{
				minutesBefore(0).onNode("node-1", "ml", "infer-0", "server").
					device(boardA, append([]string{signal.SharingStrategy, signal.SharingMIG}, h100...)...).board(0.5, 0.3).addPoint(signal.WindowCoverage, 1).
					device(boardA+"/gi3", append([]string{
						signal.HardwareParent, boardA, signal.MIGProfile, "1g.10gb", signal.MIGUUID, "MIG-1", signal.SharingStrategy, signal.SharingNone,
					}, h100...)...).addPoint(signal.WindowCoverage, 1).addPoint(signal.UtilizationAvg, 0.8).memory(0.6).addPoint(signal.XIDErrors, 1),
			}, "container",
		},
		{
			"a device shared by two containers of a pod counts once", []*batch{
				minutesBefore(0).
					onNode("node-1", "ml", "pair", "one").device(boardA, signal.SharingStrategy, signal.SharingTimeSlicing).load(0.5, 0.5, 0).addPoint(signal.XIDErrors, 3).
					onNode("node-1", "ml", "pair", "two").device(boardA, signal.SharingStrategy, signal.SharingTimeSlicing).load(0.5, 0.5, 0).addPoint(signal.XIDErrors, 3),
			}, "pod",
		},
		{
			"a namespace has the properties that its pods have in common", []*batch{
				minutesBefore(1).onNode("node-1", "ml", "train-0", "main").device(boardA, exclusive(h100)...).load(0.9, 0.5, 0.3),
				minutesBefore(0).onNode("node-2", "ml", "train-1", "main").device(boardB, exclusive(second)...).load(0.3, 0.7, 0),
				minutesBefore(0).onNode("node-2", "other", "web", "main").device(boardB, exclusive(second)...).load(0.3, 0.7, 0),
			}, "namespace",
		},
		{
			"nodes use only device series", []*batch{
				minutesBefore(0).
					onNode("node-1").device(boardA, h100...).load(0.5, 0.5, 0).addPoint(signal.GPUSharingClients, 2).
					onNode("node-1", "ml", "pair", "one").device(boardA, h100...).load(1, 1, 1),
			}, "node",
		},
		{
			"windows before the time range do not count", []*batch{
				minutesBefore(10).onNode("node-1").device(boardA, h100...).load(1, 1, 1),
				minutesBefore(9).onNode("node-1").device(boardA, h100...).load(0.5, 0.5, 0),
				minutesBefore(0).onNode("node-1").device(boardB, second...).load(0.25, 0.5, 0),
			}, "device",
		},
		{
			"a workload includes the hours and costs of its containers", []*batch{
				minutesBefore(1).ownedBy("Deployment", "train").onNode("node-1", "ml", "train-0", "main").device(boardA, h100...).load(0.5, 0.5, 0).
					addPoint(signal.K8sContainerGPUAllocatedTime, 1000, "false").addPoint(signal.K8sContainerGPUIdleTime, 100, "false").addPoint(signal.K8sContainerGPUCost, 5, "false", "USD"),
				minutesBefore(0).ownedBy("Deployment", "train").onNode("node-1", "ml", "train-0", "main").device(boardA, h100...).load(0.5, 0.5, 0).
					addPoint(signal.K8sContainerGPUAllocatedTime, 1060, "false").addPoint(signal.K8sContainerGPUIdleTime, 130, "false").addPoint(signal.K8sContainerGPUCost, 5.5, "false", "USD").
					onNode("node-2", "ml", "train-1", "main").device(boardB, second...).load(0.5, 0.5, 0).
					addPoint(signal.K8sContainerGPUAllocatedTime, 60, "false").addPoint(signal.K8sContainerGPUIdleTime, 0, "false").
					ownedBy("", "").onNode("node-2", "ml", "alone", "main").device(boardB, second...).load(0.5, 0.5, 0),
			}, "workload",
		},
		{
			"a claim includes the hours of the containers that share its device", []*batch{
				minutesBefore(1).
					onNode("node-1", "ml", "train-0", "main").device(boardA, append([]string{signal.ResourceClaimName, "shared"}, h100...)...).load(0.5, 0.5, 0).
					addPoint(signal.K8sContainerGPUAllocatedTime, 1000, "false").addPoint(signal.K8sContainerGPUIdleTime, 100, "false").
					onNode("node-1", "ml", "train-1", "main").device(boardA, append([]string{signal.ResourceClaimName, "shared"}, h100...)...).load(0.5, 0.5, 0).
					addPoint(signal.K8sContainerGPUAllocatedTime, 1000, "false").addPoint(signal.K8sContainerGPUIdleTime, 100, "false"),
				minutesBefore(0).
					onNode("node-1", "ml", "train-0", "main").device(boardA, append([]string{signal.ResourceClaimName, "shared"}, h100...)...).load(0.5, 0.5, 0).
					addPoint(signal.K8sContainerGPUAllocatedTime, 1030, "false").addPoint(signal.K8sContainerGPUIdleTime, 130, "false").
					onNode("node-1", "ml", "train-1", "main").device(boardA, append([]string{signal.ResourceClaimName, "shared"}, h100...)...).load(0.5, 0.5, 0).
					addPoint(signal.K8sContainerGPUAllocatedTime, 1030, "false").addPoint(signal.K8sContainerGPUIdleTime, 130, "false").
					onNode("node-2", "ml", "alone", "main").device(boardB, second...).load(0.5, 0.5, 0),
			}, "claim",
		},
		{"an empty store returns an empty set", nil, "container"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answer := func(layout func(pmetric.Metrics) pmetric.Metrics) []byte {
				s := store.New(store.Settings{Retention: 2 * time.Hour, MaxDevices: 10, MaxHolders: 10})
				now := noon.Add(3 * time.Second)
				for _, b := range tt.batches {
					in := s.Begin(now)
					addBatch(in, layout(b.md))
					in.End()
				}
				out, err := json.MarshalIndent(allocation.Compute(s, now, 10*time.Minute, tt.aggregate), "", "  ")
				require.NoError(t, err)
				return out
			}
			got := answer(func(md pmetric.Metrics) pmetric.Metrics { return md })
			assert.Equal(t, string(got), string(answer(pdatatest.DevicesOnResources)), "devices may be on Resources")
			path := filepath.Join("testdata", "golden", strings.ReplaceAll(tt.name, " ", "_")+".json")
			if *update {
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
				require.NoError(t, os.WriteFile(path, append(got, '\n'), 0o600))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, strings.TrimSpace(string(want)), string(got))
			assertSchema(t, got)
		})
	}
}

// assertSchema validates a response against allocation.schema.json. The function supports only the
// keywords that allocation.schema.json uses.
func assertSchema(t *testing.T, answer []byte) {
	t.Helper()
	var schema map[string]any
	var value any
	require.NoError(t, json.Unmarshal(allocationSchema, &schema))
	require.NoError(t, json.Unmarshal(answer, &value))
	assert.Empty(t, violations(schema["$defs"].(map[string]any), schema, value, "$"))
}

// The violations function returns a list of the values that violate a schema, with the path of each
// value. The supported keywords are type, const, minimum, maximum, format (date-time), required,
// properties, additionalProperties, items, and $ref (to $defs).
func violations(defs, schema map[string]any, value any, at string) []string {
	if ref, ok := schema["$ref"].(string); ok {
		return violations(defs, defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any), value, at)
	}
	var out []string
	bad := func(format string, args ...any) { out = append(out, at+": "+fmt.Sprintf(format, args...)) }
	if want, ok := schema["const"]; ok && want != value {
		bad("must be %v, is %v", want, value)
	}
	kind := map[string]bool{"object": false, "array": false, "string": false, "number": false, "boolean": false}
	switch v := value.(type) {
	case map[string]any:
		kind["object"] = true
		required, _ := schema["required"].([]any)
		for _, name := range required {
			if _, ok := v[name.(string)]; !ok {
				bad("lacks %v", name)
			}
		}
		properties, _ := schema["properties"].(map[string]any)
		for name, child := range v {
			s, ok := properties[name].(map[string]any)
			if !ok {
				s, ok = schema["additionalProperties"].(map[string]any)
			}
			if !ok {
				bad("has %s, which the schema does not know", name)
				continue
			}
			out = append(out, violations(defs, s, child, at+"."+name)...)
		}
	case []any:
		kind["array"] = true
		for i, child := range v {
			out = append(out, violations(defs, schema["items"].(map[string]any), child, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case string:
		kind["string"] = true
		if _, err := time.Parse(time.RFC3339, v); schema["format"] == "date-time" && err != nil {
			bad("is no time: %s", v)
		}
	case float64:
		kind["number"] = true
		if low, ok := schema["minimum"].(float64); ok && v < low {
			bad("%v is below %v", v, low)
		}
		if high, ok := schema["maximum"].(float64); ok && v > high {
			bad("%v is above %v", v, high)
		}
	case bool:
		kind["boolean"] = true
	}
	if want, ok := schema["type"].(string); ok && !kind[want] {
		bad("must be %s, is %v", want, value)
	}
	return out
}

func TestSchemaRejectsUnknownFields(t *testing.T) {
	var schema map[string]any
	require.NoError(t, json.Unmarshal(allocationSchema, &schema))
	for _, answer := range []string{
		`{"code": 200}`, `{"code": 400, "data": []}`, `{"code": 200, "data": {}}`, `{"code": 200, "data": [], "costs": 1}`,
		`{"code": 200, "data": [{"a": {}}]}`,
	} {
		var value any
		require.NoError(t, json.Unmarshal([]byte(answer), &value))
		assert.NotEmpty(t, violations(schema["$defs"].(map[string]any), schema, value, "$"), answer)
	}
}
