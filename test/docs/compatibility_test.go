package docs

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/installs"
)

var update = flag.Bool("update", false, "write the generated part of docs/compatibility.md")

// agentValues contains the chart's values that determine which nodes agents run on.
type agentValues struct {
	Agent struct {
		GPUNodeLabels []corev1.NodeSelectorRequirement `json:"gpuNodeLabels"`
		Tolerations   []corev1.Toleration              `json:"tolerations"`
	} `json:"agent"`
}

func TestTheChartRunsAgentsOnTheNodesOfEveryInstall(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "charts", "otelcol-gpu", "values.yaml"))
	require.NoError(t, err)
	var values agentValues
	require.NoError(t, yaml.Unmarshal(content, &values))
	selector := &corev1.NodeSelector{}
	for _, label := range values.Agent.GPUNodeLabels { // in the same order as in the template
		selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{label}})
	}
	matcher, err := nodeaffinity.NewNodeSelector(selector)
	require.NoError(t, err)
	for _, install := range installs.All {
		if install.NodeLabels == nil {
			continue // not on Kubernetes
		}
		node := &corev1.Node{}
		node.Labels = install.NodeLabels
		assert.True(t, matcher.Match(node), "%s: agent.gpuNodeLabels", install.Name)
		assert.True(t, install.Taint == nil || slices.ContainsFunc(values.Agent.Tolerations, func(r corev1.Toleration) bool {
			return (r.Key == install.Taint.Key || r.Key == "") && (r.Effect == "" || r.Effect == install.Taint.Effect) &&
				(r.Operator == corev1.TolerationOpExists || r.Value == install.Taint.Value)
		}), "%s: agent.tolerations", install.Name)
	}
}

func TestTheMonitoringPodsOfAnInstallHoldNothing(t *testing.T) {
	for _, install := range installs.All {
		for _, h := range install.Monitors {
			assert.True(t, exporters.IsMonitoringAgent(h) || catalogue.IsReservation(h), "%s: %+v", install.Name, h)
		}
	}
}

// The generated part of docs/compatibility.md is between these markers.
const (
	installsBegin = "<!-- installs: begin, written by `go test ./test/docs -update` -->\n"
	installsEnd   = "<!-- installs: end -->\n"
)

// installTables renders the generated part of docs/compatibility.md.
func installTables() string {
	var b strings.Builder
	b.WriteString("\n| install | exporter | nodes | required settings |\n|---|---|---|---|\n")
	code := func(s string) string { return "`" + s + "`" }
	for _, install := range installs.All {
		exporter, nodes := "on the machine", "-"
		if p := install.Pod; p != nil {
			for key, value := range p.Labels {
				exporter = "pods with " + code(key+"="+value)
			}
		}
		for key, value := range install.NodeLabels {
			nodes = code(key + "=" + value)
		}
		if install.Taint != nil {
			nodes += ", taint " + code(install.Taint.Key)
		}
		url := strings.NewReplacer("%s", "<address>").Replace(install.URL)
		set := install.Settings
		if set == "" {
			set = "none"
		}
		b.WriteString("| " + strings.Join([]string{install.Name, exporter + ", " + code(url), nodes, set}, " | ") + " |\n")
	}
	b.WriteString("\n### Sources of the labels, ports and taints\n\n| install | source | not verified |\n|---|---|---|\n")
	for _, install := range installs.All {
		unread := install.Unread
		if unread == "" {
			unread = "-"
		}
		b.WriteString("| " + strings.Join([]string{install.Name, install.Source, unread}, " | ") + " |\n")
	}
	b.WriteString("\n")
	return b.String()
}

func TestThePageOfInstallsMatchesTheTable(t *testing.T) {
	path := filepath.Join(root, "docs", "compatibility.md")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, begins := strings.Cut(string(content), installsBegin)
	got, after, ends := strings.Cut(rest, installsEnd)
	require.True(t, begins && ends, "docs/compatibility.md lacks the lines %q and %q", installsBegin, installsEnd)
	if *update {
		got = installTables()
		require.NoError(t, os.WriteFile(path, []byte(before+installsBegin+got+installsEnd+after), 0o600))
	}
	assert.Equal(t, installTables(), got, "run go test ./test/docs -update")
}

// Each install must have at most one node label and, if it has a pod, exactly one pod label.
func TestEveryInstallIsDescribed(t *testing.T) {
	names := map[string]bool{}
	for _, install := range installs.All {
		assert.False(t, names[install.Name], install.Name)
		names[install.Name] = true
		assert.NotEmpty(t, install.Source, install.Name)
		assert.NotEmpty(t, install.URL, install.Name)
		assert.LessOrEqual(t, len(install.NodeLabels), 1, install.Name)
		if install.Pod != nil {
			assert.Len(t, install.Pod.Labels, 1, install.Name)
		}
	}
	assert.GreaterOrEqual(t, len(names), 14)
}
