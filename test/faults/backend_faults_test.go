package faults

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// backendFaults lists ways in which a backend can fail to accept data, with the expected results.
var backendFaults = []struct {
	fault, held string
	begin       func(t *testing.T, b *backend)
	allow       tolerance
	set         []string
}{
	{
		fault: "down for several windows", held: "each window arrives once, from the queue on disk",
		begin: func(_ *testing.T, b *backend) { b.down() },
	},
	{
		fault: "429 with Retry-After", held: "each window arrives once, after the requested delay",
		begin: func(_ *testing.T, b *backend) {
			b.breaks(func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusTooManyRequests)
				return true
			})
		},
	},
	{
		fault: "slower than the timeout: accepts data but does not respond", held: "all windows arrive; windows without a response arrive twice, with the same values",
		begin: func(_ *testing.T, b *backend) {
			b.breaks(func(_ http.ResponseWriter, r *http.Request) bool {
				<-r.Context().Done()
				return false
			})
		},
		allow: tolerance{repeats: true}, set: []string{"exporters.otlp_http.timeout=1s"},
	},
	{
		fault: "rejecting: 400", held: "rejected windows are dropped, counted and not sent again",
		begin: func(_ *testing.T, b *backend) {
			b.breaks(func(w http.ResponseWriter, _ *http.Request) bool {
				w.WriteHeader(http.StatusBadRequest)
				return true
			})
		},
		allow: tolerance{missing: 1 << 20, dropped: true},
	},
}

// While a backend fails, scraping continues and windows are queued on disk. After the backend
// recovers, it receives all queued windows. Only windows that the backend permanently rejects are
// lost.
func TestABackendThatFailsGetsItsWindowsLater(t *testing.T) {
	t.Parallel()
	for _, f := range backendFaults {
		t.Run(f.fault, func(t *testing.T) {
			t.Parallel()
			tr := newTrial(t, setting{set: f.set})
			broke, served := time.Now(), len(tr.exporter.served())
			f.begin(t, tr.backend)
			pass(t, tr.agent, broke.Add(outage))
			scraped := len(tr.exporter.served()) - served
			refused := tr.backend.refusals()
			mended := time.Now()
			if f.fault == "down for several windows" {
				tr.backend.up(t)
			}
			tr.backend.breaks(nil)
			// Recovery is complete when the backend has received every window that ended before the
			// fault was removed.
			processtest.Until(t, "the queued windows", func() bool {
				have := map[int64]bool{}
				for _, p := range tr.backend.all() {
					if p.metric == signal.WindowCoverage.Name && p.device == tr.exporter.device(0) {
						have[p.end.UnixNano()] = true
					}
				}
				last := mended.Truncate(window)
				if f.allow.dropped {
					return have[last.Add(window).UnixNano()]
				}
				for end := broke.Truncate(window).Add(window); !end.After(last); end = end.Add(window) {
					if !have[end.UnixNano()] {
						return false
					}
				}
				return true
			}, tr.agent.Process)
			took := time.Since(mended).Seconds()
			tr.coveredWindow(t, mended)
			assert.Greater(t, scraped, int(outage/interval)/4, "scraping continued")
			if f.allow.dropped {
				assert.Positive(t, refused)
				assert.LessOrEqual(t, refused, 2*scraped+10, "a rejected batch is not sent again")
				assert.Positive(t, tr.agent.metric(t, "otelcol_exporter_send_failed_metric_points", ""))
			} else {
				assert.Zero(t, tr.agent.metric(t, "otelcol_exporter_send_failed_metric_points", ""))
				assert.Zero(t, tr.agent.metric(t, "otelcol_exporter_enqueue_failed_metric_points", ""))
			}
			tr.finish(t, result{group: "backend", fault: f.fault, held: f.held, recovery: took}, f.allow)
		})
	}
}
