package strictconf_test

import (
	"math"
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
	"github.com/otelcol-gpu/otelcol-gpu/internal/strictconf"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpubudgetprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpupowerprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/gpuclusterreceiver"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver"
)

type nested struct {
	Count *int32 `mapstructure:"count"`
}

type config struct {
	Breaches int               `mapstructure:"breaches"`
	Port     uint16            `mapstructure:"port"`
	Ratio    float64           `mapstructure:"ratio"`
	Interval time.Duration     `mapstructure:"interval"`
	Floor    strictconf.Bytes  `mapstructure:"floor"`
	Nested   nested            `mapstructure:"nested"`
	List     []nested          `mapstructure:"list"`
	ByName   map[string]nested `mapstructure:"by_name"`
}

func (c *config) Unmarshal(conf *confmap.Conf) error { return strictconf.Unmarshal(conf, c) }

func TestANumberThatAnIntegerCannotHoldIsRefused(t *testing.T) {
	type section = map[string]any
	const bits64 = "must be a whole number of at most 64 bits"
	for want, given := range map[string]section{
		"breaches is 3.5: " + bits64:                                                              {"breaches": 3.5},
		"breaches is 1e+30: " + bits64:                                                            {"breaches": 1e30},
		"breaches is NaN: " + bits64:                                                              {"breaches": math.NaN()},
		"breaches is 18446744073709551615: " + bits64:                                             {"breaches": uint64(math.MaxUint64)},
		"ratio is NaN: must be a number":                                                          {"ratio": math.NaN()},
		"port is 65536: must be a whole number of at most 16 bits":                                {"port": 65536},
		"interval is 0.5: must be a duration with its unit, as in 10s":                            {"interval": 0.5},
		"floor is 1e+30: must be a whole number of bytes or a quantity, as in 1536Mi":             {"floor": 1e30},
		"nested::count is 0.5: must be a whole number of at most 32 bits":                         {"nested": section{"count": 0.5}},
		"list[1]::count is 0.5: must be a whole number of at most 32 bits":                        {"list": []any{section{"count": 1}, section{"count": 0.5}}},
		"by_name::a.b::count is 4294967296: must be a whole number of at most 32 bits":            {"by_name": section{"a.b": section{"count": 1 << 32}}},
		"breaches is 1.5: " + bits64 + "\nport is 2.5: must be a whole number of at most 16 bits": {"breaches": 1.5, "port": 2.5},
	} {
		require.ErrorContains(t, confmap.NewFromStringMap(given).Unmarshal(&config{}), want)
	}
}

func TestANumberThatIsWholePassesHoweverItIsWritten(t *testing.T) {
	var cfg config
	require.NoError(t, confmap.NewFromStringMap(map[string]any{
		"breaches": 3.0, "port": 8080, "ratio": 0.5, "interval": "1.5s", "floor": "1.5Gi",
		"nested": map[string]any{"count": int64(-2)}, "list": nil,
	}).Unmarshal(&cfg))
	count := int32(-2)
	assert.Equal(t, config{
		Breaches: 3, Port: 8080, Ratio: 0.5, Interval: 1500 * time.Millisecond, Floor: 3 << 29, Nested: nested{Count: &count},
	}, cfg)
}

func TestAnUnknownKeyIsRefusedWithTheNearestOne(t *testing.T) {
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

// integers calls yield with each integer's field, below one or the whole.
func integers(value any, field string, yield func(field string)) {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			integers(inner, strings.TrimPrefix(field+confmap.KeyDelimiter+key, confmap.KeyDelimiter), yield)
		}
	case int, int32, int64, uint16, uint32, uint64, time.Duration, strictconf.Bytes:
		yield(field)
	}
}

func TestEveryComponentRefusesAFractionForEveryInteger(t *testing.T) {
	for _, factory := range []component.Factory{
		dcgmreceiver.NewFactory(), nvmlreceiver.NewFactory(), gpuclusterreceiver.NewFactory(),
		gpusynthesizerprocessor.NewFactory(), gpuk8sprocessor.NewFactory(), gpupowerprocessor.NewFactory(),
		gpubudgetprocessor.NewFactory(), gpuwindowprocessor.NewFactory(),
		gpuviewexporter.NewFactory(), gpuwatchdogexporter.NewFactory(), gpumemoryresourceextension.NewFactory(),
	} {
		t.Run(factory.Type().String(), func(t *testing.T) {
			defaults := confmap.New()
			require.NoError(t, defaults.Marshal(factory.CreateDefaultConfig()))
			found := 0
			integers(defaults.ToStringMap(), "", func(field string) {
				if strings.HasPrefix(field, "http::keepalive::") {
					return // confighttp moves it to fields of other names
				}
				found++
				err := confmap.NewFromStringMap(map[string]any{field: 2.5}).Unmarshal(factory.CreateDefaultConfig())
				assert.ErrorContains(t, err, field+" is 2.5: must be ")
			})
			assert.NotZero(t, found)
		})
	}
}

func TestAnAmountOfMemoryIsANumberOfBytesOrAQuantity(t *testing.T) {
	for text, want := range map[string]strictconf.Bytes{
		"0": 0, "1048576": 1 << 20, "14000Mi": 14000 << 20, "1.5Gi": 3 << 29, "1Pi": 1 << 50,
	} {
		var b strictconf.Bytes
		require.NoError(t, b.UnmarshalText([]byte(text)))
		assert.Equal(t, want, b)
	}
	for _, text := range []string{"", "much", "-1Gi", "1025Ti", "1e30", "1GB", "NaN"} {
		var b strictconf.Bytes
		require.EqualError(t, b.UnmarshalText([]byte(text)),
			`"`+text+`" is no amount of memory: must be a number of bytes or a quantity such as 14000Mi, 0 to 1Pi`)
	}
}

func TestAnAmountOfMemoryIsPlausibleFromOneMebibyteToOnePebibyte(t *testing.T) {
	for amount, want := range map[strictconf.Bytes]bool{
		math.MinInt64: false, -1: false, 0: false, 1536: false, 1<<20 - 1: false,
		1 << 20: true, 80 << 30: true, 1 << 50: true, 1<<50 + 1: false, math.MaxInt64: false,
	} {
		assert.Equal(t, want, amount.Plausible(), amount)
	}
}
