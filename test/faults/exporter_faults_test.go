package faults

import (
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// memoryBound is the maximum resident memory of an agent in MiB. It is the sum of the receiver's
// memory_limit (256 MiB, for the live heap) and 64 MiB for the program's own pages.
const memoryBound = 320

// outage is the duration of a fault.
var outage = either(3*window, 20*window)

type handler = func(w http.ResponseWriter, r *http.Request, rows string)

// exporterFaults lists responses that the receiver cannot use, and the resulting outcome of the
// scrape.
var exporterFaults = []struct {
	fault, outcome string
	answer         handler
}{
	{"slow drip: one byte every 5 ms", "timeout", func(w http.ResponseWriter, r *http.Request, rows string) {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for i := range len(rows) {
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
			_, _ = io.WriteString(w, rows[i:i+1])
			w.(http.Flusher).Flush()
		}
	}},
	{"hang: no response at all", "timeout", func(_ http.ResponseWriter, r *http.Request, _ string) { <-r.Context().Done() }},
	{"500", "http_status", func(w http.ResponseWriter, _ *http.Request, rows string) {
		http.Error(w, rows, http.StatusInternalServerError)
	}},
	{"200 with an empty body", "empty", func(http.ResponseWriter, *http.Request, string) {}},
	{"body cut off in the middle", "truncated", func(w http.ResponseWriter, _ *http.Request, rows string) {
		w.Header().Set("Content-Length", strconv.Itoa(len(rows)))
		_, _ = io.WriteString(w, rows[:len(rows)/2])
	}},
	{"body of 1 GB", "too_large", func(w http.ResponseWriter, _ *http.Request, _ string) {
		chunk := strings.Repeat("DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-flood\"} 1\n", 1<<14)
		for sent := 0; sent < 1<<30; sent += len(chunk) {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
	}},
	{"gzip bomb: 1 GB of text in 1 MB", "too_large", func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb())
	}},
	{"random bytes", "not_text", func(w http.ResponseWriter, _ *http.Request, _ string) {
		garbage := make([]byte, 64<<10)
		for i := range garbage {
			garbage[i] = byte(mathrand.IntN(256))
		}
		_, _ = w.Write(garbage)
	}},
	{"HTML from a proxy", "not_text", func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html><body>Please log in</body></html>")
	}},
	{"300,000 series in one response", "too_large", func(w http.ResponseWriter, _ *http.Request, rows string) {
		_, _ = io.WriteString(w, rows+manySeries())
	}},
}

// manySeries returns text with 300,000 series. The text is built only once, so that even a busy
// machine can respond within the scrape timeout.
var manySeries = sync.OnceValue(func() string {
	var b strings.Builder
	for i := range 300_000 {
		fmt.Fprintf(&b, "X{i=\"%d\"} 1\n", i)
	}
	return b.String()
})

// bomb returns 1 GB of samples, compressed with gzip.
var bomb = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	chunk := []byte(strings.Repeat("DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-bomb\"} 1\n", 1<<14))
	for sent := 0; sent < 1<<30; sent += len(chunk) {
		_, _ = z.Write(chunk)
	}
	_ = z.Close()
	return b.Bytes()
})

// trial consists of an agent, its exporter, and its backend.
type trial struct {
	exporter *exporter
	backend  *backend
	agent    *collector
	setting  setting
}

// newTrial starts a trial and waits for a complete window, to ensure that everything works before
// the fault begins.
func newTrial(t *testing.T, s setting, prepare ...func(*exporter)) *trial {
	t.Helper()
	processtest.Binary(t, "otelcol-gpu")
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, filepath.Base(t.Name()))
	e := newExporter(t, name, prepare...)
	tr := &trial{exporter: e, backend: newBackend(t), setting: s}
	env := map[string]string{"DCGM_ENDPOINT": e.url(), "OTLP_ENDPOINT": tr.backend.url(), "STORAGE_DIR": t.TempDir()}
	maps.Copy(env, s.env)
	tr.setting.env = env
	tr.setting.set = append(append([]string(nil), fast...), s.set...)
	tr.agent = startCollector(t, tr.setting)
	tr.coveredWindow(t, time.Time{})
	return tr
}

// coveredWindow waits for a window that started after the given time and has a coverage of at least
// 0.8.
func (tr *trial) coveredWindow(t *testing.T, after time.Time) {
	t.Helper()
	processtest.Until(t, "a complete window", func() bool {
		for _, p := range tr.backend.all() {
			if p.metric == signal.WindowCoverage.Name && p.device == tr.exporter.device(0) && p.value >= 0.8 && p.end.Add(-window).After(after) {
				return true
			}
		}
		return false
	}, tr.agent.Process)
}

// The pass function waits until the given time.
func pass(t *testing.T, c *collector, until time.Time) {
	t.Helper()
	processtest.Until(t, "time to pass", func() bool { return time.Now().After(until) }, c.Process)
}

