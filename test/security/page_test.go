package security

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// text returns the content of a file in the repository.
func text(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, file))
	require.NoError(t, err)
	return string(content)
}

// table returns the rows of the table in a page's section, without the table's header.
func table(t *testing.T, page, heading string) [][]string {
	t.Helper()
	_, section, found := strings.Cut(text(t, page), "\n## "+heading+"\n")
	require.True(t, found, heading)
	section, _, _ = strings.Cut(section, "\n## ")
	var rows [][]string
	for line := range strings.Lines(section) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "| ") {
			var cells []string
			for cell := range strings.SplitSeq(strings.Trim(line, "|"), " | ") {
				cells = append(cells, strings.TrimSpace(cell))
			}
			rows = append(rows, cells)
		}
	}
	require.Greater(t, len(rows), 1)
	return rows[1:]
}

// code is a pattern that matches text in backticks.
var code = regexp.MustCompile("`([^`]+)`")

func quoted(cell string) []string {
	var found []string
	for _, match := range code.FindAllStringSubmatch(cell, -1) {
		found = append(found, match[1])
	}
	return found
}

// rule is a pattern that matches RBAC rules in YAML, in flow or block style, and in the chart's
// templates.
var rule = regexp.MustCompile(`apiGroups: \[(.*?)\][,\s]+resources: \[(.*?)\][,\s]+(?:resourceNames: \[(.*?)\][,\s]+)?verbs: \[(.*?)\]`)

func TestThePermissionsAreThoseOfTheManifests(t *testing.T) {
	accounts := map[string]string{
		"examples/kubernetes/10-agent-rbac.yaml":                 "agent",
		"examples/kubernetes/options/claims-rbac.yaml":           "agent",
		"examples/operator/rbac.yaml":                            "agent",
		"examples/helm/opentelemetry-collector.yaml":             "agent",
		"charts/otelcol-gpu/templates/agent-rbac.yaml":           "agent",
		"charts/otelcol-gpu/templates/openshift.yaml":            "agent",
		"examples/kubernetes/20-cluster-rbac.yaml":               "cluster",
		"charts/otelcol-gpu/templates/cluster-rbac.yaml":         "cluster",
		"charts/otelcol-gpu/templates/watchdog-rbac.yaml":        "watchdog",
		"charts/otelcol-gpu/templates/memory-resource-rbac.yaml": "memory resource",
		"exporter/gpuwatchdogexporter/README.md":                 "watchdog",
		"exporter/gpuwatchdogexporter/test/testdata/rbac.yaml":   "watchdog",
		"extension/gpumemoryresourceextension/README.md":         "memory resource",
		"test/cluster/testdata/memory_resource_rbac.yaml":        "memory resource",
		"receiver/dcgmreceiver/README.md":                        "agent",
	}
	granted := map[string]bool{}
	var files []string
	for _, dir := range []string{"charts", "examples", "exporter", "extension", "processor", "receiver"} {
		files = append(files, filesBelow(t, dir)...)
	}
	for _, file := range files {
		content := text(t, file)
		// Webhook rules also contain apiGroups, but they contain no verbs.
		if ext := filepath.Ext(file); ext != ".yaml" && ext != ".md" && ext != ".tpl" || !strings.Contains(content, "apiGroups: [") ||
			!strings.Contains(content, "verbs:") {
			continue
		}
		rules := rule.FindAllStringSubmatch(content, -1)
		require.Len(t, rules, strings.Count(content, "verbs:"), "%s has a rule that the regular expression does not match", file)
		account := accounts[file]
		require.NotEmpty(t, account, "%s grants permissions: add its account to the table above", file)
		for _, match := range rules {
			group := strings.Trim(match[1], `"`)
			for _, resource := range list(match[2]) {
				if group != "" {
					resource += "." + group
				}
				for _, verb := range list(match[4]) {
					granted[permission(account, resource, match[3] != "", verb)] = true
				}
			}
		}
	}
	justified := map[string]bool{}
	for _, row := range table(t, "docs/security.md", "Permissions") {
		require.Len(t, row, 4)
		assert.NotEmpty(t, row[3], "a reason")
		for _, verb := range quoted(row[2]) {
			justified[permission(row[0], quoted(row[1])[0], strings.HasSuffix(row[1], ", named"), verb)] = true
		}
	}
	assert.Equal(t, justified, granted)
	for p := range granted {
		assert.NotContains(t, p, "*")
		assert.NotContains(t, p, "secrets")
	}
}

func permission(account, resource string, named bool, verb string) string {
	if named {
		resource += " named"
	}
	return account + ": " + verb + " " + resource
}

func list(text string) []string {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		items = append(items, strings.Trim(strings.TrimSpace(item), `"`))
	}
	return items
}

// filesBelow returns the paths of all files below a directory in the repository.
func filesBelow(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	require.NoError(t, filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			relative, _ := filepath.Rel(root, path)
			files = append(files, filepath.ToSlash(relative))
		}
		return err
	}))
	return files
}

func TestTheFuzzTargetsAreThese(t *testing.T) {
	var listed, found []string
	for _, row := range table(t, "test/security/README.md", "Fuzz targets") {
		names := quoted(row[len(row)-1])
		for _, name := range names[1:] {
			listed = append(listed, names[0]+" "+name)
		}
	}
	target := regexp.MustCompile(`(?m)^func (Fuzz\w*)\(f \*testing\.F\)`)
	for _, dir := range []string{"cmd", "exporter", "extension", "internal", "processor", "receiver"} {
		for _, file := range filesBelow(t, dir) {
			if strings.HasSuffix(file, "_test.go") {
				for _, match := range target.FindAllStringSubmatch(text(t, file), -1) {
					found = append(found, filepath.ToSlash(filepath.Dir(file))+" "+match[1])
				}
			}
		}
	}
	slices.Sort(listed)
	slices.Sort(found)
	assert.Equal(t, listed, found)
}
