package charts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/prometheusexporter"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/exporter/otlpexporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"

	"github.com/otelcol-gpu/otelcol-gpu/connector/gpueventsconnector"
	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter"
	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter"
	"github.com/otelcol-gpu/otelcol-gpu/extension/gpumemoryresourceextension"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpubudgetprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpupowerprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuusageprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/gpuclusterreceiver"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver"
)

// settings are the schema of a struct's settings: an object that knows its fields, or anything.
type settings map[string]any

// settingsOf returns the settings of a type. Only fields of structs are known: lists, maps and
// single values may be anything.
func settingsOf(t reflect.Type) settings {
	for {
		if get, ok := reflect.PointerTo(t).MethodByName("Get"); ok && strings.HasPrefix(t.Name(), "Optional[") {
			t = get.Type.Out(0)
		}
		if t.Kind() != reflect.Pointer {
			break
		}
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return settings{}
	}
	properties := map[string]any{}
	addFields(t, properties)
	if len(properties) == 0 {
		return settings{}
	}
	return settings{"type": []any{"object", "null"}, "additionalProperties": false, "properties": properties}
}

func addFields(t reflect.Type, properties map[string]any) {
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("mapstructure"), ",")
		switch {
		case !field.IsExported() || name == "-" || strings.Contains(options, "remain"):
		case strings.Contains(options, "squash"):
			addFields(field.Type, properties)
		default:
			if name == "" {
				name = strings.ToLower(field.Name)
			}
			properties[name] = settingsOf(field.Type)
		}
	}
}

func TestTheSchemaKnowsTheSettingsOfEachComponent(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(chartDir, "values.schema.json"))
	require.NoError(t, err)
	var schema struct {
		Definitions map[string]any `json:"definitions"`
	}
	require.NoError(t, json.Unmarshal(content, &schema))

	for definition, cfg := range map[string]component.Config{
		"otlp_http":           otlphttpexporter.NewFactory().CreateDefaultConfig(),
		"otlp_grpc":           otlpexporter.NewFactory().CreateDefaultConfig(),
		"prometheus":          prometheusexporter.NewFactory().CreateDefaultConfig(),
		"dcgm":                dcgmreceiver.NewFactory().CreateDefaultConfig(),
		"nvml":                nvmlreceiver.NewFactory().CreateDefaultConfig(),
		"gpu_cluster":         gpuclusterreceiver.NewFactory().CreateDefaultConfig(),
		"gpu_k8s":             gpuk8sprocessor.NewFactory().CreateDefaultConfig(),
		"gpu_power":           gpupowerprocessor.NewFactory().CreateDefaultConfig(),
		"gpu_budget":          gpubudgetprocessor.NewFactory().CreateDefaultConfig(),
		"gpu_usage":           gpuusageprocessor.NewFactory().CreateDefaultConfig(),
		"gpu_events":          gpueventsconnector.NewFactory().CreateDefaultConfig(),
		"gpu_window":          gpuwindowprocessor.NewFactory().CreateDefaultConfig(),
		"gpu_view":            gpuviewexporter.NewFactory().CreateDefaultConfig(),
		"gpu_watchdog":        gpuwatchdogexporter.NewFactory().CreateDefaultConfig(),
		"gpu_memory_resource": gpumemoryresourceextension.NewFactory().CreateDefaultConfig(),
	} {
		want, err := json.Marshal(settingsOf(reflect.TypeOf(cfg)))
		require.NoError(t, err)
		got, err := json.Marshal(schema.Definitions[definition])
		require.NoError(t, err)
		// Not JSONEq: a difference of a hundred lines says less than the line to put there.
		assert.Equal(t, string(want), string(got), "values.schema.json: definitions.%s", definition)
	}
}
