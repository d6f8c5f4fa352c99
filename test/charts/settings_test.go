package charts

import (
	"encoding"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

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
	"github.com/otelcol-gpu/otelcol-gpu/extension/gpushareadmissionextension"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/gpuclusterreceiver"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver"
)

// settings is the JSON schema of a setting. A setting is an object with known fields, a list, a
// single value, or, if the schema is {}, anything.
type settings map[string]any

// settingsOf returns the schema of a type. The schema checks the fields of structs (including
// structs in lists), durations, booleans, and numbers. Each value may also be a reference to an
// environment variable. Maps and strings are not checked.
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
	if single := singleValue(t); single != "" {
		return settings{"$ref": "#/definitions/" + single}
	}
	if _, own := reflect.PointerTo(t).MethodByName("Unmarshal"); t.Kind() == reflect.Slice && !own {
		list := settings{"type": []any{"array", "string", "null"}, "pattern": `\$\{|^a list$`} // the pattern appears in the error message
		if items := settingsOf(t.Elem()); len(items) > 0 {
			list["items"] = items
		}
		return list
	}
	if t.Kind() != reflect.Struct {
		return settings{}
	}
	properties := map[string]any{}
	addFields(t, properties)
	if len(properties) == 0 {
		return settings{}
	}
	return settings{"type": []any{"object", "null"}, "properties": properties}
}

// singleValue returns the name of the schema definition for a duration, a boolean, or a number. For
// other types, singleValue returns "".
func singleValue(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "aDuration"
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return ""
	case t.Kind() == reflect.Bool:
		return "aSwitch"
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Float64:
		return "aNumber"
	}
	return ""
}

func addFields(t reflect.Type, properties map[string]any) {
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("mapstructure"), ",")
		switch {
		case !field.IsExported() || name == "-" || strings.Contains(options, "remain"):
		case name == "stages", name == "nvml" && t == reflect.TypeFor[dcgmreceiver.Config]():
			// The chart has separate sections for the stages and for nvml, and renders the pipeline
			// itself.
		case name == "findings" && t == reflect.TypeFor[gpueventsconnector.Config]():
			// In the chart, the rules of the gpu_findings stage have a separate section.
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

// spaced inserts spaces into JSON to match the formatting of the handwritten schema file.
var spaced = strings.NewReplacer(`":`, `": `, `,"`, `, "`)

func TestTheSchemaContainsTheSettingsOfEachComponent(t *testing.T) {
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
		"gpu_synthesizer":     gpusynthesizerprocessor.NewFactory().CreateDefaultConfig(),
		"gpu_k8s":             gpuk8sprocessor.NewFactory().CreateDefaultConfig(),
		"gpu_events":          gpueventsconnector.NewFactory().CreateDefaultConfig(),
		"gpu_findings":        &gpueventsconnector.FindingsConfig{},
		"gpu_window":          gpuwindowprocessor.NewFactory().CreateDefaultConfig(),
		"gpu_view":            gpuviewexporter.NewFactory().CreateDefaultConfig(),
		"gpu_watchdog":        gpuwatchdogexporter.NewFactory().CreateDefaultConfig(),
		"gpu_memory_resource": gpumemoryresourceextension.NewFactory().CreateDefaultConfig(),
		"gpu_share_admission": gpushareadmissionextension.NewFactory().CreateDefaultConfig(),
	} {
		want, err := json.Marshal(settingsOf(reflect.TypeOf(cfg)))
		require.NoError(t, err)
		if *update {
			line := regexp.MustCompile(`(?m)^    "` + definition + `": \{(?:"properties".*)?\}(,?)$`)
			content = line.ReplaceAllFunc(content, func(old []byte) []byte {
				return fmt.Appendf(nil, `    %q: %s%s`, definition, spaced.Replace(string(want)), line.FindSubmatch(old)[1])
			})
			require.NoError(t, os.WriteFile(filepath.Join(chartDir, "values.schema.json"), content, 0o600))
			continue
		}
		got, err := json.Marshal(schema.Definitions[definition])
		require.NoError(t, err)
		// Do not use JSONEq: if a text comparison fails, the message contains the line to paste
		// instead of a long diff.
		assert.Equal(t, string(want), string(got), "values.schema.json: definitions.%s", definition)
	}
}
