package budgetstage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/declared"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/goldentest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubetest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pdatatest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pointtest"
)

// Each directory in testdata/golden is one test case. The directory's name is a sentence that
// describes the expected behavior. The input.txt file contains one point per line. Lines that
// contain only "---" separate the batches. If the API server is used, the objects.yaml file
// contains the objects in the API server. The output.txt file contains the points that the
// processor must add, except for states whose value is 0. The config.yaml file contains the
// configuration.
func TestGolden(t *testing.T) {
	dirs, played := goldentest.Dirs(t), 0
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			played++
			text, err := os.ReadFile(filepath.Join(dir, "input.txt"))
			require.NoError(t, err)
			got := run(t, dir, string(text), false)
			assert.Equal(t, got, run(t, dir, string(text), true), "the output does not depend on the order of points")
			goldentest.Compare(t, dir, got)
		})
	}
	if played == len(dirs) { // If -run selects only some of the directories, framesCompared is not checked.
		assert.Greater(t, framesCompared.Load(), int64(10), "batches that were also sent as frames")
	}
}

// framesCompared is the number of batches that were processed a second time, as frames.
var framesCompared atomic.Int64

// run processes the batches that the given text describes, and returns the points that the
// processor adds, as text.
func run(t *testing.T, dir, text string, backwards bool) string {
	t.Helper()
	var objects []runtime.Object
	if file := filepath.Join(dir, "objects.yaml"); exists(file) {
		yaml, err := os.ReadFile(file)
		require.NoError(t, err)
		objects = parseObjects(t, string(yaml))
	}
	p := newTestProcessor(t, config(t, dir), processortest.NewNopSettings(metadata.Type), componenttest.NewNopHost(), objects)
	var b strings.Builder
	handed := newTestProcessor(t, config(t, dir), processortest.NewNopSettings(metadata.Type), componenttest.NewNopHost(), objects)
	for batch := range strings.SplitSeq(text, "---\n") {
		md := parse(t, batch, backwards)
		b.WriteString(feed(t, p, md))
		if pdatatest.AsFrames(t, handed.functions.Process, parse(t, batch, backwards), md) {
			framesCompared.Add(1)
		}
	}
	return b.String()
}

func config(t testing.TB, dir string) *Config {
	t.Helper()
	cfg := createDefaultConfig().(*Config)
	if file := filepath.Join(dir, "config.yaml"); exists(file) {
		conf, err := confmaptest.LoadConf(file)
		require.NoError(t, err)
		// The metrics setting belongs to gpu_k8s, not to the section.
		metrics, err := conf.Sub("metrics")
		require.NoError(t, err)
		require.NoError(t, metrics.Unmarshal(&cfg.Metrics))
		conf.Delete("metrics")
		require.NoError(t, conf.Unmarshal(cfg))
	}
	require.NoError(t, cfg.Validate())
	return cfg
}

// feed processes one batch and returns the points that the processor added, as text.
func feed(t testing.TB, p *testProcessor, md pmetric.Metrics) string {
	t.Helper()
	before := render(md, false)
	after, err := p.processMetrics(context.Background(), md)
	require.NoError(t, err)
	goldentest.Contract(t, after)
	assert.Equal(t, before, render(after, false), "the input is unchanged")
	return render(after, true)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func parseObjects(t testing.TB, text string) []runtime.Object {
	t.Helper()
	var objects []runtime.Object
	for document := range strings.SplitSeq(text, "---\n") {
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(document), nil, nil)
		require.NoError(t, err)
		objects = append(objects, object)
	}
	return objects
}

// testProcessor runs the section for process lists and then this section.
type testProcessor struct {
	*gpuBudget
	functions pdatagpu.Functions
}

// newTestProcessor starts a processor that reads from an API server that contains the given
// objects. If there are no objects, the processor does not use the API server.
func newTestProcessor(t testing.TB, cfg *Config, set processor.Settings, host component.Host, objects []runtime.Object) *testProcessor {
	t.Helper()
	if len(objects) == 0 {
		cfg.Kubernetes.AuthType = kube.AuthNone
	}
	var cache *kube.Cache
	o := declared.Options{Budgets: cfg.Budgets(), Claims: cfg.Sources.DRA.Enabled, Unreadable: func(*corev1.Pod, error) {}}
	if len(objects) > 0 {
		o.Acquire = func() (*kube.Cache, error) {
			cache = kube.NewCache(kubetest.NewClient(objects...), kube.Options{NodeName: "n1"}, set.TelemetrySettings)
			return cache, nil
		}
	}
	pods := declared.NewReader(o)
	p, err := newProcessor(cfg, set, pods)
	require.NoError(t, err)
	f := pdatagpu.Sections(p.section(), pods.Section())
	require.NoError(t, f.Start(context.Background(), host))
	t.Cleanup(func() { require.NoError(t, f.Shutdown(context.Background())) })
	if cache != nil {
		require.NoError(t, cache.WaitSynced(context.Background(), pods.Kinds()...))
		pods.Changed()
	}
	return &testProcessor{p, functionsOf(p)}
}

// short expands the abbreviations in input.txt. {n1} stands for the Resource of the node n1.
// {@<pod>} stands for the Resource of the container named main in the pod ns/<pod>.
var short = strings.NewReplacer("{@", "{k8s.node.name=n1, k8s.namespace.name=ns, k8s.container.name=main, k8s.pod.name=", "{n1}", "{k8s.node.name=n1}")

// parse expands the abbreviations in the given text and then calls [goldentest.Points].
func parse(t testing.TB, text string, backwards bool) pmetric.Metrics {
	t.Helper()
	return goldentest.Points(t, short.Replace(text), backwards)
}

// render returns one line per point, sorted. If added is true, the result contains only the points
// that this processor added. Otherwise, the result contains only the other points. Amounts of
// memory are in MiB.
func render(md pmetric.Metrics, added bool) string {
	var lines []string
	for p := range points.All(md) {
		if (p.Scope.Name() == metadata.ScopeName) != added {
			continue
		}
		v, unit := points.Value(p.NumberDataPoint), p.Metric.Unit()
		if p.Metric.Name() == signal.GPUMemoryAttributionState.Name && v == 0 {
			continue
		}
		if unit == "By" {
			v, unit = v/(1<<20), "Mi"
		}
		lines = append(lines, fmt.Sprintf("%s %s %s %s = %s %s", time.Duration(p.Timestamp()),
			pointtest.Text(p.Resource.Attributes()), p.Metric.Name(), pointtest.Text(p.Attributes()),
			strconv.FormatFloat(v, 'g', 6, 64), unit))
	}
	slices.Sort(lines)
	return strings.Join(append(lines, ""), "\n")
}

// processMetrics processes a batch.
func (p *testProcessor) processMetrics(ctx context.Context, md pmetric.Metrics) (pmetric.Metrics, error) {
	a := &pdatagpu.Arrival{Metrics: md}
	_, err := p.functions.Process(ctx, a)
	return a.Metrics, err
}
