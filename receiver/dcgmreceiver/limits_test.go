package dcgmreceiver

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// The cache must not grow, even if all responses of an exporter are truncated and contain new
// labels.
func TestTruncatedBodiesDoNotFillTheCache(t *testing.T) {
	for name, headers := range map[string]func(http.Header, string){
		"shorter than the declared length": func(h http.Header, body string) { h.Set("Content-Length", strconv.Itoa(len(body)+1000)) },
		"at the end of the connection":     func(h http.Header, _ string) { h.Set("Connection", "close"); h.Set("Transfer-Encoding", "identity") },
		"in the middle of the gzip data":   func(h http.Header, _ string) { h.Set("Content-Encoding", "gzip") },
	} {
		t.Run(name, func(t *testing.T) {
			const lines = 2000
			scrape := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				scrape++
				var b strings.Builder
				for i := range lines {
					fmt.Fprintf(&b, "DCGM_FI_DEV_GPU_UTIL{gpu=\"%d\",UUID=\"GPU-%d-%d\",pod=\"p-%d\"} 1\n", i, scrape, i, scrape)
				}
				body := b.String() + `DCGM_FI_DEV_GPU_UTIL{gpu="0",UU`
				if name == "in the middle of the gzip data" {
					body = string(zipped(body))
					body = body[:len(body)-100]
				}
				headers(w.Header(), body)
				_, _ = w.Write([]byte(body))
			}))
			defer server.Close()
			f := opened(t, []string{server.URL}, nil)
			for range 20 {
				value, _ := exporterUpOf(t, f.scrape(t, 0))
				assert.Zero(t, value)
			}
			// If the end of the connection marks the end of the body, the receiver parses the
			// complete lines before it notices that the last line is truncated. The cache may then
			// contain series from the last few bodies.
			most := 0
			if name == "at the end of the connection" {
				most = 3 * lines
			}
			assert.LessOrEqual(t, f.endpoints[0].parser.CacheSize(), most)
			assert.Equal(t, f.endpoints[0].parser.CacheSize(), int(f.endpoints[0].cacheSize.Load()))
		})
	}
}

func TestALabelThatIsTooLongOnlyDropsItsLine(t *testing.T) {
	server := httptest.NewServer(serve(goodBody + `DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-1",pod="` + strings.Repeat("x", 200_000) + "\"} 1\n"))
	defer server.Close()
	f := opened(t, []string{server.URL}, nil)
	names := map[string]bool{}
	for m := range points(f.scrape(t, 0)) {
		names[m.Name()] = true
	}
	assert.Equal(t, map[string]bool{
		signal.GPUExporterUp.Name: true, "DCGM_FI_DEV_GPU_TEMP": true, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": true,
	}, names)
	entries := f.logs.TakeAll()
	if assert.Len(t, entries, 1) {
		assert.Equal(t, int64(1), entries[0].ContextMap()["label_too_long"])
	}
}
