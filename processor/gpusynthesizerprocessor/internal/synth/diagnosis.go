package synth

import (
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/diagnose"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// diagnosis collects what one scrape exposes of each device, for gpu.signal.available.
type diagnosis struct {
	exporters map[exporterAt]*diagnose.Scrape
	devices   map[*Device]*diagnose.Device
}

// exporterAt is the exporter of one vendor's devices at a place.
type exporterAt struct {
	of    *catalogue.Exporter
	place Place
}

// begin discards the previous scrape.
func (g *diagnosis) begin() {
	*g = diagnosis{map[exporterAt]*diagnose.Scrape{}, map[*Device]*diagnose.Device{}}
}

// see records a row with its value, or the reason for which it has none.
func (g *diagnosis) see(o *observation, v float64, reason DropReason, held bool) {
	d := g.device(o.row.device)
	g.exporters[exporterAt{o.row.device.of, o.row.place}].Clues.Merge(o.row.Clues)
	state := diagnose.Blank
	switch {
	case reason == DropAmbiguous:
		state = diagnose.Ambiguous
	case reason != DropNone:
	case v == 0:
		state = diagnose.Zero
	default:
		state = diagnose.Positive
	}
	d.RecordNames(o.row.job, held && o.row.holder.Job == "")
	d.RecordRow(o.field.ID, state, v, held, o.ambiguous, catalogue.IsReservation(o.row.holder))
}

// device returns the diagnosis of a device in this scrape.
func (g *diagnosis) device(d *Device) *diagnose.Device {
	out := g.devices[d]
	if out == nil {
		var parent *diagnose.Device
		if d.Parent != nil {
			parent = g.device(d.Parent)
		}
		at := exporterAt{d.of, d.Place}
		exporter := g.exporters[at]
		if exporter == nil {
			exporter = &diagnose.Scrape{Of: d.of}
			g.exporters[at] = exporter
		}
		out = exporter.Device(parent)
		g.devices[d] = out
	}
	return out
}

// end copies the descriptions of the devices, once all rows are read.
func (g *diagnosis) end() {
	for d, out := range g.devices {
		out.Model = d.Model
	}
}

// signals adds a sample for each signal with whether the device has it. A signal that is measured
// on its board, or on its instances, is reported there. dropped are values that other values
// contradict: the diagnosis cannot find out from the rows which rates are among them.
func (e *emitter) signals(d *diagnose.Device, dropped []contradicted) {
	for _, c := range dropped {
		d.Drop(c.id, c.why)
	}
	for _, v := range d.Verdicts() {
		if v.Elsewhere {
			continue
		}
		sample := gpudata.Sample{Metric: signal.GPUSignalAvailable, Own: v.Signal.Name()}
		if v.Available {
			sample.Value = 1
		} else {
			sample.More = []gpudata.Attr{{Key: signal.Reason, Value: v.Reason().String()}}
		}
		e.to.Samples.Add(sample)
	}
}
