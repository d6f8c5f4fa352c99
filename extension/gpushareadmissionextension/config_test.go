package gpushareadmissionextension

import (
	"maps"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.yaml.in/yaml/v3"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
)

type section = map[string]any

func load(t *testing.T, settings section) (*Config, error) {
	t.Helper()
	cfg := createDefaultConfig().(*Config)
	require.NoError(t, confmap.NewFromStringMap(settings).Unmarshal(cfg))
	return cfg, confmap.Validate(cfg)
}

func TestOnlyTheCertificateIsRequired(t *testing.T) {
	cfg, err := load(t, section{"tls": section{"cert_file": "/tls.crt", "key_file": "/tls.key"}})
	require.NoError(t, err)
	assert.True(t, cfg.Enforce)
	assert.Equal(t, ":9443", cfg.HTTP.NetAddr.Endpoint)
	assert.Equal(t, time.Minute, cfg.HTTP.TLS.Get().ReloadInterval)
	assert.EqualValues(t, 8<<20, cfg.HTTP.MaxRequestBodySize)
}

func TestErrorsHaveTheFieldItsValueAndTheAllowedValues(t *testing.T) {
	for want, change := range map[string]section{
		"tls is not set: must have cert_file and key_file":           {"tls": "none"},
		"tls::cert_file is not set: must be the file":                {"tls": section{"key_file": "/tls.key"}},
		"tls::key_file is not set: must be the file":                 {"tls": section{"cert_file": "/tls.crt"}},
		`endpoint is "9443": must be a host`:                         {"endpoint": "9443"},
		"max_request_body_size is -1: must be above 0":               {"max_request_body_size": -1},
		`resources[0] is "gpu": must be <domain>/<name>`:             {"resources": []any{"gpu"}},
		`device_classes[0] is "": must be the name of a DeviceClass`: {"device_classes": []any{""}},
	} {
		settings := section{"tls": section{"cert_file": "/tls.crt", "key_file": "/tls.key"}}
		maps.Copy(settings, change)
		if settings["tls"] == "none" {
			delete(settings, "tls")
		}
		_, err := load(t, settings)
		require.ErrorContains(t, err, want)
	}
}

// The documentation is generated from the list of rules in metadata.yaml.
func TestTheDocumentedRulesAreTheCheckedRules(t *testing.T) {
	content, err := os.ReadFile("metadata.yaml")
	require.NoError(t, err)
	var file struct {
		Attributes struct {
			Rule struct {
				Enum []gpushare.Rule `yaml:"enum"`
			} `yaml:"rule"`
		} `yaml:"attributes"`
	}
	require.NoError(t, yaml.Unmarshal(content, &file))
	assert.Equal(t, gpushare.Rules(), file.Attributes.Rule.Enum)
}
