package gpuviewexporter

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/live"
	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/store"
)

const (
	// documentAge is the age at which a document is too old to be sent to clients. Until a document
	// reaches documentAge, all requests receive the same document, so additional clients do not
	// cause additional work.
	documentAge = time.Second
	// Before the next request, a client waits until the next window is expected, but at least
	// minWait and at most maxWait. If the next window is overdue, the client waits for overdueWait.
	// Clients therefore notice other changes, such as an exporter that goes down, within maxWait.
	minWait, overdueWait, maxWait = time.Second, 5 * time.Second, 15 * time.Second
)

// The documents type serves the state of the store as a document that all clients share. If the
// current document is too old, the next request builds a new document. A client that already has
// the current document receives a response without a body.
type documents struct {
	store *store.Store
	age   time.Duration // documentAge, except in tests

	mu       sync.Mutex
	built    time.Time
	expected time.Time // the time at which the next window is expected
	current  *document

	// The following fields count the responses by result.
	sent, unchanged, refused atomic.Int64
}

// The document type contains an encoded document. A document is immutable.
type document struct {
	text, compressed []byte
	// The tag field is the ETag, which is a hash of the text. The ETag is weak, because the
	// compressed and the uncompressed text have the same ETag.
	tag string
}

func newDocuments(s *store.Store) *documents { return &documents{store: s, age: documentAge} }

// The get method returns the current document, and how long clients should wait before they send
// the next request.
func (d *documents) get(now time.Time) (current *document, wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current == nil || now.Sub(d.built) >= d.age || now.Before(d.built) {
		built, expected := live.Build(d.store, now)
		d.built, d.expected = now, expected
		if text := built.Encode(); d.current == nil || !bytes.Equal(text, d.current.text) {
			d.current = newDocument(text)
		}
	}
	// Wait one more second, because the last batch of the window may arrive late.
	if wait = d.expected.Add(time.Second).Sub(now); wait <= 0 {
		return d.current, overdueWait
	}
	return d.current, min(max(wait, minWait), maxWait)
}

func newDocument(text []byte) *document {
	hash := sha256.Sum256(text)
	var compressed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&compressed, gzip.BestSpeed) // NewWriterLevel fails only if the level is invalid.
	_, _ = w.Write(text)                                     // Writing to a buffer cannot fail.
	_ = w.Close()
	return &document{text, compressed.Bytes(), `W/"` + hex.EncodeToString(hash[:12]) + `"`}
}

// ServeHTTP implements http.Handler.
func (d *documents) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	current, wait := d.get(time.Now())
	h := w.Header()
	h.Set("Etag", current.tag)
	h.Set("Vary", "Accept-Encoding")
	// Shared caches must not store the document, because the Date header and max-age are specific
	// to each response.
	h.Set("Cache-Control", fmt.Sprintf("private, max-age=%d", int(wait.Seconds())))
	if matches(r.Header.Get("If-None-Match"), current.tag) {
		d.unchanged.Add(1)
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := current.text
	h.Set("Content-Type", "application/json")
	if acceptsGzip(r.Header.Get("Accept-Encoding")) {
		body = current.compressed
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	d.sent.Add(1)
	// A write error means that the client has disconnected.
	_, _ = w.Write(body)
}

// The matches function reports whether an If-None-Match header contains the tag. The prefix W/ is
// ignored, because a proxy that recompresses the body may remove the prefix.
func matches(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		if one = strings.TrimSpace(one); one != "" && strings.TrimPrefix(one, "W/") == strings.TrimPrefix(tag, "W/") {
			return true
		}
	}
	return false
}

// acceptsGzip reports whether an Accept-Encoding header lists gzip with a weight greater than 0.
func acceptsGzip(header string) bool {
	for one := range strings.SplitSeq(header, ",") {
		name, parameters, _ := strings.Cut(strings.TrimSpace(one), ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		weight, found := strings.CutPrefix(strings.ReplaceAll(parameters, " ", ""), "q=")
		q, err := strconv.ParseFloat(weight, 64)
		return !found || err == nil && q > 0
	}
	return false
}
