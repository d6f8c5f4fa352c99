package gpusynthesizerprocessor

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/exposition"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/synth"
)

// setRow is the parsed form of an exporter's label set.
type setRow struct {
	row    *synth.Row
	of     *catalogue.Exporter // whose labels row has
	target string              // empty if the labels do not name it
	// fields are those of the set's samples in the last scrape: samples repeat in the same order.
	fields exposedFields
}

// exposedFields are the fields of a label set's samples, in their order. Most devices have the same
// fields and share the list, which must not be changed.
type exposedFields []exposedField

// exposedField is a metric's entry in the catalogue.
type exposedField struct {
	metric   *exposition.Metric
	spelling catalogue.Spelling  // empty if it is not a field of the catalogue
	of       *catalogue.Exporter // nil if no exporter has the name
}

// are reports whether the fields are those of samples.
func (fields exposedFields) are(samples []exposition.Sample) bool {
	if len(fields) != len(samples) {
		return false
	}
	for i := range samples {
		if fields[i].metric != samples[i].Metric {
			return false
		}
	}
	return true
}

// fieldsOf looks the fields of samples up.
func fieldsOf(samples []exposition.Sample) exposedFields {
	fields := make(exposedFields, len(samples))
	for i := range samples {
		f := &fields[i]
		f.metric = samples[i].Metric
		f.spelling, f.of = exporters.Lookup(f.metric.Name)
	}
	return fields
}

// take reads the rows of a scrape, and adds rows of other origin to the batch. It returns how many
// rows have an exporter's name that the catalogue does not have.
func (p *gpuSynthesizer) take(rows *pdatagpu.Rows, md pmetric.Metrics) (unknown int64) {
	foreign := false
	var last exposedFields
	for _, set := range rows.Sets {
		e := p.set(rows, set)
		source := p.core.Source(e.target, false)
		switch {
		case last.are(set.Samples):
			e.fields = last
		case !e.fields.are(set.Samples):
			e.fields = fieldsOf(set.Samples)
		}
		last = e.fields
		for i := range set.Samples {
			s, f := &set.Samples[i], &last[i]
			switch {
			case f.of != nil && f.of.Claims != nil && p.setRow(e, rows, set, f.of).Foreign(f.spelling):
				foreign = true
			case f.spelling.Field != nil:
				p.core.Add(p.setRow(e, rows, set, f.of), source, f.spelling, int64(rows.At(set, i)), s.Value)
			case f.of != nil:
				unknown++
			default:
				foreign = true
			}
		}
	}
	if foreign {
		rows.Write(md, func(set *exposition.LabelSet, m *exposition.Metric) bool {
			name, of := exporters.Lookup(m.Name)
			return of == nil || of.Claims != nil && p.setRow(p.set(rows, set), rows, set, of).Foreign(name)
		})
	}
	return unknown
}

// set returns the cached entry of a label set.
func (p *gpuSynthesizer) set(rows *pdatagpu.Rows, set *exposition.LabelSet) *setRow {
	p.forget()
	e, ok := p.sets.Get(set)
	if !ok {
		e = &setRow{target: targetOf(rows.Resource(set))}
		p.sets.Put(set, e)
	}
	return e
}

// setRow returns what a label set says where it is an exporter's.
func (p *gpuSynthesizer) setRow(e *setRow, rows *pdatagpu.Rows, set *exposition.LabelSet, of *catalogue.Exporter) *synth.Row {
	if e.of != of {
		// The texts are the set's, which lives as long.
		asIs := func(s string) string { return s }
		e.row, e.of = p.newRow(of, rows.Resource(set), pcommon.NewMap(), asIs), of
	}
	return e.row
}
