package strictconf_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/strictconf"
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
