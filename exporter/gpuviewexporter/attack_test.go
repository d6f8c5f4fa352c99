package gpuviewexporter

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/config/configoptional"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

func TestValueThatOverflowsDoesNotBreakResponses(t *testing.T) {
	e, base := serve(t, nop(), nil)
	b := newBatch(now(), time.Minute)
	b.onNode("node-1").device("GPU-a").addPoint(signal.UtilizationAvg, 0.5).addPoint(signal.PCIeThroughputAvg, 1e39, signal.DirectionTransmit).addPoint(signal.HwPower, -1e300)
	consume(t, e, b.md)
	for _, path := range []string{"/api/devices", "/api/devices/1/history", "/allocation?aggregate=device"} {
		status, _, body := get(t, base+path)
		assert.Equal(t, http.StatusOK, status, path)
		assert.True(t, json.Valid(body), path)
		assert.Contains(t, string(body), "0.5", path)
	}
}

func TestUnknownDeviceHasNoHistory(t *testing.T) {
	_, base := serve(t, nop(), nil)
	for _, number := range []string{"1", "0", "-1", "x", "18446744073709551616"} {
		status, _, body := get(t, base+"/api/devices/"+number+"/history")
		assert.Equal(t, http.StatusNotFound, status, number)
		assert.True(t, json.Valid(body), number)
	}
}

func TestHEADOfDevicesHasNoBody(t *testing.T) {
	_, base := serve(t, nop(), nil)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodHead, base+"/api/devices", http.NoBody)
	require.NoError(t, err)
	answer, err := client(t).Do(request)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	assert.Equal(t, http.StatusOK, answer.StatusCode)
	assert.NotEmpty(t, answer.Header.Get("Etag"))
}

// Each response is held in memory, so the number of concurrent responses is limited.
func TestConcurrentResponsesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const maxQueueTime = 10 * time.Second
		release := make(chan struct{})
		var most, running int
		var mu sync.Mutex
		handler := limitConcurrency(make(chan struct{}, 2), maxQueueTime, func(http.ResponseWriter, *http.Request) {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			<-release
			mu.Lock()
			running--
			mu.Unlock()
		}, func(w http.ResponseWriter) { writeBusy(w, "busy") })
		request := func(ctx context.Context) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			handler(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/allocation", http.NoBody))
			return w
		}
		for range 2 {
			go request(t.Context())
		}
		synctest.Wait()
		begin := time.Now()
		refused := request(t.Context())
		assert.Equal(t, http.StatusServiceUnavailable, refused.Code)
		assert.NotEmpty(t, refused.Header().Get("Retry-After"))
		assert.Equal(t, maxQueueTime, time.Since(begin), "it waited its turn")

		gone, leave := context.WithCancel(t.Context())
		leave()
		request(gone)
		served := make(chan int)
		go func() { served <- request(t.Context()).Code }()
		synctest.Wait()
		close(release)
		assert.Equal(t, http.StatusOK, <-served)
		assert.Equal(t, 2, most)
	})
}

// Scripts on other sites cannot read the exporter's responses, but the requests from these scripts
// could overload the exporter and use up the connections that the exporter's own pages need.
func TestOnLoopbackPagesOfOtherSitesAreRefused(t *testing.T) {
	request := func(base, path, site, mode string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, http.NoBody)
		require.NoError(t, err)
		if site != "" {
			request.Header.Set("Sec-Fetch-Site", site)
			request.Header.Set("Sec-Fetch-Mode", mode)
		}
		answer, err := client(t).Do(request)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode
	}
	_, base := serve(t, nop(), nil)
	for _, path := range []string{"/allocation", "/api/devices", "/app.js"} {
		assert.Equal(t, http.StatusForbidden, request(base, path, "cross-site", "cors"), path)
		assert.Equal(t, http.StatusForbidden, request(base, path, "cross-site", "no-cors"), path)
	}
	assert.Equal(t, http.StatusOK, request(base, "/", "cross-site", "navigate"), "a link to the page is allowed")
	assert.Equal(t, http.StatusOK, request(base, "/allocation", "same-origin", "cors"))
	assert.Equal(t, http.StatusOK, request(base, "/allocation", "none", "navigate"))
	assert.Equal(t, http.StatusOK, request(base, "/allocation", "", ""), "a client other than a browser")

	_, base = serve(t, nop(), func(c *Config) {
		c.HTTP.CORS = configoptional.Some(confighttp.CORSConfig{AllowedOrigins: []string{"https://ui.example"}})
	})
	assert.Equal(t, http.StatusOK, request(base, "/allocation", "cross-site", "cors"), "with CORS configured, cross-site requests are served")
}

func TestUnfinishedRequestIsDisconnected(t *testing.T) {
	e, _ := serve(t, nop(), nil)
	assert.Positive(t, e.server.ReadHeaderTimeout)
	assert.Positive(t, e.server.WriteTimeout)
	assert.Positive(t, e.server.IdleTimeout)
}

// Names are not trusted, because they come from users who can create pods, and from GPU exporters.
func (s *pageSuite) TestNamesAreNeverHTML() {
	t := s.T()
	const nasty = `<img src=x onerror="window.hit=1">"'</td></script><script>window.hit=1</script>`
	e, base := serve(t, nop(), nil)
	b := newBatch(now(), time.Minute)
	for _, id := range []string{"GPU-" + nasty, "__proto__", "constructor"} {
		describe := []string{signal.HardwareName, nasty + id, signal.HardwareModel, nasty, signal.MIGProfile, nasty, signal.SharingStrategy, "constructor", signal.ResourceClaimName, nasty}
		b.onNode(nasty).device(id, describe...).load(0.5, 0.5, 0.1)
		b.addPoint(signal.GPUSignalAvailable, 0, "gpu.sm.active", nasty)
		b.onNode(nasty, nasty, "pod-"+nasty, nasty).device(id, describe...).addPoint(signal.UtilizationAvg, 0.5)
	}
	b.onNode("cluster").device("")
	b.point = nil
	b.addPoint(signal.ClusterPendingPodCount, 3, nasty)
	consume(t, e, b.md)
	p := s.open(base)
	p.until(`document.querySelectorAll("tr.row:not([hidden])").length === 3`)
	p.input("sort", "node")
	assert.Equal(t, "pod-"+nasty, eval[string](p, cell(0, "holders")+`.querySelector(".main").firstChild.textContent`))
	assert.NotContains(t, eval[string](p, cell(0, "holders")+`.textContent`), "function")
	p.input("search", nasty)
	assert.Equal(t, 3, eval[int](p, visibleRows+".length"))
	assert.Equal(t, nasty, eval[string](p, `document.getElementById("search").value`))
	p.click("tr.row td")
	p.until(`document.getElementById("details").open`)
	assert.Contains(t, eval[string](p, `document.getElementById("details").innerText`), nasty)
	p.click("#details .bar button")
	p.click("#tile-missing")
	p.until(`document.getElementById("missing").open`)
	assert.Equal(t, 0, eval[int](p, `document.querySelectorAll("img, #grid script, #controls script, dialog script").length`))
	assert.Equal(t, "undefined", eval[string](p, "typeof window.hit"))
	p.mu.Lock()
	defer p.mu.Unlock()
	assert.Empty(t, strings.Join(p.errors, "\n"))
}
