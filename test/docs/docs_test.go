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

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// root is the repository's root, relative to this package.
const root = "../.."

// upstream lists the Collector's own self-metrics that the documentation mentions.
var upstream = []string{
	"otelcol_exporter_enqueue_failed_log_records", "otelcol_exporter_enqueue_failed_metric_points",
	"otelcol_exporter_queue_capacity", "otelcol_exporter_queue_size", "otelcol_exporter_send_failed_log_records",
	"otelcol_exporter_send_failed_metric_points", "otelcol_process_cpu_seconds", "otelcol_process_memory_rss",
	"otelcol_processor_memory_limiter_refused_metric_points", "otelcol_receiver_refused_metric_points",
}

// foreign lists names that look like ours and belong to other projects.
var foreign = []string{
	"DCGM_FI_DEV_MEM_COPY_UTIL", // for dashboards; no signal uses it
	"DCGM_EXP_CLOCK_EVENTS_COUNT", "DCGM_EXP_CLOCK_EVENTS_TOTAL", "DCGM_FI_DRIVER_VERSION",
	"gpu_pod_memory_used_bytes", "gpu_process_memory_used_bytes", // read by gpu_k8s from other exporters
	"gpu_uuid", "gpu_name", "gpu_compute_partition_type", // labels of exporters and Kepler
	"gpu.watchdog.evaluations", "gpu.watchdog.last_success", // self-metrics, without the collector's prefix
	"gpu.nvidia.com", "gpu.amd.com", "gpu.intel.com", // drivers of DRA
	"otelcol_gpu_no_nvml",            // a build tag
	"k8s_attributes", "k8s_observer", // components of OpenTelemetry
	"k8s.amazonaws.com",    // a label of nodes
	"gpu_cache_usage_perc", // of older vLLM releases
	"gpu_forward",          // a removed component in the changelog
	"gpu_power", "gpu_budget", "gpu_usage",
	"gpu_memory_budget_utilization", // part of a recording rule's name
}

var (
	fence   = regexp.MustCompile("(?ms)^[ \t]*```(\\w*)[^\n]*\n((?:.*?\n)??)[ \t]*```[ \t]*$")
	span    = regexp.MustCompile("`([^`\n]+)`")
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	// A name that must be one of ours, or a prefix of one if it ends in _ or a dot. After a slash,
	// it is a name of a Kubernetes resource.
	ours = regexp.MustCompile(`(?:^|[^\w./-])((?:otelcol_|DCGM_(?:FI|EXP)_|gpu[._]|hw[._]|k8s[._]|cluster[._]gpu[._]|process[._]gpu[._]|container[._]accelerator[._])[\w.]*)`)
)

// document is one Markdown file of the repository.
type document struct {
	// path is relative to the root, with slashes.
	path string
	// text is the text outside of fenced blocks; blocks contains the fenced blocks by language.
	text   string
	blocks map[string][]string
}

func documents(t *testing.T) []document {
	t.Helper()
	var all []document
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "dist"}, d.Name()):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		doc := document{path: filepath.ToSlash(relative), blocks: map[string][]string{}}
		for _, m := range fence.FindAllStringSubmatch(string(content), -1) {
			doc.blocks[m[1]] = append(doc.blocks[m[1]], m[2])
		}
		doc.text = fence.ReplaceAllString(string(content), "")
		all = append(all, doc)
		return nil
	}))
	require.NotEmpty(t, all)
	return all
}

func find(t *testing.T, docs []document, path string) document {
	t.Helper()
	i := slices.IndexFunc(docs, func(d document) bool { return d.path == path })
	require.GreaterOrEqual(t, i, 0, path)
	return docs[i]
}

// generated reports whether a file is generated from code and needs no check against it.
func generated(d document) bool { return strings.HasSuffix(d.path, "/documentation.md") }

// selfMetrics returns the self-metrics of all components from mdatagen's output.
func selfMetrics(docs []document) []string {
	var names []string
	for _, d := range docs {
		if !generated(d) {
			continue
		}
		for _, m := range heading.FindAllStringSubmatch(d.text, -1) {
			if strings.HasPrefix(m[1], "otelcol_") {
				names = append(names, m[1])
			}
		}
	}
	return names
}

