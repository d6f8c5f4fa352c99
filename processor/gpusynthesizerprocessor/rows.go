package gpusynthesizerprocessor

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/exposition"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/synth"
)

// setRow is what is known of a label set of an exporter.
type setRow struct {
	row    *synth.Row
	target string // empty where the labels tell none
	// fields are those of the set's samples in the last scrape: they repeat in their order.
	fields []exposedField
}

// exposedField is what a metric of an exporter is to the catalogue.
type exposedField struct {
	metric   *exposition.Metric
	spelling dcgm.Spelling
	known    bool // a field of the catalogue
	owned    bool // one of DCGM's names
}

// take takes rows that a receiver handed over, and adds those that are none of ours to the
// batch. It returns how many have names of DCGM's that the catalogue does not know.
func (p *gpuSynthesizer) take(rows *pdatagpu.Rows, md pmetric.Metrics) (unknown int64) {
	foreign := false
	for _, set := range rows.Sets {
		e := p.set(rows, set)
		source := p.core.Source(e.target, false)
		for i := range set.Samples {
			s := &set.Samples[i]
			if i == len(e.fields) {
				e.fields = append(e.fields, exposedField{})
			}
			f := &e.fields[i]
			if f.metric != s.Metric {
				*f = exposedField{metric: s.Metric}
				f.spelling, f.known = dcgm.Lookup(s.Metric.Name)
				f.owned = f.known || dcgm.Owns(s.Metric.Name)
			}
			switch {
			case f.known:
				p.core.Add(e.row, source, f.spelling, int64(rows.Time), s.Value)
			case f.owned:
				unknown++
			default:
				foreign = true
			}
		}
	}
	if foreign {
		rows.Write(md, func(m *exposition.Metric) bool { return !isOurs(m.Name) })
	}
	return unknown
}

func isOurs(name string) bool {
	_, known := dcgm.Lookup(name)
	return known || dcgm.Owns(name)
}

// set returns what is known of a label set.
func (p *gpuSynthesizer) set(rows *pdatagpu.Rows, set *exposition.LabelSet) *setRow {
	p.forget()
	e, ok := p.sets.Get(set)
	if !ok {
		resource := rows.Resource(set)
		e = &setRow{row: p.newRow(resource, pcommon.NewMap()), target: targetOf(resource)}
		p.sets.Put(set, e)
	}
	return e
}
