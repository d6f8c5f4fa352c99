package charts

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The documented function returns helm arguments that set the values found in the documentation and
// in the golden directories. The arguments are keyed by the values' location. Documentation pages
// contain values in YAML blocks, in helm commands, and as settings in the text.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	block := regexp.MustCompile("(?sm)^(?:#+ ([^\n]+)|```yaml\n(.*?)```)$")
	chartKey := regexp.MustCompile(`(?m)\A(?:#.*\n)*(\w+):`)
	command := regexp.MustCompile(`(?:helm (?:install|upgrade --install) otelcol-gpu charts/otelcol-gpu(?:\\\n|[^\n])*|` + "`--set [^`]+`)")
	setting := regexp.MustCompile("--set ([^\\s`]+)")
	defaults := parsed(t, string(readFile(t, filepath.Join(chartDir, "values.yaml"))))
	for page, isValues := range map[string]func(text string) bool{
		"docs/recipes.md": func(text string) bool { return strings.HasPrefix(text, "# values.yaml\n") },
		"charts/otelcol-gpu/README.md": func(text string) bool {
			key := chartKey.FindStringSubmatch(text)
			return len(key) > 1 && defaults[key[1]] != nil
		},
		"README.md": nil, "docs/install.md": nil, "docs/getting-started.md": nil,
	} {
		content := string(readFile(t, filepath.Join(root, page)))
		section := ""
		for i, match := range block.FindAllStringSubmatch(content, -1) {
			switch {
			case match[1] != "":
				section = match[1]
			case isValues != nil && isValues(match[2]):
				file := filepath.Join(t.TempDir(), "values.yaml")
				require.NoError(t, os.WriteFile(file, []byte(match[2]), 0o600))
				found[fmt.Sprint(page, " ", section, " ", i)] = []string{"--values", file}
			}
		}
		for i, text := range command.FindAllString(content, -1) {
			var args []string
			for _, match := range setting.FindAllStringSubmatch(text, -1) {
				args = append(args, "--set", match[1])
			}
			found[fmt.Sprint(page, " command ", i)] = args
		}
	}
	for _, dir := range variants(t) {
		found[dir] = []string{"--values", filepath.Join(dir, "values.yaml")}
	}
	return found
}

func readFile(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	return content
}

// renderDocumented renders the chart with arguments from the documented function.
func renderDocumented(t *testing.T, args []string) string {
	t.Helper()
	output, err := helm(t, append(renderArgs("", nil), args...)...)
	require.NoError(t, err, "%s", output)
	return output
}

// All values in the documentation must match the schema, which rejects unknown settings, and must
// result in valid collector configurations.
func TestTheValuesOfTheDocumentationMakeValidConfigurations(t *testing.T) {
	all := documented(t)
	pages := map[string]int{}
	for _, where := range slices.Sorted(maps.Keys(all)) {
		page, _, _ := strings.Cut(where, " ")
		pages[page]++
		t.Run(where, func(t *testing.T) {
			rendered := decode(t, renderDocumented(t, all[where]))
			configs := configMaps(t, rendered)
			assert.Contains(t, configs, "agent")
			for component, text := range configs {
				t.Run(component, func(t *testing.T) { validateWith(t, program(t, rendered, component), text) })
			}
		})
	}
	assert.GreaterOrEqual(t, pages["docs/recipes.md"], 10)
	assert.GreaterOrEqual(t, pages["charts/otelcol-gpu/README.md"], 6)
	for _, page := range []string{"README.md", "docs/install.md", "docs/getting-started.md"} {
		assert.Positive(t, pages[page], page)
	}
}
