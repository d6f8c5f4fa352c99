package dcgmreceiver

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/exposition"
)

// build makes the whole batch of one scrape at ts; a nil scrape stands for a failed one.
func (b batchBuilder) build(scrape *exposition.Scrape, url string, ts pcommon.Timestamp) pmetric.Metrics {
	md := b.up(scrape, url, ts)
	if scrape != nil {
		b.rows(scrape, ts).Write(md, everyMetric)
	}
	return md
}
