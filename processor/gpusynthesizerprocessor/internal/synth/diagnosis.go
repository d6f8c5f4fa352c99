package synth

import (
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/diagnose"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// diagnosis collects the data that gpu.signal.available requires about each device in one scrape.
type diagnosis struct {
	exporters map[exporterAt]*diagnose.Scrape
	devices   map[*Device]*diagnose.Device
}

// exporterAt identifies an exporter at one place.
type exporterAt struct {
	of    *catalogue.Exporter
	place Place
}

// begin discards the data of the previous scrape.
func (g *diagnosis) begin() {
	*g = diagnosis{map[exporterAt]*diagnose.Scrape{}, map[*Device]*diagnose.Device{}}
}

// The see method records a row, together with its value or the reason why the value was dropped.
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

// device returns the diagnosis of a device in the current scrape.
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

// The end method copies the model names of the devices after all rows have been read.
func (g *diagnosis) end() {
	for d, out := range g.devices {
		out.Model = d.Model
	}
}

// The signals method adds a gpu.signal.available sample for each signal of the device. If a signal
// is measured on the device's board or on its instances instead, the signal is reported only for
// those devices. The dropped parameter contains the values that are contradicted by other values.
// The parameter is needed because the diagnosis cannot detect contradicted rates in the rows.
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
