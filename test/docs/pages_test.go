package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// The section "The life of a sample" in docs/development.md contains a table. Each function in a
// row of the table must be defined in one of the files in the same row.
func TestTheLifeOfASampleNamesFunctionsThatExist(t *testing.T) {
	_, section, ok := strings.Cut(find(t, documents(t), "docs/development.md").text, "\n## The life of a sample\n")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n## ")
	called := regexp.MustCompile("`(\\w+)\\(\\)`")
	found := 0
	for line := range strings.Lines(section) {
		var source strings.Builder
		for _, m := range link.FindAllStringSubmatch(line, -1) {
			if content, err := os.ReadFile(filepath.Join(root, "docs", m[1])); assert.NoError(t, err) {
				source.Write(content)
			}
		}
		for _, m := range called.FindAllStringSubmatch(line, -1) {
			found++
			assert.Regexp(t, `(?m)^func (\([^)]*\) )?`+m[1]+`\(`, source.String(), "%s", line)
		}
	}
	assert.Greater(t, found, 10)
}

// troubleshooting.md must link to every generated page about self-metrics.
func TestTroubleshootingLeadsToTheSelfMetricsOfEveryComponent(t *testing.T) {
	docs := documents(t)
	text := find(t, docs, "docs/troubleshooting.md").text
	pages := 0
	for _, d := range docs {
		if generated(d) {
			pages++
			assert.Contains(t, text, "(../"+d.path+")")
		}
	}
	assert.Greater(t, pages, 10)
}

func TestEveryFieldOfOpenCostHasItsMetric(t *testing.T) {
	lines := strings.Split(find(t, documents(t), "docs/migrating.md").text, "\n")
	for _, m := range signal.All() {
		if m.OpenCost == "" {
			continue
		}
		for field := range strings.SplitSeq(m.OpenCost, ", ") {
			// Some OpenCost metrics have the same name that a metric of this project has in
			// Prometheus.
			same := field == strings.ReplaceAll(m.Name, ".", "_")
			assert.True(t, slices.ContainsFunc(lines, func(line string) bool {
				return strings.Contains(line, "`"+field+"`") && (same || strings.Contains(line, "`"+m.Name+"`"))
			}), "%s is %s", field, m.Name)
		}
	}
}

// The alerts page must contain a section for each alert. The section explains when the alert fires
// and what to check, in order. Every section must belong to an alert.
func TestEveryAlertHasARunbook(t *testing.T) {
	const url = "https://github.com/otelcol-gpu/otelcol-gpu/blob/main/docs/alerts.md#"
	steps := map[string]int{}
	section := ""
	for line := range strings.Lines(find(t, documents(t), "docs/alerts.md").text) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = anchor(strings.TrimSpace(title))
			steps[section] = 0
		} else if strings.HasPrefix(line, strconv.Itoa(steps[section]+1)+". ") {
			steps[section]++
		}
	}
	alerted := map[string]bool{}
	require.NoError(t, filepath.WalkDir(filepath.Join(root, "examples"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(content), "- alert:") {
			return err
		}
		var file struct {
			Groups []struct {
				Rules []struct {
					Alert       string
					Annotations map[string]string
				}
			}
		}
		require.NoError(t, yaml.Unmarshal(content, &file), path)
		for _, group := range file.Groups {
			for _, r := range group.Rules {
				if r.Alert == "" {
					continue
				}
				assert.Equal(t, url+anchor(r.Alert), r.Annotations["runbook_url"], r.Alert)
				assert.GreaterOrEqual(t, steps[anchor(r.Alert)], 2, "%s: what is checked in which order?", r.Alert)
				alerted[anchor(r.Alert)] = true
			}
		}
		return nil
	}))
	for section := range steps {
		assert.True(t, section == "" || alerted[section], "no alert is called %s", section)
	}
}

// Every test that is mentioned on a page must exist. A test mentioned in docs/differences.md can be
// a function or a test data file or directory.
func TestEveryTestThatAPageNamesExists(t *testing.T) {
	tests := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case strings.Contains(filepath.ToSlash(path), "/testdata/"):
			tests[strings.TrimSuffix(d.Name(), ".test")] = true
		case strings.HasSuffix(path, "_test.go"):
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range function.FindAllStringSubmatch(string(content), -1) {
				tests[m[1]] = true
			}
		}
		return nil
	}))
	docs := documents(t)
	named := regexp.MustCompile(`^(?:Test|Fuzz|Benchmark)[A-Z]\w+$`)
	for _, d := range docs {
		for _, m := range span.FindAllStringSubmatch(d.text, -1) {
			assert.True(t, tests[m[1]] || !named.MatchString(m[1]), "%s: no test is called %s", d.path, m[1])
		}
	}
	rows := regexp.MustCompile(`(?m)^\| ([A-Z])(\d+) \|.*\|(.*)\|$`).FindAllStringSubmatch(find(t, docs, "docs/differences.md").text, -1)
	require.NotEmpty(t, rows)
	last := map[string]int{}
	for _, row := range rows {
		last[row[1]]++
		assert.Equal(t, strconv.Itoa(last[row[1]]), row[2], "the rows of a table are numbered in their order")
		shown := span.FindAllStringSubmatch(row[3], -1)
		assert.NotEmpty(t, shown, "row %s%s", row[1], row[2])
		for _, m := range shown {
			assert.True(t, tests[m[1]], "row %s%s: no test is called %s", row[1], row[2], m[1])
		}
	}
}

func TestEveryFindingHasAnAlert(t *testing.T) {
	alerts, err := os.ReadFile(filepath.Join(root, "examples", "prometheus", "alerts.yaml"))
	require.NoError(t, err)
	for _, rule := range signal.Values(signal.Finding) {
		assert.Contains(t, string(alerts), `expr: device:gpu_finding:holder{gpu_finding="`+rule+`"} == 1`)
	}
}