// recovered waits for the first successful scrape after the given time, and returns the number of
// seconds from that time to the scrape.
func (tr *trial) recovered(t *testing.T, since time.Time, url string) float64 {
	t.Helper()
	var took time.Duration
	processtest.Until(t, "a successful scrape", func() bool {
		for _, p := range ups(tr.backend.all(), url, since) {
			if p.value == 1 {
				took = p.end.Sub(since)
				return true
			}
		}
		return false
	}, tr.agent.Process)
	return took.Seconds()
}

// finish stops the agent, checks all received windows, and reports the result.
func (tr *trial) finish(t *testing.T, r result, allow tolerance) {
	t.Helper()
	tr.agent.stop(t)
	v := judge(t, tr.exporter, tr.backend.all(), allow)
	assert.LessOrEqual(t, tr.agent.peak, float64(memoryBound), "highest resident memory in MiB")
	r.windows, r.lost, r.doubled, r.peak = v.windows, strconv.Itoa(v.lost), strconv.Itoa(v.doubled), tr.agent.peak
	report(t, r)
}

// The gaps method checks that no window lies entirely within a period in which the exporter served
// nothing.
func (tr *trial) gaps(t *testing.T, from, to time.Time) {
	t.Helper()
	for _, p := range tr.backend.all() {
		if p.device == tr.exporter.device(0) && p.metric == signal.WindowSamples.Name {
			assert.False(t, p.end.Add(-window).After(from) && p.end.Before(to), "a window ending at %s, while the exporter served nothing", p.end)
		}
	}
}

// An exporter that does not return valid responses must cause only a gap in the data. Such an
// exporter must not cause zero values or a crash. The first valid response after the gap must be
// counted.
func TestAFailingExporterCausesOnlyAGap(t *testing.T) {
	t.Parallel()
	for _, f := range exporterFaults {
		t.Run(f.fault, func(t *testing.T) {
			t.Parallel()
			var set []string
			if f.outcome == "too_large" { // a busy machine must reach the limit before the timeout
				bomb()
				set = []string{
					"receivers.dcgm.collection_interval=500ms", "receivers.dcgm.timeout=500ms", "receivers.dcgm.max_body_size=1048576",
				}
			}
			tr := newTrial(t, setting{set: set})
			broke := time.Now()
			tr.exporter.breaks(f.answer)
			pass(t, tr.agent, broke.Add(outage))
			processtest.Until(t, "the outcome "+f.outcome, func() bool {
				return tr.agent.metric(t, "otelcol_receiver_dcgm_scrapes", `outcome="`+f.outcome+`"`) >= 3
			}, tr.agent.Process)
			mended := time.Now()
			tr.exporter.breaks(nil)
			took := tr.recovered(t, mended, "")
			tr.coveredWindow(t, mended)
			for _, p := range ups(tr.backend.all(), "", broke) {
				if p.end.Before(mended.Add(-window)) {
					assert.Zero(t, p.value, "up %s after the fault began", p.end.Sub(broke))
				}
			}
			tr.gaps(t, broke.Add(interval), mended)
			tr.finish(t, result{
				group: "exporter", fault: f.fault, recovery: took,
				held: "`gpu.exporter.up` is 0, and the outcome is `" + f.outcome + "`",
			}, tolerance{})
		})
	}
}

// If every response contains new devices or new pods, the data for the real devices must not be
// affected.
func TestChurnDoesNotAffectTheRealDevices(t *testing.T) {
	t.Parallel()
	devices := either(200, 1000)
	for name, churn := range map[string]func(e *exporter){
		"label churn: every response names a different pod": func(e *exporter) {
			e.adds(func(n int) string {
				return fmt.Sprintf(`,namespace="ml",pod="job-%d",container="main"`, n)
			}, nil)
		},
		fmt.Sprintf("cardinality explosion: %d new devices in every answer", devices): func(e *exporter) {
			e.adds(nil, func(n int) string {
				var b strings.Builder
				for i := range devices {
					fmt.Fprintf(&b, "DCGM_FI_DEV_FB_USED{gpu=\"9\",UUID=\"GPU-%d-%d\"} 1\nDCGM_FI_DEV_FB_FREE{gpu=\"9\",UUID=\"GPU-%d-%d\"} 1\n", n, i, n, i)
				}
				return b.String()
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Set limits that are suitable for a single node. With the defaults, which are intended
			// for a central collector, a flood of devices would exceed the receiver's memory_limit.
			tr := newTrial(t, setting{set: []string{stages + ".gpu_synthesizer.max_devices=2000", stages + ".gpu_window.max_series=2000"}})
			churn(tr.exporter)
			pass(t, tr.agent, time.Now().Add(outage))
			pods := map[string]bool{}
			var refused float64
			processtest.Until(t, "rows of further devices", func() bool {
				for _, p := range tr.backend.all() {
					pods[p.pod] = true
				}
				refused = tr.agent.metric(t, "otelcol_processor_gpu_window_samples", "refused")
				return len(pods) > 10 || refused > 1000
			}, tr.agent.Process)
			mended := time.Now()
			tr.exporter.adds(nil, nil)
			tr.coveredWindow(t, mended)
			held := fmt.Sprintf("%d holders appeared and disappeared, and device series did not change", len(pods)-1)
			if refused > 0 {
				held = fmt.Sprintf("with `max_devices: 2000` and `max_series: 2000`, %.0f samples of new series are refused, and all samples of known series are accepted", refused)
			}
			tr.finish(t, result{group: "exporter", fault: name, held: held, recovery: -1}, tolerance{})
		})
	}
}

func TestAnExporterThatRestartsRestartsItsCounters(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, setting{})
	var mended time.Time
	for range either(2, 10) {
		tr.exporter.restart(t)
		mended = time.Now()
		tr.coveredWindow(t, mended)
	}
	tr.finish(t, result{
		group: "exporter", fault: "restart with counters reset", held: "no increase is negative or implausible, and the counts of XID errors are exact",
		recovery: tr.recovered(t, mended, ""),
	}, tolerance{})
}

