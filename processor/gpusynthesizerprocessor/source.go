package gpusynthesizerprocessor

import (
	"cmp"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/synth"
)

// The prometheus receiver and other receivers in the contrib distribution use these attributes to
// identify the scrape target. The attributes cannot be labels of an exporter, because label names
// do not contain dots.
const (
	serviceName     = "service.name"
	serviceInstance = "service.instance.id"
	serverAddress   = "server.address"
	serverPort      = "server.port"
)

// targetOf returns the scrape target of a Resource, or "" if the Resource does not name a target.
func targetOf(attrs pcommon.Map) string {
	for _, keys := range [...][2]string{{serviceInstance, serviceName}, {serverAddress, serverPort}} {
		if v, ok := attrs.Get(keys[0]); ok {
			target := v.AsString()
			if second, ok := attrs.Get(keys[1]); ok {
				target += " " + second.AsString()
			}
			return target
		}
	}
	return ""
}

// readUp reads the points of gpu.exporter.up. Each point contains the endpoint, the time of the
// scrape, and whether the scrape succeeded.
func (r *reader) readUp(m pmetric.Metric) {
	dps := points.Of(m)
	for i := range dps.Len() {
		dp := dps.At(i)
		src := r.batch.Source(text(dp.Attributes(), signal.URLFull), false)
		switch {
		case src == nil:
		case dp.Flags().NoRecordedValue(), points.Value(dp) == 0:
			r.batch.Ended(src)
		default:
			r.batch.Scraped(int64(dp.Timestamp()), src)
		}
	}
}

// readReady removes the nvml receiver's samples for devices that an exporter also exposes. The
// result reports whether the metric has no points left. Samples of processes are always kept,
// because only NVML provides such samples.
func (r *reader) readReady(in *input, m pmetric.Metric) bool {
	s, ok := signal.Lookup(m.Name())
	if !ok || s.Stage != signal.StageSample || in.delta {
		return false
	}
	dps := points.Of(m)
	if dps.Len() == 0 {
		return false
	}
	src := r.batch.Source("nvml", true)
	resource := in.resource.Attributes()
	node := cmp.Or(text(resource, signal.K8sNodeName), text(resource, signal.HostName))
	dps.RemoveIf(func(dp pmetric.NumberDataPoint) bool {
		attrs := dp.Attributes()
		device := text(attrs, signal.HardwareID)
		sample := synth.Sample{
			Board: cmp.Or(text(attrs, signal.HardwareParent), device), Device: device,
			Metric: s, Time: int64(dp.Timestamp()), Value: points.Value(dp),
		}
		if len(s.Attributes) > 0 {
			sample.Own = text(attrs, s.Attributes[0])
		}
		return sample.Device != "" && !r.batch.Takes(src, node, sample)
	})
	return dps.Len() == 0
}
