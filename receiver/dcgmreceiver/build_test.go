package dcgmreceiver

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/exposition"
)

// The build function returns the complete batch for a scrape, with the timestamp ts. A nil scrape
// means that the scrape failed.
func (b batchBuilder) build(scrape *exposition.Scrape, url string, ts pcommon.Timestamp) pmetric.Metrics {
	md := b.exporterBatch(scrape, url, ts)
	if scrape != nil {
		b.rows(scrape, ts).WriteTo(md)
	}
	return md
}
