package dcgmreceiver

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/exposition"
)

// obsFormat is the name of the received format in spans and self-metrics.
const obsFormat = "prometheus_text"

// endpoint represents one exporter. Only the endpoint's scrape loop calls its methods.
type endpoint struct {
	receiver        *dcgmReceiver
	url             *url.URL
	urlFull         string // without the user name and the password
	logger          *zap.Logger
	batches         batchBuilder
	parser          *exposition.Parser
	honorTimestamps bool // use the timestamps of the samples

	// logged contains the outcomes that have been logged since the endpoint started to fail. It is
	// empty while the endpoint works.
	logged map[outcome]bool
	// reported is true if gpu.exporter.up has been sent and its series has not ended since.
	reported bool

	skipped [exposition.NumReasons]componenthelper.Trouble // lines that were skipped, indexed by reason

	cacheSize atomic.Int64 // number of series texts in the parser's cache
}

// newEndpoint returns an endpoint. The node of the endpoint is unknown unless the URL is a loopback
// address; see nodeOf.
func newEndpoint(r *dcgmReceiver, u *url.URL) *endpoint {
	urlFull := publicURL(u)
	return &endpoint{
		receiver:        r,
		url:             u,
		urlFull:         urlFull,
		logger:          r.settings.Logger.With(zap.String("url.full", urlFull)),
		batches:         batchBuilder{version: r.settings.BuildInfo.Version, node: nodeOf(u)},
		parser:          exposition.NewParser(),
		honorTimestamps: r.cfg.HonorTimestamps,
		logged:          map[outcome]bool{},
	}
}

// newEndpointOn returns an endpoint for an exporter on the given node. All Resources get the name
// of the node.
func newEndpointOn(r *dcgmReceiver, u *url.URL, node string) *endpoint {
	e := newEndpoint(r, u)
	e.batches.node, e.batches.nodeOnSamples = node, true
	return e
}

// nodeOf returns the Kubernetes node of an exporter, or "" if it is unknown. Without discovery, the
// node is known only if an agent scrapes its own host. All agents in a cluster then scrape the same
// URL, and only the node distinguishes their exporters.
func nodeOf(u *url.URL) string {
	if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		return componenthelper.NodeName()
	}
	return ""
}

// attempt is the result of one scrape.
type attempt struct {
	start    time.Time
	duration time.Duration
	scrape   *exposition.Scrape // nil if the scrape failed; valid until the next attempt
	skipped  skippedLines
	failure  *scrapeError
}

// skippedLines contains the number of skipped lines for each reason. It is set even if a body
// contains no samples.
type skippedLines [exposition.NumReasons]int

// scrape scrapes the endpoint once and sends the batch. If ctx ends, scrape cancels the request and
// neither sends nor records anything, because the result does not describe the exporter. Shutdown
// relies on this. scrape passes the context consuming to the next consumer.
func (e *endpoint) scrape(ctx, consuming context.Context) {
	if a := e.attempt(ctx); a != nil {
		e.deliver(consuming, a)
		componenthelper.ReleasePages(a.start)
	}
}

// These constants define the range of accepted sample timestamps, relative to the time of the
// scrape. An older sample means that the exporter has stopped reading values. The range is large
// enough for a clock difference between two machines.
const (
	oldest = 5 * time.Minute
	newest = time.Minute
)

// attempt scrapes the endpoint and does not record anything. It returns nil if ctx has ended.
func (e *endpoint) attempt(ctx context.Context) *attempt {
	start := time.Now()
	scrapeCtx, cancel := context.WithTimeout(ctx, e.receiver.cfg.scrapeTimeout())
	defer cancel()
	if e.honorTimestamps {
		e.parser.HonorTimestamps(start.Add(-oldest), start.Add(newest))
	}
	a := &attempt{start: start}
	a.scrape, a.skipped, a.failure = e.fetchAndParse(scrapeCtx)
	if a.failure != nil && ctx.Err() != nil {
		return nil
	}
	a.duration = time.Since(start)
	return a
}

// deliver records the result of an attempt and sends the attempt's batch.
func (e *endpoint) deliver(consuming context.Context, a *attempt) {
	r := e.receiver
	result := outcomeOK
	if a.failure != nil {
		result = a.failure.outcome
	}
	r.metrics.scraped(consuming, result, a)
	e.reportChange(a.failure)
	e.logSkipped(a)

	e.reported = true
	ts := pcommon.NewTimestampFromTime(a.start)
	if a.scrape == nil {
		e.sendBatch(consuming, e.batches.exporterBatch(nil, e.urlFull, ts), 1)
		return
	}
	rows := e.batches.rows(a.scrape, ts)
	obsCtx := r.obs.StartMetricsOp(consuming)
	err := r.send(obsCtx, rows, e.batches.exporterBatch(a.scrape, e.urlFull, ts))
	r.obs.EndMetricsOp(obsCtx, obsFormat, 1+a.scrape.Samples, err)
}

