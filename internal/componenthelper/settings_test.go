package componenthelper

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configopaque"
	"go.opentelemetry.io/collector/confmap"
)

type nested struct {
	Count *int32 `mapstructure:"count"`
}

// kilometers is a number type with its own notation.
type kilometers int64

func (k *kilometers) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(strings.TrimSuffix(string(text), "km"), 10, 64)
	*k = kilometers(n)
	return err
}

func (kilometers) Notation() string { return "a number of kilometers, as in 3km" }

type url string

type config struct {
	Breaches int           `mapstructure:"breaches"`
	Port     uint16        `mapstructure:"port"`
	Ratio    float64       `mapstructure:"ratio"`
	Interval time.Duration `mapstructure:"interval"`
	Enabled  bool          `mapstructure:"enabled"`
	Name     string        `mapstructure:"name"`
	Names    []string      `mapstructure:"names"`
	URLs     []url         `mapstructure:"urls"`

	Password configopaque.String  `mapstructure:"password"`
	Headers  configopaque.MapList `mapstructure:"headers"`
	Range    kilometers           `mapstructure:"range"`
	Nested   nested               `mapstructure:"nested"`
	List     []nested             `mapstructure:"list"`
	ByName   map[string]nested    `mapstructure:"by_name"`
	Storage  *component.ID        `mapstructure:"storage"`
}

func (c *config) Unmarshal(conf *confmap.Conf) error { return Unmarshal(conf, c) }

func (*config) Validate() error { return nil }

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
		"range is 1e+30: must be a number of kilometers, as in 3km":                               {"range": 1e30},
		"nested::count is 0.5: must be a whole number of at most 32 bits":                         {"nested": section{"count": 0.5}},
		"list[1]::count is 0.5: must be a whole number of at most 32 bits":                        {"list": []any{section{"count": 1}, section{"count": 0.5}}},
		"by_name::a.b::count is 4294967296: must be a whole number of at most 32 bits":            {"by_name": section{"a.b": section{"count": 1 << 32}}},
		"breaches is 1.5: " + bits64 + "\nport is 2.5: must be a whole number of at most 16 bits": {"breaches": 1.5, "port": 2.5},
	} {
		require.ErrorContains(t, confmap.NewFromStringMap(given).Unmarshal(&config{}), want)
	}
}

func TestAValueOfAnotherTypeIsRefusedWithWhatIsAllowed(t *testing.T) {
	type section = map[string]any
	for want, given := range map[string]section{
		`breaches is "many": must be a whole number of at most 64 bits`:           {"breaches": "many"},
		`ratio is "half": must be a number`:                                       {"ratio": "half"},
		`ratio is true: must be a number`:                                         {"ratio": true},
		`interval is "15": must be a duration with its unit, as in 10s`:           {"interval": "15"},
		`interval is a list: must be a duration with its unit, as in 10s`:         {"interval": []any{"15s"}},
		`enabled is "yes": must be true or false, without quotes`:                 {"enabled": "yes"},
		`enabled is 1: must be true or false, without quotes`:                     {"enabled": 1},
		`name is 5: must be a string in quotes`:                                   {"name": 5},
		`name is a map: must be a string in quotes`:                               {"name": section{"a": 1}},
		`names is 5: must be a list`:                                              {"names": 5},
		`urls is "http://a": must be a list`:                                      {"urls": "http://a"},
		`nested is "much": must be a map with keys of count`:                      {"nested": "much"},
		`nested is a list: must be a map with keys of count`:                      {"nested": []any{1}},
		`list is "much": must be a list`:                                          {"list": "much"},
		`list[1]::count is "b": must be a whole number of at most 32 bits`:        {"list": []any{section{"count": 1}, section{"count": "b"}}},
		`by_name is true: must be a map`:                                          {"by_name": true},
		`storage is 5: must be the ID of a component, as in file_storage/main`:    {"storage": 5},
		`storage is a list: must be the ID of a component`:                        {"storage": []any{"a"}},
		`storage is a map: must be the ID of a component`:                         {"storage": section{"a": "b"}},
		`storage is a map: must be the ID of a component, as in`:                  {"storage": section{}},
		`by_name::a::count is "b": must be a whole number of at most 32 bits`:     {"by_name": section{"a": section{"count": "b"}}},
		`range is "far": strconv.ParseInt: parsing "far": invalid syntax`:         {"range": "far"},
		"enabled is 2: must be true or false, without quotes\nname is 5: must be": {"enabled": 2, "name": 5},
	} {
		err := confmap.NewFromStringMap(given).Unmarshal(&config{})
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "expected type")
	}
}

func TestAnErrorAboutATypeHasNoSecret(t *testing.T) {
	type section = map[string]any
	for want, given := range map[string]section{
		"password is of another type: must be a string in quotes":   {"password": 424242},
		"headers::a is of another type: must be a string in quotes": {"headers": section{"a": 424242}},
		"nested is a text: must be a map with keys of count":        {"nested": "http://user:424242@host"},
		"breaches is true: must be a whole number":                  {"breaches": true, "headers": section{"a": "424242"}, "password": "424242"},
		"password is a map: must be a string in quotes":             {"password": section{"424242": 1}},
	} {
		err := confmap.NewFromStringMap(given).Unmarshal(&config{})
		require.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "424242")
	}
}

func TestValuesThatDecodingConvertsAreAccepted(t *testing.T) {
	var cfg config
	require.NoError(t, confmap.NewFromStringMap(map[string]any{"names": "a,b", "name": "5", "enabled": true}).Unmarshal(&cfg))
	assert.Equal(t, []string{"a", "b"}, cfg.Names)
}

func TestAWholeNumberIsAcceptedInAnyNotation(t *testing.T) {
	var cfg config
	require.NoError(t, confmap.NewFromStringMap(map[string]any{
		"breaches": 3.0, "port": 8080, "ratio": 0.5, "interval": "1.5s", "range": "15km",
		"nested": map[string]any{"count": int64(-2)}, "list": nil,
	}).Unmarshal(&cfg))
	count := int32(-2)
	assert.Equal(t, config{
		Breaches: 3, Port: 8080, Ratio: 0.5, Interval: 1500 * time.Millisecond, Range: 15, Nested: nested{Count: &count},
	}, cfg)
}
