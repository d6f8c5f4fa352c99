package dcgmreceiver

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.yaml.in/yaml/v3"
)

// The configuration may be printed, for example by the collector's print-config command.
func TestAPrintedConfigurationHasNoCredentials(t *testing.T) {
	for text, shown := range map[string]string{
		"{endpoints: ['http://user:secret@localhost:9400', 'http://gpu-node-1:9400/metrics'], http: {headers: {X-Key: secret}}}": "http://[REDACTED]@localhost:9400",
		"discovery: {fallback: 'https://secret@dcgm-exporter:9400'}":                                                             "https://[REDACTED]@dcgm-exporter:9400",
	} {
		cfg, err := load(t, text)
		require.NoError(t, err)
		conf := confmap.New()
		require.NoError(t, conf.Marshal(cfg))
		printed, err := yaml.Marshal(conf.ToStringMap())
		require.NoError(t, err)
		assert.NotContains(t, string(printed), "secret")
		assert.Contains(t, string(printed), shown)
		assert.Contains(t, string(printed), "collection_interval: 15s")
	}
}

func TestOnlyCredentialsAreRedactedInAURL(t *testing.T) {
	for text, shown := range map[string]string{
		"http://host/metrics":                       "http://host/metrics",
		"http://host/metrics?m=a@b":                 "http://host/metrics?m=a@b",
		"http://host/nodes/@a":                      "http://host/nodes/@a",
		"http://host?m=a@b":                         "http://host?m=a@b",
		"http://user:secret@host":                   "http://[REDACTED]@host",
		"http://user:p@ss@host":                     "http://[REDACTED]@host",
		"http://user:secret@host:1/metrics?m=a@b":   "http://[REDACTED]@host:1/metrics?m=a@b",
		"https://user:sec?ret@host/metrics":         "https://[REDACTED]@host/metrics",
		"https://user:sec/ret@host/metrics":         "https://[REDACTED]@host/metrics",
		"https://user:sec#ret@host/metrics":         "https://[REDACTED]@host/metrics",
		"https://user:secret@host:none/metrics?a=@": "https://[REDACTED]@",
		"user:secret@host":                          "host",
	} {
		assert.Equal(t, shown, URL(text).String(), text)
	}
}
