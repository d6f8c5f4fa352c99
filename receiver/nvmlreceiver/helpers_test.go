package nvmlreceiver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/statustest"
)

// fixture is a receiver on a simulated machine with an NVIDIA device. A test either starts the
// receiver or calls the collect method.
type fixture struct {
	*nvmlReceiver
	sink      *consumertest.MetricsSink
	host      *statustest.Host
	logs      *observer.ObservedLogs
	telemetry *componenttest.Telemetry
}

// newFixture calls the change function to modify the configuration, and returns a receiver that has
// this configuration.
func newFixture(tb testing.TB, change func(*Config)) *fixture {
	tb.Helper()
	f := &fixture{sink: new(consumertest.MetricsSink), host: statustest.NewHost(), telemetry: componenttest.NewTelemetry()}
	core, logs := observer.New(zapcore.DebugLevel)
	f.logs = logs
	cfg := createDefaultConfig().(*Config)
	cfg.SysRoot = sysRoot(tb, "0x8086", nvidiaVendor)
	cfg.ProcRoot = procRoot(tb)
	cfg.Hold = HoldNever // Tests of the hold setting override this value.
	change(cfg)
	require.NoError(tb, cfg.Validate())
	set := receivertest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = f.telemetry.NewTelemetrySettings()
	set.Logger = zap.New(core)
	r, err := newReceiver(set, cfg, f.sink)
	require.NoError(tb, err)
	f.nvmlReceiver = r
	r.host = f.host
	tb.Cleanup(func() { require.NoError(tb, f.telemetry.Shutdown(context.Background())) })
	return f
}

// sysRoot creates a fake sys file system with one PCI device for each given vendor.
func sysRoot(tb testing.TB, vendors ...string) string {
	tb.Helper()
	root := tb.TempDir()
	for i, vendor := range vendors {
		plug(tb, root, string(rune('a'+i)), vendor)
	}
	return root
}

// procRoot creates the fake proc file system of a host without processes. The proc file system
// looks like the one in the host's PID namespace.
func procRoot(tb testing.TB) string {
	tb.Helper()
	root := tb.TempDir()
	require.NoError(tb, os.MkdirAll(filepath.Join(root, "self", "ns"), 0o700))
	require.NoError(tb, os.Symlink(hostPIDNamespace, filepath.Join(root, "self", "ns", "pid")))
	return root
}

// The plug function adds a PCI device to a fake sys file system.
func plug(tb testing.TB, root, device, vendor string) {
	tb.Helper()
	dir := filepath.Join(root, "bus", "pci", "devices", device)
	require.NoError(tb, os.MkdirAll(dir, 0o700))
	require.NoError(tb, os.WriteFile(filepath.Join(dir, "vendor"), []byte(vendor+"\n"), 0o600))
}

// The messages method returns the log messages with their levels.
func messages(logs *observer.ObservedLogs) []string {
	var list []string
	for _, entry := range logs.All() {
		list = append(list, entry.Level.String()+": "+entry.Message)
	}
	return list
}

// numberPoints returns the points of a metric and a text that describes whether the metric is a sum
// or a gauge.
func numberPoints(m pmetric.Metric) (points pmetric.NumberDataPointSlice, kind string) {
	if m.Type() == pmetric.MetricTypeSum {
		return m.Sum().DataPoints(), fmt.Sprintf("sum(%s, monotonic=%t)", m.Sum().AggregationTemporality(), m.Sum().IsMonotonic())
	}
	return m.Gauge().DataPoints(), "gauge"
}

// numberPointsOf returns the result of numberPoints for the first metric in a batch.
func numberPointsOf(md pmetric.Metrics) (points pmetric.NumberDataPointSlice, kind string) {
	return numberPoints(md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().At(0))
}