func (e *endpoint) sendBatch(consuming context.Context, batch pmetric.Metrics, points int) {
	r := e.receiver
	obsCtx := r.obs.StartMetricsOp(consuming)
	err := r.send(obsCtx, nil, batch)
	r.obs.EndMetricsOp(obsCtx, obsFormat, points, err)
}

// sendEnd ends the series of gpu.exporter.up for an endpoint that is no longer scraped. It does
// nothing if gpu.exporter.up was never sent.
func (e *endpoint) sendEnd(consuming context.Context) {
	if e.reported {
		e.reported = false
		e.sendBatch(consuming, e.batches.endBatch(e.urlFull, pcommon.NewTimestampFromTime(time.Now())), 1)
	}
}

// maxBadLinesPerSample is the maximum number of unreadable lines per sample. If a body has more
// unreadable lines, it does not contain metrics, even if some of its lines can be parsed.
const maxBadLinesPerSample = 100

// fetchAndParse fetches and parses a body. The returned scrape is valid until the next call.
func (e *endpoint) fetchAndParse(ctx context.Context) (*exposition.Scrape, skippedLines, *scrapeError) {
	var scrape *exposition.Scrape
	start, failure := e.receiver.fetcher.fetch(ctx, e.url, func(body io.Reader) (err error) {
		scrape, err = e.parser.Read(body)
		return err
	})
	e.cacheSize.Store(int64(e.parser.CacheSize()))
	if failure != nil {
		return nil, skippedLines{}, failure
	}
	if failure := unusable(scrape, start); failure != nil {
		return nil, scrape.Skipped, failure
	}
	return scrape, scrape.Skipped, nil
}

// unusable returns the reason why a body has no usable samples, or nil if it has usable samples.
// start is the beginning of the body.
func unusable(scrape *exposition.Scrape, start []byte) *scrapeError {
	bad := scrape.BadLines()
	reason, most := mostSkipped(scrape)
	switch {
	case scrape.TooLarge:
		return failed(outcomeTooLarge, "the body contains more than %d samples and labels", exposition.MaxItems)
	case scrape.Samples > 0 && scrape.Skipped[exposition.ReasonSyntax] > maxBadLinesPerSample*scrape.Samples:
		return failed(outcomeNotText, "only %d of %d lines of the body could be a sample%s", scrape.Samples, scrape.Samples+bad, excerpt(start))
	case scrape.Samples > 0, scrape.Skipped[exposition.ReasonTimestamp] > 0:
		return nil
	case bad == 0:
		return failed(outcomeEmpty, "the body contains no sample")
	case reason == exposition.ReasonSyntax, reason == exposition.ReasonValue:
		return failed(outcomeNotText, "no line of the body is a sample%s", excerpt(start))
	default:
		return failed(outcomeNotText, "no line of the body can be used: %d of %d are skipped because of %s%s", most, bad, reason, excerpt(start))
	}
}

// mostSkipped returns the most frequent reason for which lines were skipped, and the number of
// lines with this reason.
func mostSkipped(scrape *exposition.Scrape) (most exposition.Reason, lines int) {
	for reason, n := range scrape.Skipped {
		if n > lines {
			most, lines = exposition.Reason(reason), n
		}
	}
	return most, lines
}

// reportChange writes a log record and reports a status in three cases: the endpoint starts to
// fail, it fails with an outcome that has not been logged since it started to fail, or it works
// again.
func (e *endpoint) reportChange(failure *scrapeError) {
	if failure == nil {
		componenthelper.SetScrapeError(e.urlFull, nil)
		if len(e.logged) > 0 {
			clear(e.logged)
			e.logger.Info("Scraping the exporter works again")
			e.receiver.status.changed(nil)
		}
		return
	}
	componenthelper.SetScrapeError(e.urlFull, failure)
	if e.logged[failure.outcome] {
		return
	}
	first := len(e.logged) == 0
	e.logged[failure.outcome] = true
	e.logger.Warn("Scraping the exporter fails", zap.String("outcome", string(failure.outcome)), zap.Error(failure), failure.hint())
	if first {
		e.receiver.status.changed(fmt.Errorf("%s: %w", e.urlFull, failure))
	}
}

// logSkipped logs that lines in a body were skipped, once for each reason. It ignores values that
// are not numbers, because some fields are strings.
func (e *endpoint) logSkipped(a *attempt) {
	if a.scrape == nil {
		return // the failure has already been logged
	}
	fields := []zap.Field{zap.Int("samples", a.scrape.Samples)}
	for reason, n := range a.skipped {
		if n > 0 && exposition.Reason(reason) != exposition.ReasonValue && e.skipped[reason].ShouldLog(a.start) {
			fields = append(fields, zap.Int(exposition.Reason(reason).String(), n))
		}
	}
	if len(fields) > 1 {
		e.logger.Warn("Lines of the exporter's response are skipped", fields...)
	}
}

// clearStatus removes an endpoint that is no longer scraped from the receiver's status.
func (e *endpoint) clearStatus() {
	componenthelper.SetScrapeError(e.urlFull, nil)
	if len(e.logged) > 0 {
		clear(e.logged)
		e.receiver.status.changed(nil)
	}
}
