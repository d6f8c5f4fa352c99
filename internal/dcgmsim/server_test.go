package dcgmsim

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// clock is a clock that a test advances.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// site is a server under test with its clock.
type site struct {
	*Server
	clock *clock
	http  *httptest.Server
}

// newSite returns a server with two nodes that have one GPU each. The given function may modify
// this configuration.
func newSite(t *testing.T, settings ServerSettings, change func(*Config)) *site {
	t.Helper()
	config := NewDefaultConfig()
	config.Nodes, config.GPUs = 2, 1
	if change != nil {
		change(&config)
	}
	simulation, err := New(config)
	require.NoError(t, err)
	s := &site{clock: &clock{now: time.Unix(1_700_000_000, 0)}}
	settings.Now = s.clock.Now
	s.Server = NewServer(simulation, settings)
	s.http = httptest.NewServer(s.Server)
	t.Cleanup(func() {
		s.Close()
		s.http.Close()
	})
	return s
}

// answer is a complete HTTP response.
type answer struct {
	status int
	header http.Header
	body   string
}

// get requests a path. If the body cannot be read, get returns an error.
func (s *site) get(t *testing.T, path string) (answer, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.http.URL+path, http.NoBody)
	require.NoError(t, err)
	response, err := s.http.Client().Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(body)}, err
}

// body requests a path and returns the response body. The response must have the status 200.
func (s *site) body(t *testing.T, path string) string {
	t.Helper()
	got, err := s.get(t, path)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, got.status)
	return got.body
}

func TestNodesAreServedEachAtItsPath(t *testing.T) {
	s := newSite(t, ServerSettings{}, nil)
	assert.Equal(t, string(s.Simulation().AppendBody(nil, 0, 0)), s.body(t, "/metrics"))
	assert.Equal(t, s.body(t, "/metrics"), s.body(t, "/node/0/metrics"))
	assert.Equal(t, string(s.Simulation().AppendBody(nil, 1, 0)), s.body(t, "/node/1/metrics"))
	assert.Equal(t, "OK", s.body(t, "/health"))
	assert.Contains(t, s.body(t, "/"), "GPU Exporter")

	for _, path := range []string{"/node/2/metrics", "/node/-1/metrics", "/node/x/metrics", "/nothing"} {
		got, err := s.get(t, path)
		require.NoError(t, err)
		assert.Equal(t, http.StatusNotFound, got.status, path)
	}
}

func TestTheContentTypeIsSetSince483AndSniffedBefore(t *testing.T) {
	for style, want := range map[Style]string{
		Style3: "text/plain; charset=utf-8", Style45: "text/plain; charset=utf-8",
		Style483: "text/plain; version=0.0.4; charset=utf-8", Style49: "text/plain; version=0.0.4; charset=utf-8",
	} {
		got, err := newSite(t, ServerSettings{}, func(c *Config) { c.Style = style }).get(t, "/metrics")
		require.NoError(t, err)
		assert.Equal(t, want, got.header.Get("Content-Type"), style)
		assert.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"))
	}
}

func TestABodyIsRenderedOncePerCollectInterval(t *testing.T) {
	s := newSite(t, ServerSettings{}, func(c *Config) { c.CollectInterval = 30 * time.Second })
	first := s.body(t, "/metrics")
	s.clock.Advance(29 * time.Second)
	cached, _ := s.scrape(0)
	again, _ := s.scrape(0)
	assert.Same(t, &cached[0], &again[0])
	assert.Equal(t, first, string(cached))
	s.clock.Advance(time.Second)
	assert.NotEqual(t, first, s.body(t, "/metrics"))
	assert.Equal(t, string(s.Simulation().AppendBody(nil, 0, s.Since(s.clock.Now()))), s.body(t, "/metrics"))
}

func TestAClockThatGoesBackBeforeTheStartServesTheStart(t *testing.T) {
	s := newSite(t, ServerSettings{}, nil)
	s.clock.Advance(-time.Hour)
	assert.Equal(t, string(s.Simulation().AppendBody(nil, 0, 0)), s.body(t, "/metrics"))
}

func TestANodesScrapesGetTheRecordingsInTurn(t *testing.T) {
	recordings := [][]byte{[]byte("a 1\n"), []byte("b 2")}
	s := newSite(t, ServerSettings{Replay: recordings}, nil)
	assert.Equal(t, "a 1\n", s.body(t, "/metrics"))
	assert.Equal(t, "b 2", s.body(t, "/metrics"))
	assert.Equal(t, "a 1\n", s.body(t, "/node/1/metrics"), "each node counts its own scrapes")
	assert.Equal(t, "a 1\n", s.body(t, "/metrics"))
}

