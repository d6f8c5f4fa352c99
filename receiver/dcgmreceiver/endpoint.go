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

// obsFormat is the name of the exposition format in spans and self-metrics.
const obsFormat = "prometheus_text"

// endpoint represents one exporter. The methods of an endpoint are called only by its scrape loop.
type endpoint struct {
	receiver        *dcgmReceiver
	url             *url.URL
	urlFull         string // the URL without the user name and the password
	logger          *zap.Logger
	batches         batchBuilder
	parser          *exposition.Parser
	honorTimestamps bool // whether to use the exporter's timestamps

	// The logged map contains the outcomes that have been logged since the endpoint started to
	// fail. While the endpoint works, logged is empty.
	logged map[outcome]bool
	// The reported field is true if gpu.exporter.up has been sent and its series has not been ended
	// since then.
	reported bool

	// The skipped array limits, for each reason, how often skipped lines are logged.
	skipped [exposition.NumReasons]componenthelper.Trouble

	cacheSize atomic.Int64 // the number of series in the parser's cache
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

// newEndpointOn returns an endpoint for an exporter on the given node. The name of the node is
// added to all Resources.
func newEndpointOn(r *dcgmReceiver, u *url.URL, node string) *endpoint {
	e := newEndpoint(r, u)
	e.batches.node, e.batches.nodeOnSamples = node, true
	return e
}

// nodeOf returns the Kubernetes node of an exporter, or "" if the node is unknown. Without
// discovery, the node is known only if an agent scrapes its own host. If all agents in a cluster
// scrape their own hosts, they use the same URL, and only the node name distinguishes their
// exporters.
func nodeOf(u *url.URL) string {
	if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		return componenthelper.NodeName()
	}
	return ""
}

// The attempt type is the result of one scrape.
type attempt struct {
	start    time.Time
	duration time.Duration
	scrape   *exposition.Scrape // nil if the attempt failed; valid until the next attempt
	skipped  skippedLines
	failure  *scrapeError
}

// skippedLines contains the number of skipped lines for each reason, even if the body contains no
// samples.
type skippedLines [exposition.NumReasons]int

// The scrape method makes one attempt to scrape the endpoint and sends the resulting batch. If ctx
// ends during the request, scrape cancels the request and neither sends nor records anything,
// because a canceled request does not show whether the exporter works. Shutdown relies on scrape
// not reporting canceled requests. The second context is passed to the next consumer.
func (e *endpoint) scrape(ctx, consuming context.Context) {
	if a := e.attempt(ctx); a != nil {
		e.deliver(consuming, a)
	}
}

// These constants define the range of accepted sample timestamps, relative to the time of the
// scrape. A sample that is too old means that the exporter has stopped reading values. The range
// allows for clock differences between machines.
const (
	oldest = 5 * time.Minute
	newest = time.Minute
)

// The attempt method scrapes the endpoint, but does not record anything. If the scrape fails
// because ctx has ended, attempt returns nil.
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

// deliver records the result of an attempt, sends the attempt's batch, and then releases the pages of
// the program's executable file.
func (e *endpoint) deliver(consuming context.Context, a *attempt) {
	r := e.receiver
	defer r.releasePages(a.start)
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

// sendEnd ends the series of gpu.exporter.up for an endpoint that is no longer scraped. If
// gpu.exporter.up was never sent, sendEnd does nothing.
func (e *endpoint) sendEnd(consuming context.Context) {
	if e.reported {
		e.reported = false
		e.sendBatch(consuming, e.batches.endBatch(e.urlFull, pcommon.NewTimestampFromTime(time.Now())), 1)
	}
}

// maxBadLinesPerSample is the maximum number of lines with invalid syntax per sample. A body that
// exceeds the maximum is assumed not to contain metrics, even if some of its lines can be parsed.
const maxBadLinesPerSample = 100

// fetchAndParse fetches and parses a body. The returned scrape is valid until the next call to
// fetchAndParse.
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

// The unusable function returns the reason why a body cannot be used, or nil if the body can be
// used. The start argument contains the first bytes of the body.
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

// mostSkipped returns the most frequent reason for skipping lines, and the number of lines that
// were skipped for this reason.
func mostSkipped(scrape *exposition.Scrape) (most exposition.Reason, lines int) {
	for reason, n := range scrape.Skipped {
		if n > lines {
			most, lines = exposition.Reason(reason), n
		}
	}
	return most, lines
}

// reportChange logs a message when the endpoint starts to fail, when a failing endpoint has a new
// outcome, and when the endpoint works again. When the endpoint starts to fail or works again,
// reportChange also updates the component status.
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

// logSkipped logs how many lines of a body were skipped for each reason, unless the reason has been
// logged recently. Lines whose values are not numbers are not logged, because some exporter fields
// are strings.
func (e *endpoint) logSkipped(a *attempt) {
	if a.scrape == nil {
		return // the failure of the scrape has already been logged
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
