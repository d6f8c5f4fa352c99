package chain

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter"
	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter"
	"github.com/otelcol-gpu/otelcol-gpu/extension/gpumemoryresourceextension"
	"github.com/otelcol-gpu/otelcol-gpu/extension/gpushareadmissionextension"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/gpuclusterreceiver"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver"
)

func TestAnUnknownKeyIsRejectedWithASuggestion(t *testing.T) {
	type section = map[string]any
	page, receiver := gpuviewexporter.NewFactory(), dcgmreceiver.NewFactory()
	for _, tt := range []struct {
		factory component.Factory
		given   section
		want    string
	}{
		{page, section{"auht": section{"authenticator": "basicauth"}}, `unknown key "auht": did you mean "auth"?`},
		{page, section{"Auth": section{"authenticator": "basicauth"}}, `unknown key "Auth": did you mean "auth"?`},
		{page, section{"retentoin": "1h", "transprot": "tcp"}, "unknown key \"retentoin\": did you mean \"retention\"?\nunknown key \"transprot\": did you mean \"transport\"?"},
		{page, section{"zone": "a"}, `unknown key "zone": must be one of auth, `},
		{receiver, section{"http": section{"tls": section{"insecure_skip_verfy": true}}}, `unknown key "http::tls::insecure_skip_verfy": did you mean "http::tls::insecure_skip_verify"?`},
		{receiver, section{"http": section{"haeders": section{"a": "b"}}}, `unknown key "http::haeders": did you mean "http::headers"?`},
		{receiver, section{"endpoint": "http://localhost:9400"}, `unknown key "endpoint": did you mean "endpoints"?`},
		{receiver, section{"discovery": section{"selector": "a=b"}}, `unknown key "discovery::selector": did you mean "discovery::selectors"?`},
		{receiver, section{"scrape_period": "1s"}, `unknown key "scrape_period": must be one of collection_interval, discovery, endpoints, `},
	} {
		require.ErrorContains(t, confmap.NewFromStringMap(tt.given).Unmarshal(tt.factory.CreateDefaultConfig()), tt.want)
	}
	for _, tt := range []struct {
		factory component.Factory
		given   section
	}{
		{page, section{
			"transport": "tcp", "auth": section{"authenticator": "basicauth", "request_params": []any{"a"}}, "cors": section{"allowed_origins": []any{"https://a"}},
			"tls": section{"key_file": "/key.pem", "reload_interval": "1h"}, "response_headers": section{"X-A": "b"}, "keepalive": nil,
		}},
		{receiver, section{"http": section{
			"headers": section{"a": "b"}, "tls": section{"insecure": true}, "auth": section{"authenticator": "bearer"},
			"max_idle_conns": 3, "cookies": section{}, "middlewares": []any{section{"id": "a"}},
		}}},
	} {
		require.NoError(t, confmap.NewFromStringMap(tt.given).Unmarshal(tt.factory.CreateDefaultConfig()))
	}
}

// integers calls the yield function with the name of each integer field in value. The field
// parameter is the name of value itself.
func integers(value any, field string, yield func(field string)) {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			integers(inner, strings.TrimPrefix(field+confmap.KeyDelimiter+key, confmap.KeyDelimiter), yield)
		}
	case int, int32, int64, uint16, uint32, uint64, time.Duration, kube.Bytes:
		yield(field)
	}
}

func TestEveryComponentRefusesAFractionForEveryInteger(t *testing.T) {
	for _, factory := range []component.Factory{
		dcgmreceiver.NewFactory(), nvmlreceiver.NewFactory(), gpuclusterreceiver.NewFactory(),
		gpusynthesizerprocessor.NewFactory(), gpuk8sprocessor.NewFactory(),
		gpuwindowprocessor.NewFactory(),
		gpuviewexporter.NewFactory(), gpuwatchdogexporter.NewFactory(), gpumemoryresourceextension.NewFactory(),
		gpushareadmissionextension.NewFactory(),
	} {
		t.Run(factory.Type().String(), func(t *testing.T) {
			defaults := confmap.New()
			require.NoError(t, defaults.Marshal(factory.CreateDefaultConfig()))
			found := 0
			integers(defaults.ToStringMap(), "", func(field string) {
				if strings.HasPrefix(field, "http::keepalive::") {
					return // confighttp moves this setting to fields with other names
				}
				found++
				err := confmap.NewFromStringMap(map[string]any{field: 2.5}).Unmarshal(factory.CreateDefaultConfig())
				assert.ErrorContains(t, err, field+" is 2.5: must be ")
			})
			assert.NotZero(t, found)
		})
	}
}
