package gpuclusterreceiver

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/receiver/gpuclusterreceiver/internal/demand"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/goldentest"
)

// The now variable contains the emission time for the golden clusters.
var now = time.Date(2026, time.November, 20, 12, 0, 0, 0, time.UTC)

// The all variable is the Observed value for a cluster in which objects of every kind can be read.
var all = demand.Observed{Pods: true, Nodes: true, Slices: true, Claims: true, Templates: true, TaintRules: true}

// TestGolden runs one test for each directory in testdata/golden. The name of each directory is a
// sentence that describes the test. The cluster.yaml file contains the objects of a cluster. The
// output.txt file contains the expected points, with one point per line. The optional config.yaml
// file contains the configuration of the receiver.
func TestGolden(t *testing.T) {
	for _, dir := range goldentest.Dirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			objects := readObjects(t, filepath.Join(dir, "cluster.yaml"))
			cfg := readConfig(t, filepath.Join(dir, "config.yaml"))
			emitted := func() string {
				s, err := newStore(cfg, func() {}, zap.NewNop())
				require.NoError(t, err)
				for _, o := range objects {
					storeObject(t, s, o)
				}
				return render(t, readStore(s, cfg)...)
			}

			got := emitted()
			rand.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
			assert.Equal(t, got, emitted(), "the output does not depend on the order of objects")
			goldentest.Compare(t, dir, got)
		})
	}
}

// readStore returns all points of a store, in batches.
func readStore(s *store, cfg *Config) []pmetric.Metrics {
	points, _ := s.points(now, all, nil)
	b := batches{clusterName: cfg.ClusterName}
	var out []pmetric.Metrics
	for len(points) > 0 {
		md, n := b.build(points, now)
		out = append(out, md)
		points = points[n:]
	}
	return out
}

// readConfig reads the configuration of the receiver from a file. If the file does not exist,
// readConfig returns the default configuration.
func readConfig(t *testing.T, file string) *Config {
	t.Helper()
	cfg := createDefaultConfig().(*Config)
	if _, err := os.Stat(file); err == nil {
		conf, err := confmaptest.LoadConf(file)
		require.NoError(t, err)
		require.NoError(t, conf.Unmarshal(cfg))
	}
	cfg.LeaderElection.Namespace = "monitoring"
	require.NoError(t, confmap.Validate(cfg))
	return cfg
}
