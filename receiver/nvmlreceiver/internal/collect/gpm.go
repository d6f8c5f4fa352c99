package collect

import (
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/nvml"
)

// The gpm variable lists the samples that are computed from GPM values. Percentages are used for
// instances, and for boards that are not in MIG mode. Link rates, in MiB/s, are used only for
// boards.
var gpm = [...]struct {
	id      uint32
	outputs []output
	link    bool
}{
	{1, []output{{signal.HwGPUUtilization, signal.TaskGeneral}, {signal.GPUEngineActive, ""}}, false},
	{2, []output{{signal.GPUSMActive, ""}}, false},
	{3, []output{{signal.GPUSMOccupancy, ""}}, false},
	{4, []output{{signal.GPUPipeActive, "int"}}, false},
	{5, []output{{signal.GPUPipeActive, "tensor"}}, false},
	{6, []output{{signal.GPUPipeActive, "tensor_dfma"}}, false},
	{7, []output{{signal.GPUPipeActive, "tensor_hmma"}}, false},
	{9, []output{{signal.GPUPipeActive, "tensor_imma"}}, false},
	{10, []output{{signal.GPUDRAMActive, ""}}, false},
	{11, []output{{signal.GPUPipeActive, "fp64"}}, false},
	{12, []output{{signal.GPUPipeActive, "fp32"}}, false},
	{13, []output{{signal.GPUPipeActive, "fp16"}}, false},
	{20, []output{{signal.GPUPCIeThroughput, signal.DirectionTransmit}}, true},
	{21, []output{{signal.GPUPCIeThroughput, signal.DirectionReceive}}, true},
	{60, []output{{signal.GPUNVLinkThroughput, signal.DirectionReceive}}, true},
	{61, []output{{signal.GPUNVLinkThroughput, signal.DirectionTransmit}}, true},
}

const mebibyte = 1 << 20

// gpmInterval is the minimum time between two readings of the counters. The minimum is longer than
// the driver's update interval of 100 ms, because a call may be delayed.
const gpmInterval = 200 * time.Millisecond

// gpmState contains the readings of a device's performance counters. The readings are kept between
// collections.
type gpmState struct {
	// The last field contains the most recent reading. The at field is the time of that reading, or
	// zero before the first reading. The spare field contains memory for the next reading.
	last, spare nvml.GPMSample
	at          time.Time
}

// The free method frees the memory of the readings.
func (m *gpmState) free(lib Library) {
	for _, s := range []nvml.GPMSample{m.last, m.spare} {
		if s != 0 {
			_ = lib.FreeGPMSample(s) // Ignore the error, because it cannot be handled.
		}
	}
	*m = gpmState{}
}

// Release frees all objects that the Collector has created in the library. The caller must call
// Release before closing the library.
func (c *Collector) Release(lib Library) {
	c.endEvents(lib)
	for _, generation := range []map[string]*deviceCache{c.previous, c.current} {
		for _, m := range generation {
			m.gpm.free(lib)
		}
	}
}

// readGPM reads the performance counters of a board or an instance. readGPM adds samples that cover
// the time since the last reading, and returns the set of metrics that have a sample.
func (r *reader) readGPM(board nvml.Device, m *deviceCache, instance uint32, mig bool) (measured map[*signal.Metric]bool) {
	now := r.options.Now()
	if !r.gpm || r.lost || !m.gpm.at.IsZero() && now.Sub(m.gpm.at) < gpmInterval {
		return nil
	}
	if m.gpm.spare == 0 {
		s, err := r.lib.NewGPMSample()
		if r.failedOptional(err) {
			return nil
		}
		m.gpm.spare = s
	}
	lastAt := m.gpm.at
	if r.failedOptional(r.lib.ReadGPMSample(board, instance, m.gpm.spare)) {
		m.gpm.at = time.Time{}
		return nil
	}
	m.gpm.last, m.gpm.spare, m.gpm.at = m.gpm.spare, m.gpm.last, now
	if lastAt.IsZero() || r.failedOptional(r.lib.GPMValues(m.gpm.spare, m.gpm.last, r.gpmValues)) {
		return nil
	}
	measured = map[*signal.Metric]bool{}
	for i, v := range r.gpmValues {
		row := &gpm[i]
		if !v.OK || row.link && instance != nvml.NoInstance || !row.link && mig && instance == nvml.NoInstance {
			continue
		}
		for _, o := range row.outputs {
			measured[o.metric] = true
			if row.link {
				r.linkSample(board, o, m, v.Value*mebibyte)
			} else {
				r.sample(o.metric, m.device, o.attribute, catalogue.Percent, v.Value)
			}
		}
	}
	return measured
}

// failedOptional reports whether a call for GPM or events failed, and counts the failure. Unless
// the board is lost, failedOptional does not record the failure as a problem. A recorded problem
// causes the library to be reinitialized, which would not fix the failure, but would lose samples
// of other devices.
func (r *reader) failedOptional(err error) bool {
	problem := r.problem
	failed := r.failed(err)
	if !r.lost {
		r.problem = problem
	}
	return failed
}

// linkSample adds samples for a link: the throughput and, if the capacity of the link is known, the
// utilization.
func (r *reader) linkSample(board nvml.Device, o output, m *deviceCache, bytesPerSecond float64) {
	rate, verdict := catalogue.BytePerSecond.Value(bytesPerSecond)
	if verdict != catalogue.Valid {
		r.stats.ValuesDropped++
		return
	}
	utilization, capacity := signal.GPUNVLinkUtilization, dcgm.LookupModel(m.device.Model).NVLink
	if o.metric == signal.GPUPCIeThroughput {
		utilization, capacity = signal.GPUPCIeUtilization, r.pcieCapacity(board, m)
	}
	if catalogue.AboveCapacity(rate, capacity) {
		r.stats.ValuesDropped++
		return
	}
	r.point(m.device, gpudata.Sample{Metric: o.metric, Own: o.attribute, Value: rate})
	if capacity > 0 {
		r.ratio(utilization, m.device, o.attribute, rate/capacity)
	}
}
