package gpumemoryresourceextension

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
)

func TestTheNodeNameIsEmptyOrValid(t *testing.T) {
	for _, name := range []string{"", "n1", "gpu-7.example.com"} {
		require.NoError(t, confmap.Validate(newConfig(func(c *Config) { c.NodeName = name })))
	}
	require.ErrorContains(t, confmap.Validate(newConfig(func(c *Config) { c.NodeName = "a b" })),
		`node_name is "a b": must be empty or a DNS subdomain name: `)
}

func TestAnEmptySectionSharedEnablesIt(t *testing.T) {
	for _, settings := range []map[string]any{{"shared": map[string]any{}}, {"shared": nil}} {
		cfg := createDefaultConfig().(*Config)
		require.NoError(t, confmap.NewFromStringMap(settings).Unmarshal(cfg))
		require.NoError(t, confmap.Validate(cfg))
		assert.Equal(t, 100, cfg.Shared.Get().PerGPU)
	}
	assert.Nil(t, createDefaultConfig().(*Config).Shared.Get())
}
