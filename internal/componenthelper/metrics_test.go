package componenthelper

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// load parses a metrics section in the same way as the Collector parses a component's
// configuration.
func load(t *testing.T, yaml string) (Metrics, error) {
	t.Helper()
	retrieved, err := confmap.NewRetrievedFromYAML([]byte(yaml))
	require.NoError(t, err)
	conf, err := retrieved.AsConf()
	require.NoError(t, err)
	var of struct {
		Metrics Metrics `mapstructure:"metrics"`
	}
	err = conf.Unmarshal(&of)
	return of.Metrics, err
}

func TestOnlyAnExplicitSettingChangesAMetric(t *testing.T) {
	for yaml, want := range map[string]struct{ usuallyOn, usuallyOff bool }{
		"{}":                                     {true, false},
		"metrics:":                               {true, false},
		"metrics: {}":                            {true, false},
		"metrics: {hw.energy: {enabled: false}}": {true, false},
		"metrics: {hw.power: }":                  {true, false},
		"metrics: {hw.power: {}}":                {true, false},
		"metrics: {hw.power: {enabled: }}":       {true, false},
		"metrics: {hw.power: {enabled: true}}":   {true, true},
		"metrics: {hw.power: {enabled: false}}":  {false, false},
	} {
		t.Run(yaml, func(t *testing.T) {
			c, err := load(t, yaml)
			require.NoError(t, err)
			assert.Equal(t, want.usuallyOn, c.Enabled("hw.power", true))
			assert.Equal(t, want.usuallyOff, c.Enabled("hw.power", false))
		})
	}
}

func TestWhatIsNoSwitchIsAnError(t *testing.T) {
	for yaml, want := range map[string]string{
		"metrics: {hw.power: {enable: false}}":  "enable",
		"metrics: {hw.power: false}":            "hw.power",
		"metrics: {hw.power: {enabled: maybe}}": "enabled",
		`metrics: {hw.power: {enabled: "no"}}`:  "enabled",
		"metrics: [hw.power]":                   "metrics",
	} {
		t.Run(yaml, func(t *testing.T) {
			_, err := load(t, yaml)
			require.ErrorContains(t, err, want)
		})
	}
}

func TestAnUnknownNameIsReportedWithTheAllowedAndTheNearestNames(t *testing.T) {
	c := Metrics{"hw.pwoer": {}, "hw.energy": {}, "HW.Energy": {}}
	var messages []string
	for _, err := range c.Check([]string{"hw.temperature", "hw.power", "hw.energy"}) {
		messages = append(messages, err.Error())
	}
	assert.Equal(t, []string{
		`metrics has the key "HW.Energy": must be one of hw.temperature, hw.power, hw.energy; the nearest is hw.energy`,
		`metrics has the key "hw.pwoer": must be one of hw.temperature, hw.power, hw.energy; the nearest is hw.power`,
	}, messages)
	assert.Empty(t, Metrics{"hw.power": {}}.Check([]string{"hw.power"}))
}

func TestDisabledAreThoseThatAreSwitchedOff(t *testing.T) {
	c := Metrics{"hw.power": {Enabled: new(false)}, "hw.energy": {Enabled: new(true)}, "hw.temperature": {}}
	all := []*signal.Metric{signal.HwEnergy, signal.HwPower, signal.HwTemperature}
	assert.Equal(t, map[*signal.Metric]bool{signal.HwPower: true}, c.Disabled(all))
	assert.Empty(t, Metrics(nil).Disabled(all))
	assert.Equal(t, []string{"hw.energy", "hw.power", "hw.temperature"}, signal.Names(all))
}
