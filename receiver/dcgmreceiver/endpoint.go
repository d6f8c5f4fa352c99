package dcgmreceiver

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver/internal/exposition"
)

// obsFormat names the format of what is received in spans and self-metrics.
const obsFormat = "prometheus_text"

// endpoint is one exporter. Its methods are called by its own loop only.
type endpoint struct {
	receiver *dcgmReceiver
	url      *url.URL
	urlFull  string // without user and password
	logger   *zap.Logger
	batches  batchBuilder
	parser   *exposition.Parser
	lastSize int // of the last good body, in bytes

	// said holds the outcomes that were logged since the endpoint began to fail;
	// it is empty while the endpoint works.
	said map[outcome]bool

	cacheSize atomic.Int64 // series texts in the parser's cache
}

func newEndpoint(r *dcgmReceiver, u *url.URL) *endpoint {
	urlFull := publicURL(u)
	return &endpoint{
		receiver: r,
		url:      u,
		urlFull:  urlFull,
		logger:   r.settings.Logger.With(zap.String("url.full", urlFull)),
		batches:  batchBuilder{version: r.settings.BuildInfo.Version, node: nodeOf(u)},
		parser:   exposition.NewParser(),
		said:     map[outcome]bool{},
	}
}

// nodeNameEnv is set from the downward API by the manifests that deploy an agent.
const nodeNameEnv = "NODE_NAME"

// nodeOf returns the Kubernetes node of an exporter: an agent that scrapes its
// own host knows it, and every agent of a fleet scrapes the same URL then. It is
// empty where the node cannot be known.
func nodeOf(u *url.URL) string {
	if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		return os.Getenv(nodeNameEnv)
	}
	return ""
}

// scrape scrapes once and hands the batch on. The request ends with ctx, which
// is also how Shutdown ends it: then nothing is handed on or recorded, because
// nothing was learnt about the exporter. The next consumer gets consuming.
func (e *endpoint) scrape(ctx, consuming context.Context) {
	r := e.receiver
	start := time.Now()
	scrapeCtx, cancel := context.WithTimeout(ctx, r.cfg.scrapeTimeout())
	defer cancel()
	scrape, failure := e.fetchAndParse(scrapeCtx)
	if failure != nil && ctx.Err() != nil {
		return
	}
	result := outcomeOK
	if failure != nil {
		scrape, result = nil, failure.outcome
	}
	r.metrics.scraped(consuming, result, time.Since(start), scrape)
	e.changed(failure)

	batch := e.batches.build(scrape, e.urlFull, pcommon.NewTimestampFromTime(start))
	points := 1 // gpu.exporter.up
	if scrape != nil {
		points += scrape.Samples
	}
	obsCtx := r.obs.StartMetricsOp(consuming)
	err := r.next.ConsumeMetrics(obsCtx, batch)
	r.obs.EndMetricsOp(obsCtx, obsFormat, points, err)
}

// fetchAndParse gets a body and reads it. The scrape is valid until the next
// call.
func (e *endpoint) fetchAndParse(ctx context.Context) (*exposition.Scrape, *scrapeError) {
	f := e.receiver.fetcher
	b, failure := f.fetch(ctx, e.url, e.lastSize)
	if failure != nil {
		return nil, failure
	}
	defer f.release(b)
	scrape := e.parser.Parse(b.Bytes())
	e.cacheSize.Store(int64(e.parser.CacheSize()))
	switch {
	case scrape.TooLarge:
		return nil, failed(outcomeTooLarge, "the body holds more than %d samples and labels", exposition.MaxItems)
	case scrape.Samples > 0:
		e.lastSize = b.Len()
		return scrape, nil
	case scrape.BadLines() > 0:
		return nil, failed(outcomeNotText, "no line of the body is a sample%s", excerpt(b.Bytes()))
	default:
		return nil, failed(outcomeEmpty, "the body holds no sample")
	}
}

// changed says in log and status when the endpoint begins to fail, when it fails
// in a way not yet said since then, and when it works again.
func (e *endpoint) changed(failure *scrapeError) {
	if failure == nil {
		if len(e.said) > 0 {
			clear(e.said)
			e.logger.Info("Scraping the exporter works again")
			e.receiver.status.changed(nil)
		}
		return
	}
	if e.said[failure.outcome] {
		return
	}
	first := len(e.said) == 0
	e.said[failure.outcome] = true
	e.logger.Warn("Scraping the exporter fails", zap.String("outcome", string(failure.outcome)), zap.Error(failure))
	if first {
		e.receiver.status.changed(fmt.Errorf("%s: %w", e.urlFull, failure))
	}
}