// vocabulary returns every name in a code span of docs/signals.md and docs/vendors.md, which are
// generated from the code, with attributes also as Prometheus labels. It adds the names of
// self-metrics, the types of components, and the rules of the GPU share API.
func vocabulary(t *testing.T, docs []document) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	for _, path := range []string{"docs/signals.md", "docs/vendors.md"} {
		for _, m := range span.FindAllStringSubmatch(find(t, docs, path).text, -1) {
			known[m[1]] = true
			known[strings.ReplaceAll(m[1], ".", "_")] = true
		}
	}
	for _, name := range slices.Concat(selfMetrics(docs), upstream, foreign) {
		known[name] = true
	}
	types, err := filepath.Glob(filepath.Join(root, "*", "*", "metadata.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, types)
	for _, file := range types {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		var metadata struct{ Type string }
		require.NoError(t, yaml.Unmarshal(content, &metadata), file)
		known[metadata.Type] = true
	}
	for _, rule := range gpushare.Rules() {
		known[string(rule)] = true
	}
	return known
}

func knows(known map[string]bool, name string) bool {
	if !strings.HasSuffix(name, "_") && !strings.HasSuffix(name, ".") {
		return known[name]
	}
	for k := range known {
		if strings.HasPrefix(k, name) {
			return true
		}
	}
	return false
}

func TestEveryNameOfAMetricIsOneThatTheCodeEmits(t *testing.T) {
	docs := documents(t)
	known := vocabulary(t, docs)
	for _, d := range docs {
		if generated(d) {
			continue
		}
		t.Run(d.path, func(t *testing.T) {
			for _, s := range span.FindAllStringSubmatch(d.text, -1) {
				for _, m := range ours.FindAllStringSubmatch(s[1], -1) {
					assert.True(t, knows(known, m[1]), "`%s`: no metric, attribute, label or component is named %s", s[1], m[1])
				}
			}
		})
	}
}

func TestEveryLinkLeadsToAFileAndAHeading(t *testing.T) {
	docs := documents(t)
	anchors := map[string][]string{}
	for _, d := range docs {
		for _, m := range heading.FindAllStringSubmatch(d.text, -1) {
			anchors[d.path] = append(anchors[d.path], anchor(m[1]))
		}
	}
	for _, d := range docs {
		t.Run(d.path, func(t *testing.T) {
			for _, m := range link.FindAllStringSubmatch(d.text, -1) {
				target, section, _ := strings.Cut(m[1], "#")
				if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
					continue
				}
				path := d.path
				if target != "" {
					path = filepath.ToSlash(filepath.Join(filepath.Dir(d.path), target))
					if _, err := os.Stat(filepath.Join(root, path)); !assert.NoError(t, err, m[1]) {
						continue
					}
				}
				if section != "" && strings.HasSuffix(path, ".md") {
					assert.Contains(t, anchors[path], section, "%s has no such heading", path)
				}
			}
		})
	}
}

// anchor returns a heading's anchor in a link: its letters, digits, underscores and hyphens in
// lower case, with blanks as hyphens.
func anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', r >= '0' && r <= '9', r >= 'a' && r <= 'z', r > 0x7f:
			return r
		}
		return -1
	}, strings.ToLower(title))
}

func TestEveryQueryIsPromQLOverMetricsThatExist(t *testing.T) {
	docs := documents(t)
	known := vocabulary(t, docs)
	queries := 0
	for _, d := range docs {
		for _, query := range d.blocks["promql"] {
			queries++
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
			require.NoError(t, err, "%s: %s", d.path, query)
			parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
				if v, ok := node.(*parser.VectorSelector); ok {
					assert.True(t, known[v.Name], "%s: no metric is named %s", d.path, v.Name)
					for _, m := range v.LabelMatchers {
						assert.True(t, m.Name == labels.MetricName || known[m.Name], "%s: no label is named %s", d.path, m.Name)
					}
				}
				return nil
			})
		}
	}
	assert.NotZero(t, queries)
}