func TestARemovedHostNameIsAGap(t *testing.T) {
	t.Parallel()
	processtest.Binary(t, "otelcol-gpu")
	requireMounts(t)
	dir := t.TempDir()
	hosts, resolver := filepath.Join(dir, "hosts"), filepath.Join(dir, "resolv.conf")
	const known = "127.0.0.1 localhost dcgm.test\n"
	require.NoError(t, os.WriteFile(hosts, []byte(known), 0o600))
	require.NoError(t, os.WriteFile(resolver, []byte("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"), 0o600))
	tr := newTrial(t, setting{
		mounts: fmt.Sprintf("mount --bind %s /etc/hosts; mount --bind %s /etc/resolv.conf", hosts, resolver),
		set:    []string{"receivers.dcgm.http.disable_keep_alives=true"}, // reused connections would not need name resolution
	}, func(e *exporter) { e.host = "dcgm.test" })

	// The resolver rereads the hosts file every 5 s.
	require.NoError(t, os.WriteFile(hosts, []byte("127.0.0.1 localhost\n"), 0o600))
	processtest.Until(t, "the name to be unresolvable", func() bool {
		found := ups(tr.backend.all(), "", time.Time{})
		return len(found) > 5 && found[len(found)-1].value == 0
	}, tr.agent.Process)
	pass(t, tr.agent, time.Now().Add(outage))
	assert.Positive(t, tr.agent.metric(t, "otelcol_receiver_dcgm_scrapes", `outcome="connect"`))
	mended := time.Now()
	require.NoError(t, os.WriteFile(hosts, []byte(known), 0o600))
	took := tr.recovered(t, mended, "")
	tr.coveredWindow(t, mended)
	tr.finish(t, result{
		group: "exporter", fault: "DNS unavailable", recovery: took,
		held: "`gpu.exporter.up` is 0, and the outcome is `connect`; recovery takes up to 5 s, because the hosts file is read again at this interval",
	}, tolerance{})
}

func TestACertificateThatExpiresIsAGap(t *testing.T) {
	t.Parallel()
	ca, issue := certificates(t)
	valid, expired := issue(time.Now().Add(time.Hour)), issue(time.Now().Add(-time.Minute))
	var current atomic.Pointer[tls.Certificate]
	current.Store(valid)
	file := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(file, ca, 0o600))
	tr := newTrial(t, setting{set: []string{
		"receivers.dcgm.http.disable_keep_alives=true", // a reused connection does not check the certificate again
		"receivers.dcgm.http.tls.ca_file=" + file,
	}}, func(e *exporter) {
		e.scheme = "https"
		e.wrap = func(l net.Listener) net.Listener {
			return tls.NewListener(l, &tls.Config{
				MinVersion:     tls.VersionTLS12,
				GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return current.Load(), nil },
			})
		}
	})
	broke := time.Now()
	current.Store(expired)
	pass(t, tr.agent, broke.Add(outage))
	assert.Positive(t, tr.agent.metric(t, "otelcol_receiver_dcgm_scrapes", `outcome="tls"`))
	mended := time.Now()
	current.Store(valid)
	took := tr.recovered(t, mended, "")
	tr.coveredWindow(t, mended)
	tr.gaps(t, broke.Add(interval), mended)
	tr.finish(t, result{
		group: "exporter", fault: "TLS certificate expired", held: "`gpu.exporter.up` is 0, and the outcome is `tls`", recovery: took,
	}, tolerance{})
}

// certificates returns a CA certificate in PEM format and a function that issues a server
// certificate with the given expiration time.
func certificates(t *testing.T) (ca []byte, issue func(notAfter time.Time) *tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, authority, authority, key.Public(), key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), func(notAfter time.Time) *tls.Certificate {
		leaf := &x509.Certificate{
			SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: notAfter,
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		}
		der, err := x509.CreateCertificate(rand.Reader, leaf, authority, key.Public(), key)
		require.NoError(t, err)
		return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	}
}
