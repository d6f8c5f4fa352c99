package docs

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
)

// root is the path of the repository's root directory, relative to this package.
const root = "../.."

// upstream lists the Collector's own self-metrics that the documentation mentions.
var upstream = []string{
	"otelcol_exporter_enqueue_failed_log_records", "otelcol_exporter_enqueue_failed_metric_points",
	"otelcol_exporter_queue_capacity", "otelcol_exporter_queue_size", "otelcol_exporter_send_failed_log_records",
	"otelcol_exporter_send_failed_metric_points", "otelcol_process_cpu_seconds", "otelcol_process_memory_rss",
	"otelcol_processor_memory_limiter_refused_metric_points", "otelcol_receiver_refused_metric_points",
}

// foreign lists names that look like names of this project but belong to other projects or to
// earlier releases.
var foreign = []string{
	// Only dashboards use this field; no signal uses it.
	"DCGM_FI_DEV_MEM_COPY_UTIL",
	"DCGM_EXP_CLOCK_EVENTS_COUNT", "DCGM_EXP_CLOCK_EVENTS_TOTAL", "DCGM_FI_DRIVER_VERSION",
	// gpu_synthesizer reads this metric from an exporter of process metrics.
	"gpu_pod_memory_used_bytes",
	// Exporters and Kepler use these labels.
	"gpu_uuid", "gpu_name", "gpu_compute_partition_type",
	// These are self-metrics without the collector's prefix.
	"gpu.watchdog.evaluations", "gpu.watchdog.last_success",
	// These are the names of DRA drivers.
	"gpu.nvidia.com", "gpu.amd.com", "gpu.intel.com",
	// This is the name of a build tag.
	"otelcol_gpu_no_nvml",
	// These are the names of OpenTelemetry components.
	"k8s_attributes", "k8s_observer",
	// This is the prefix of a node label.
	"k8s.amazonaws.com",
	// Only older vLLM releases have this metric.
	"gpu_cache_usage_perc",
	// The changelog mentions this component, which has been removed.
	"gpu_forward",
	"gpu_power", "gpu_budget", "gpu_usage", "otelcol_processor_gpu_budget_series_refused",
	"otelcol_processor_gpu_budget_declarations_unreadable", "otelcol_processor_gpu_usage_declarations_unreadable",
	"gpu_memory_budget_utilization", // part of a recording rule's name
}

var (
	fence   = regexp.MustCompile("(?ms)^[ \t]*```(\\w*)[^\n]*\n((?:.*?\n)??)[ \t]*```[ \t]*$")
	span    = regexp.MustCompile("`([^`\n]+)`")
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	// ours matches names that must be defined in this project. A match that ends in an underscore
	// or a dot must be a prefix of a defined name. ours does not match names after a slash, which
	// are names of Kubernetes resources.
	ours = regexp.MustCompile(`(?:^|[^\w./-])((?:otelcol_|DCGM_(?:FI|EXP)_|gpu[._]|hw[._]|k8s[._]|cluster[._]gpu[._]|process[._]gpu[._]|container[._]accelerator[._])[\w.]*)`)
)

// document is one Markdown file of the repository.
type document struct {
	// path is the file's path relative to root, with forward slashes.
	path string
	// text is the file's content without fenced code blocks; blocks contains the fenced code blocks
	// by language.
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

// generated reports whether a file is generated from code and therefore does not need to be checked
// against the code.
func generated(d document) bool { return strings.HasSuffix(d.path, "/documentation.md") }

// selfMetrics returns the names of all components' self-metrics, as documented in mdatagen's
// output.
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

// vocabulary returns all names that the documentation may use. The sources of the names are code
// spans in the generated pages docs/signals.md and docs/vendors.md (including the Prometheus
// equivalents), self-metrics, component types, the rules of the GPU share API, the chart's values,
// and the foreign list.
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
	for _, value := range chartValues(t) {
		known[value] = true
	}
	return known
}

// chartValues returns those chart values that are sections of a component's configuration, such as
// gpu_k8s.power.
func chartValues(t *testing.T) (out []string) {
	t.Helper()
	type schema struct {
		Ref         string             `json:"$ref"`
		Properties  map[string]*schema `json:"properties"`
		AllOf       []*schema          `json:"allOf"`
		Definitions map[string]*schema `json:"definitions"`
	}
	text, err := os.ReadFile(filepath.Join(root, "charts", "otelcol-gpu", "values.schema.json"))
	require.NoError(t, err)
	var values schema
	require.NoError(t, json.Unmarshal(text, &values))
	var add func(path string, of *schema)
	add = func(path string, of *schema) {
		if name, ok := strings.CutPrefix(of.Ref, "#/definitions/"); ok {
			add(path, values.Definitions[name])
		}
		for _, s := range of.AllOf {
			add(path, s)
		}
		for name, s := range of.Properties {
			out = append(out, path+name)
			add(path+name+".", s)
		}
	}
	add("", &values)
	require.NotEmpty(t, out)
	return out
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

// anchor returns the link anchor of a heading. An anchor consists of the heading's letters, digits,
// underscores, and hyphens in lower case, with spaces replaced by hyphens.
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

// The diagram's source and both of its drawings must contain every component. A drawing that lacks
// a new component is outdated.
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

// A component's README must start with the title, the description, and the stability from the
// component's metadata.yaml.
func TestEveryReadmeStartsWithTheComponentsMetadata(t *testing.T) {
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
