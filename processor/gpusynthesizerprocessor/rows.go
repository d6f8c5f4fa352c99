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

// setRow is a label set that was parsed as labels of an exporter. A label set belongs to one
// endpoint, and the scrapes of an endpoint do not overlap. Therefore, only one goroutine uses a
// setRow at a time.
type setRow struct {
	row    *synth.Row
	of     *catalogue.Exporter // Exporter to which the row belongs.
	target string              // Empty if the labels do not name the target.
	// The fields of the label set's samples in the last scrape. The order of the samples is usually
	// the same in every scrape.
	fields exposedFields
}

// exposedFields contains the fields of a label set's samples, in the order of the samples. Most
// devices have the same fields and share one list, so a list must not be modified.
type exposedFields []exposedField

// exposedField is a metric with its entry in the catalog.
type exposedField struct {
	metric   *exposition.Metric
	spelling catalogue.Spelling  // Empty if the metric is not a field in the catalog.
	of       *catalogue.Exporter // Nil if no exporter has a metric with this name.
}

// The are method reports whether the list contains exactly the fields of the samples, in the same
// order.
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

// fieldsOf looks up the field of each sample.
func fieldsOf(samples []exposition.Sample) exposedFields {
	fields := make(exposedFields, len(samples))
	for i := range samples {
		f := &fields[i]
		f.metric = samples[i].Metric
		f.spelling, f.of = exporters.Lookup(f.metric.Name)
	}
	return fields
}

// The take method reads the rows of a scrape. Rows that do not belong to a known exporter are added
// to md.
func (r *reader) take(rows *pdatagpu.Rows, md pmetric.Metrics) {
	foreign := false
	var last exposedFields
	for _, set := range rows.Sets {
		e := r.set(rows, set)
		source := r.batch.Source(e.target, false)
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
			case f.of != nil && f.of.Claims != nil && r.setRow(e, rows, set, f.of).Foreign(f.spelling):
				foreign = true
			case f.spelling.Field != nil:
				r.batch.Add(r.setRow(e, rows, set, f.of), source, f.spelling, int64(rows.At(set, i)), s.Value)
			case f.of != nil:
				r.unknown++
			default:
				foreign = true
			}
		}
	}
	if foreign {
		rows.Write(md, func(set *exposition.LabelSet, m *exposition.Metric) bool {
			name, of := exporters.Lookup(m.Name)
			return of == nil || of.Claims != nil && r.setRow(r.set(rows, set), rows, set, of).Foreign(name)
		})
	}
}

// The set method returns the cached entry for a label set, and creates the entry if needed.
func (r *reader) set(rows *pdatagpu.Rows, set *exposition.LabelSet) *setRow {
	e, ok := r.sets.get(set)
	if !ok {
		e = &setRow{target: targetOf(rows.Resource(set))}
		r.sets.put(set, e)
	}
	return e
}

// setRow returns the row that results from parsing a label set as labels of the given exporter.
func (r *reader) setRow(e *setRow, rows *pdatagpu.Rows, set *exposition.LabelSet, of *catalogue.Exporter) *synth.Row {
	if e.of != of {
		// The label values need not be copied, because the label set exists for as long as the row
		// does.
		asIs := func(s string) string { return s }
		e.row, e.of = r.newRow(of, rows.Resource(set), pcommon.NewMap(), asIs), of
	}
	return e.row
}
