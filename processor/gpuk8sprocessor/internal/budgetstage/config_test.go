package budgetstage

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
)

func TestTheDefaultConfigurationIsValid(t *testing.T) {
	require.NoError(t, confmap.Validate(createDefaultConfig()))
}

func TestAnInvalidSettingIsAnErrorWithFieldValueAndAllowedValues(t *testing.T) {
	for _, tt := range []struct {
		name string
		with func(*Config)
		want string
	}{
		{
			"a resource without a domain", func(c *Config) { c.Sources.ExtendedResources = []ExtendedResourceConfig{{Name: "gpumem", Unit: "MiB"}} },
			`sources::extended_resources[0]::name is "gpumem": must be <domain>/<name>`,
		},
		{
			"a resource without a unit", func(c *Config) { c.Sources.ExtendedResources = []ExtendedResourceConfig{{Name: "a.b/c"}} },
			`sources::extended_resources[0]::unit is "": must be MiB or bytes`,
		},
		{
			"a duplicate resource", func(c *Config) {
				r := ExtendedResourceConfig{Name: "a.b/c", Unit: "MiB"}
				c.Sources.ExtendedResources = []ExtendedResourceConfig{r, r}
			},
			`sources::extended_resources[1]::name is "a.b/c": must be listed once`,
		},
		{
			"a resource with a blank", func(c *Config) {
				c.Sources.ExtendedResources = []ExtendedResourceConfig{{Name: "a.b/c d", Unit: "MiB"}}
			},
			`sources::extended_resources[0]::name is "a.b/c d": must be <domain>/<name>`,
		},
		{
			"a resource that counts GPUs", func(c *Config) {
				c.Sources.ExtendedResources = []ExtendedResourceConfig{{Name: "nvidia.com/gpu", Unit: "MiB"}}
			},
			`sources::extended_resources[0]::name is "nvidia.com/gpu": must be one that counts memory and that no other source reads`,
		},
		{
			"an annotation without gpu in its key", func(c *Config) { c.Sources.Annotation.Key = "example.com/x" },
			`sources::annotation::key is "example.com/x": must have gpu in it and not be one of KAI's gpu-memory, gpu-fraction, gpu-fraction-container-name, gpu-fraction-num-devices`,
		},
		{"an annotation of KAI", func(c *Config) { c.Sources.Annotation.Key = "gpu-memory" }, `sources::annotation::key is "gpu-memory": must `},
		{
			"an invalid annotation key", func(c *Config) { c.Sources.Annotation.Key = "a.b/gpu memory" },
			`sources::annotation::key is "a.b/gpu memory": must be a qualified annotation key, as in example.com/gpu-memory: `,
		},
		{"a blank annotation key", func(c *Config) { c.Sources.Annotation.Key = " " }, `sources::annotation::key is " ": must be a qualified annotation key`},
		{"a negative limit", func(c *Config) { c.Sources.MPS.Limit = -1 }, "sources::mps::limit is -1: must be 0 or a number of bytes"},
		{"too many replicas", func(c *Config) { c.Sources.MPS.Replicas = 1001 }, "sources::mps::replicas is 1001: must be between 0 and 1000"},
		{"both MPS settings", func(c *Config) { c.Sources.MPS.Limit, c.Sources.MPS.Replicas = 1, 2 }, "sources::mps::limit is 1 and sources::mps::replicas is 2: must be one of them"},
		{"no maximum age", func(c *Config) { c.MaxAge = 0 }, "max_age is 0s: must be between 1s and 1h0m0s"},
		{"a negative tolerance", func(c *Config) { c.Tolerance.Process = -1 }, "tolerance::process is -1: must be between 0 and 17179869184 bytes"},
		{"a tolerance of 100%", func(c *Config) { c.Tolerance.Ratio = 1 }, "tolerance::ratio is 1: must be between 0 and 0.5"},
		{"no series", func(c *Config) { c.MaxSeries = 0 }, "max_series is 0: must be between 1 and 10000000"},
		{"an unknown auth_type", func(c *Config) { c.Kubernetes.AuthType = "tls" }, `auth_type is "tls"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := createDefaultConfig().(*Config)
			tt.with(cfg)
			require.ErrorContains(t, confmap.Validate(cfg), tt.want)
		})
	}
}

func TestAnUnknownSettingIsAnError(t *testing.T) {
	for key, conf := range map[string]map[string]any{
		"sources::extended_resource": {"sources": map[string]any{"extended_resource": "x"}},
		// Settings of earlier versions.
		"presets":            {"presets": []any{"hami"}},
		"series":             {"series": []any{}},
		"drift":              {"drift": map[string]any{"quantile": 0.9}},
		"sources::whole_gpu": {"sources": map[string]any{"whole_gpu": map[string]any{"enabled": false}}},
	} {
		require.ErrorContains(t, confmap.NewFromStringMap(conf).Unmarshal(createDefaultConfig()), `unknown key "`+key+`"`)
	}
}