func TestEveryConfigurationIsYAML(t *testing.T) {
	for _, d := range documents(t) {
		for _, block := range d.blocks["yaml"] {
			decoder := yaml.NewDecoder(strings.NewReader(block))
			for {
				var content any
				if err := decoder.Decode(&content); err != nil {
					assert.ErrorContains(t, err, "EOF", "%s:\n%s", d.path, block)
					break
				}
			}
		}
	}
}

func TestTheIndexLeadsToEveryPage(t *testing.T) {
	docs := documents(t)
	index := find(t, docs, "docs/README.md")
	for _, d := range docs {
		if page, ok := strings.CutPrefix(d.path, "docs/"); ok && d.path != index.path {
			assert.Contains(t, index.text, "("+page+")")
		}
	}
}

// The diagram's source and both drawings contain every component. An outdated drawing lacks the new
// ones.
func TestTheDiagramHasEveryComponent(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "*", "*", "metadata.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range []string{"architecture.dot", "architecture.svg", "architecture-dark.svg"} {
		diagram, err := os.ReadFile(filepath.Join(root, "docs", name))
		require.NoError(t, err)
		for _, file := range files {
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			var metadata struct{ Type string }
			require.NoError(t, yaml.Unmarshal(content, &metadata), file)
			assert.Contains(t, string(diagram), metadata.Type, name)
		}
	}
}

// The functions in a row of the table "the life of a sample" in docs/development.md are in one of
// the files of that row.
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

// The pages of self-metrics are generated. troubleshooting.md links to each of them.
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
			// Some metrics have the same name in OpenCost as ours have in Prometheus.
			same := field == strings.ReplaceAll(m.Name, ".", "_")
			assert.True(t, slices.ContainsFunc(lines, func(line string) bool {
				return strings.Contains(line, "`"+field+"`") && (same || strings.Contains(line, "`"+m.Name+"`"))
			}), "%s is %s", field, m.Name)
		}
	}
}

// Each alert has a section that explains when it fires and what to check in which order, and each
// section belongs to an alert.
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
				assert.GreaterOrEqual(t, steps[anchor(r.Alert)], 2, "%s: the section lacks an ordered list of checks", r.Alert)
				alerted[anchor(r.Alert)] = true
			}
		}
		return nil
	}))
	for section := range steps {
		assert.True(t, section == "" || alerted[section], "no alert is named %s", section)
	}
}

// Every test that a page names exists. A test named in docs/differences.md is a function, or a
// directory or file of test data with that name.
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
			assert.True(t, tests[m[1]] || !named.MatchString(m[1]), "%s: no test is named %s", d.path, m[1])
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
			assert.True(t, tests[m[1]], "row %s%s: no test is named %s", row[1], row[2], m[1])
		}
	}
}

// A component's README starts with the title, the description and the stability of its
// metadata.yaml.
func TestEveryComponentsReadmeBeginsAsItsMetadataSays(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "*", "*", "metadata.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		var metadata struct {
			Title       string `yaml:"display_name"`
			Description string
			Status      struct {
				Stability map[string][]string
				Warnings  []string
			}
		}
		require.NoError(t, yaml.Unmarshal(content, &metadata), file)
		readme, err := os.ReadFile(filepath.Join(filepath.Dir(file), "README.md"))
		require.NoError(t, err)
		text := string(readme)
		begin := "# " + metadata.Title + "\n\n" + strings.TrimSpace(metadata.Description) + "\n\n**Stability**: ["
		assert.True(t, strings.HasPrefix(text, begin), "%s begins with %q", file, begin)
		for level := range metadata.Status.Stability {
			assert.Contains(t, text, "**Stability**: ["+level+"]", file)
		}
		if warnings := metadata.Status.Warnings; len(warnings) > 0 {
			assert.Contains(t, text, "**Warnings**: ["+strings.ToLower(strings.Join(warnings, ", "))+"](#warnings).", file)
		}
	}
}
