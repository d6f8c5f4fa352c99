package charts

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each block of values in the recipes matches the schema, which rejects unknown settings, and
// renders valid collector configurations.
func TestTheValuesOfTheRecipesMakeValidConfigurations(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "recipes.md"))
	require.NoError(t, err)
	found := regexp.MustCompile("(?sm)^(?:## ([^\n]+)|```yaml\n# values.yaml\n(.*?)```)$").FindAllStringSubmatch(string(page), -1)
	recipe, recipes := "", map[string]bool{}
	for _, match := range found {
		if match[1] != "" {
			recipe = match[1]
			continue
		}
		recipes[recipe] = true
		t.Run(recipe, func(t *testing.T) {
			values := filepath.Join(t.TempDir(), "values.yaml")
			require.NoError(t, os.WriteFile(values, []byte(match[2]), 0o600))
			configs := configMaps(t, decode(t, render(t, values)))
			assert.Contains(t, configs, "agent")
			for component, text := range configs {
				t.Run(component, func(t *testing.T) { validate(t, text) })
			}
		})
	}
	assert.Len(t, recipes, 10)
}