func TestAnInjectedFaultMeetsOneScrapeOfItsNode(t *testing.T) {
	s := newSite(t, ServerSettings{}, nil)
	good := string(s.Simulation().AppendBody(nil, 0, 0))

	s.Inject(0, FaultHTTP500, FaultEmpty, FaultGarbage, FaultTruncated)
	s.body(t, "/node/1/metrics") // other nodes are not affected

	got, err := s.get(t, "/metrics")
	require.NoError(t, err)
	assert.Equal(t, http.StatusInternalServerError, got.status)
	assert.Equal(t, "internal server error\n", got.body)

	assert.Empty(t, s.body(t, "/metrics"))

	assert.Contains(t, s.body(t, "/metrics"), "<!DOCTYPE html>")

	got, err = s.get(t, "/metrics")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.Equal(t, good[:len(good)/2], got.body)

	assert.Equal(t, good, s.body(t, "/metrics"), "all faults have been met")
}

func TestAHangingScrapeEndsWithTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := NewServer(newSimulation(t, func(*Config) {}), ServerSettings{})
		server.Inject(0, FaultHang)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		response := httptest.NewRecorder()
		server.ServeHTTP(response, httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", http.NoBody))
		assert.Equal(t, time.Hour, time.Since(start))
		assert.Empty(t, response.Body.String())
	})
}

func TestCloseEndsHangingScrapesAndMayBeCalledTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := NewServer(newSimulation(t, func(*Config) {}), ServerSettings{})
		server.Inject(0, FaultHang)
		done := make(chan struct{})
		go func() {
			defer close(done)
			server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
		}()
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("the scrape did not hang")
		default:
		}
		server.Close()
		server.Close()
		<-done
	})
}

func TestASlowScrapeDripsTheWholeBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := NewServer(newSimulation(t, func(c *Config) { c.CollectInterval = time.Hour }), ServerSettings{})
		server.Inject(0, FaultSlow)
		start := time.Now()
		response := httptest.NewRecorder()
		server.ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
		assert.Equal(t, (slowPieces-1)*slowPause, time.Since(start))
		assert.Equal(t, string(server.Simulation().AppendBody(nil, 0, 0)), response.Body.String())
	})
}

func TestASlowScrapeStopsWhenTheServerCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := NewServer(newSimulation(t, func(*Config) {}), ServerSettings{})
		server.Inject(0, FaultSlow)
		server.Close()
		response := httptest.NewRecorder()
		server.ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
		assert.Len(t, response.Body.Bytes(), len(server.Simulation().AppendBody(nil, 0, 0))/slowPieces)
	})
}

func TestControlQueuesFaults(t *testing.T) {
	s := newSite(t, ServerSettings{}, nil)
	post := func(query string) *httptest.ResponseRecorder {
		response := httptest.NewRecorder()
		s.ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/control?"+query, http.NoBody))
		return response
	}
	assert.Equal(t, http.StatusNoContent, post("node=1&fault=empty&times=2").Code)
	assert.Empty(t, s.body(t, "/node/1/metrics"))
	assert.Empty(t, s.body(t, "/node/1/metrics"))
	assert.NotEmpty(t, s.body(t, "/node/1/metrics"))

	for query, want := range map[string]string{
		"fault=fire":                 `fault: "fire": want one of none, http-500, empty, hang, truncated, garbage, slow`,
		"node=2&fault=hang":          `node: "2": want 0 to 1`,
		"fault=hang&times=0":         `times: "0": want 1 to 1000`,
		"fault=hang&times=many":      `times: "many": want 1 to 1000`,
		"node=zero&fault=hang":       `node: "zero": want 0 to 1`,
		"fault=hang&times=999999999": `times: "999999999": want 1 to 1000`,
	} {
		response := post(query)
		assert.Equal(t, http.StatusBadRequest, response.Code)
		assert.Contains(t, response.Body.String(), want)
	}

	require.Equal(t, http.StatusNoContent, post("fault=none&times=1000").Code)
	assert.Equal(t, http.StatusTooManyRequests, post("fault=none").Code)

	got, err := s.get(t, "/control?fault=hang")
	require.NoError(t, err)
	assert.Equal(t, http.StatusMethodNotAllowed, got.status)
}

func TestScrapesFaultsAndTheClockMayMoveAtOnce(t *testing.T) {
	s := newSite(t, ServerSettings{}, func(c *Config) { c.CollectInterval = time.Millisecond })
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for range 30 {
				s.clock.Advance(time.Millisecond)
				s.Inject(worker%2, FaultEmpty)
				response := httptest.NewRecorder()
				s.ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
				assert.Equal(t, http.StatusOK, response.Code)
				s.Simulation().AppendBody(nil, 1, s.Since(s.clock.Now()))
			}
		})
	}
	wg.Wait()
}
