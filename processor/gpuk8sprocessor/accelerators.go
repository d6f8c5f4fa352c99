package gpuk8sprocessor

import (
	"strings"

	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// accelerators returns those of cAdvisor's metrics that are switched on, by the
// device series that each is made of.
func accelerators(cfg *Config) map[string]*signal.Metric {
	made := map[string]*signal.Metric{}
	for from, m := range map[*signal.Metric]*signal.Metric{
		signal.HwGPUMemoryLimit: signal.ContainerAcceleratorMemoryTotal,
		signal.HwGPUMemoryUsage: signal.ContainerAcceleratorMemoryUsed,
		signal.HwGPUUtilization: signal.ContainerAcceleratorDutyCycle,
	} {
		if cfg.enabled(m) {
			made[from.Name] = m
		}
	}
	return made
}

// accelerate writes a point of a device once for each container that holds it,
// as cAdvisor did. A holder of an instance does not hold the board.
func (b *batch) accelerate(out pmetric.Metrics, d *device, m *signal.Metric, dp pmetric.NumberDataPoint) {
	attrs := dp.Attributes()
	if m == signal.ContainerAcceleratorDutyCycle && text(attrs, signal.GPUTask) != signal.TaskGeneral {
		return
	}
	uuid := d.id
	if d.parent != "" {
		if known := text(attrs, signal.MIGUUID); known != "" {
			uuid = known
		}
	}
	for i := range d.sharing {
		s := &d.sharing[i]
		if s.board {
			continue
		}
		c := b.sharer(out, d, s).contract(m).AppendEmpty()
		c.SetTimestamp(dp.Timestamp())
		c.SetFlags(dp.Flags())
		switch {
		case dp.Flags().NoRecordedValue():
		case m.Int:
			c.SetIntValue(int64(points.Value(dp)))
		default:
			c.SetDoubleValue(100 * points.Value(dp)) // a ratio becomes percent
		}
		c.Attributes().PutStr(signal.HardwareID, d.id)
		c.Attributes().PutStr(signal.SharingStrategy, s.strategy)
		put(c.Attributes(), signal.AcceleratorMake, strings.ToLower(text(attrs, signal.HardwareVendor)))
		put(c.Attributes(), signal.AcceleratorModel, text(attrs, signal.HardwareModel))
		c.Attributes().PutStr(signal.AcceleratorID, uuid)
	}
}
