package dcgmreceiver

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"unicode"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
)

// outcome is the result of a scrape. The outcome is also an attribute value in the self-metrics.
type outcome string

const (
	outcomeOK         outcome = "ok"
	outcomeConnect    outcome = "connect"
	outcomeTLS        outcome = "tls"
	outcomeTimeout    outcome = "timeout"
	outcomeRedirect   outcome = "redirect"
	outcomeHTTPStatus outcome = "http_status"
	outcomeEncoding   outcome = "encoding"
	outcomeTruncated  outcome = "truncated"
	outcomeTooLarge   outcome = "too_large"
	outcomeEmpty      outcome = "empty"
	outcomeNotText    outcome = "not_text"

	// outcomeMemoryLimit means that the scrape was skipped because of the memory limit.
	outcomeMemoryLimit outcome = "memory_limit"
	// outcomeBusy means that the scrape was skipped because the previous scrape was not complete.
	outcomeBusy outcome = "busy"
)

var outcomes = []outcome{
	outcomeOK, outcomeConnect, outcomeTLS, outcomeTimeout, outcomeRedirect, outcomeHTTPStatus,
	outcomeEncoding, outcomeTruncated, outcomeTooLarge, outcomeEmpty, outcomeNotText, outcomeMemoryLimit, outcomeBusy,
}

// scrapeError is the reason why a scrape failed. The error text contains no credentials, and
// includes at most an excerpt of the exporter's response.
type scrapeError struct {
	outcome outcome
	err     error
}

func (e *scrapeError) Error() string { return e.err.Error() }
func (e *scrapeError) Unwrap() error { return e.err }

func failed(o outcome, format string, args ...any) *scrapeError {
	return &scrapeError{outcome: o, err: fmt.Errorf(format, args...)}
}

const (
	maxRedirects = 5

	// errorBodySize is the maximum number of bytes of the body that are read if the HTTP status is
	// an error. If the body is shorter, it is read to its end, so that the connection can be
	// reused.
	errorBodySize = 4 << 10

	// excerptSize is the maximum number of bytes of the body that are included in a message.
	excerptSize = 200

	acceptHeader = "text/plain;version=0.0.4;q=1,*/*;q=0.1"
)

var (
	errTooManyRedirects = fmt.Errorf("more than %d redirects", maxRedirects)
	errForeignRedirect  = errors.New("redirect to another host or from https to http")
)

// checkRedirect rejects redirects to another host and redirects from https to http. Following such
// a redirect would send the client's credentials to another host or without encryption, because
// every request contains the credentials.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return errTooManyRedirects
	}
	last := via[len(via)-1].URL
	if req.URL.Hostname() != last.Hostname() || last.Scheme == "https" && req.URL.Scheme != "https" {
		return errForeignRedirect
	}
	return nil
}

// fetcher fetches bodies. A fetcher is safe for concurrent use.
type fetcher struct {
	client      *http.Client
	userAgent   string
	maxBodySize int64 // in bytes, after decompression
	bodies      sync.Pool
}

var errTooLarge = errors.New("larger than max_body_size")

// The body type reads and decompresses the body of a response.
type body struct {
	source  io.Reader
	gzip    gzip.Reader
	maxSize int64 // larger bodies are rejected

	// The following fields describe the data that has been read so far: the number of bytes, the
	// first bytes, the last byte, and whether the end of the body has been reached.
	size  int64
	head  [excerptSize]byte
	last  byte
	ended bool
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.source.Read(p)
	if b.size < excerptSize {
		copy(b.head[b.size:], p[:n])
	}
	if n > 0 {
		b.last = p[n-1]
	}
	if b.size += int64(n); b.size > b.maxSize {
		return n, errTooLarge
	}
	b.ended = b.ended || errors.Is(err, io.EOF)
	return n, err
}

func (b *body) start() []byte { return b.head[:min(b.size, excerptSize)] }

// fetch sends a GET request, passes the body of the response to the given function, and returns the
// first bytes of the body. The given function may stop reading before the end of the body.
func (f *fetcher) fetch(ctx context.Context, u *url.URL, read func(io.Reader) error) (start []byte, _ *scrapeError) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, failed(outcomeConnect, "cannot create the request: %w", withoutURL(err))
	}
	req.Header.Set("Accept", acceptHeader)
	// If the request sets the Accept-Encoding header, the HTTP client does not decompress the body.
	// The receiver decompresses the body itself, so that it can limit the size of the decompressed
	// body.
	req.Header.Set("Accept-Encoding", "gzip")
	req.Header.Set("User-Agent", f.userAgent)
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, connectError(withoutURL(err))
	}
	defer resp.Body.Close()

	b, _ := f.bodies.Get().(*body)
	if b == nil {
		b = &body{}
	}
	defer f.bodies.Put(b)
	b.source, b.maxSize, b.size, b.ended = resp.Body, f.maxBodySize, 0, false
	if failure := f.read(resp, b, read); failure != nil {
		return nil, failure
	}
	return bytes.Clone(b.start()), nil
}

// The read method passes the body of a response to the given function.
func (f *fetcher) read(resp *http.Response, b *body, read func(io.Reader) error) *scrapeError {
	encoding := resp.Header.Get("Content-Encoding")
	compressed := strings.EqualFold(encoding, "gzip")
	var invalidGzip error
	if compressed {
		invalidGzip = b.gzip.Reset(resp.Body)
		b.source = &b.gzip
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		// The error message contains the HTTP status and an excerpt of the body, which may explain
		// the error. A body that cannot be decompressed has no excerpt.
		if invalidGzip == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(b, errorBodySize))
		}
		return failed(outcomeHTTPStatus, "HTTP status %s%s", resp.Status, excerpt(b.start()))
	}
	if invalidGzip != nil {
		return readError(invalidGzip, compressed)
	}
	if !compressed && encoding != "" && !strings.EqualFold(encoding, "identity") {
		return failed(outcomeEncoding, "content encoding %q was not requested", encoding)
	}
	if mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); mediaType == "text/html" {
		return failed(outcomeNotText, "the response is an HTML page")
	}
	if resp.ContentLength > f.maxBodySize {
		return f.tooLarge()
	}
	if err := read(b); err != nil {
		if errors.Is(err, errTooLarge) {
			return f.tooLarge()
		}
		return readError(err, compressed)
	}
	// If the end of the connection is the only marker for the end of the body, only the last byte
	// shows whether the body is complete.
	endedByClose := resp.ProtoMajor == 1 && resp.ContentLength < 0 && len(resp.TransferEncoding) == 0 && !compressed
	if endedByClose && b.ended && b.size > 0 && b.last != '\n' {
		return failed(outcomeTruncated, "the connection ended in the middle of a line")
	}
	return nil
}

func (f *fetcher) tooLarge() *scrapeError {
	return failed(outcomeTooLarge, "the body is larger than max_body_size (%d bytes)", f.maxBodySize)
}

// connectError classifies an error that occurred before a response was received.
func connectError(err error) *scrapeError {
	var (
		record    tls.RecordHeaderError
		alert     tls.AlertError
		cert      *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
	)
	switch {
	case isTimeout(err):
		return failed(outcomeTimeout, "no response within the timeout: %w", err)
	case errors.Is(err, errTooManyRedirects), errors.Is(err, errForeignRedirect):
		return failed(outcomeRedirect, "%w", err)
	case errors.As(err, &record), errors.As(err, &alert), errors.As(err, &cert), errors.As(err, &authority),
		errors.As(err, &hostname), errors.Is(err, http.ErrSchemeMismatch):
		return failed(outcomeTLS, "%w", err)
	default:
		return failed(outcomeConnect, "%w", err)
	}
}

// readError classifies an error that occurred while the body was read.
func readError(err error, compressed bool) *scrapeError {
	var corrupt flate.CorruptInputError
	switch {
	case isTimeout(err):
		return failed(outcomeTimeout, "the body did not arrive within the timeout: %w", err)
	case compressed && (errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.As(err, &corrupt)):
		return failed(outcomeEncoding, "cannot decompress the body: %w", err)
	case compressed && errors.Is(err, io.EOF):
		return failed(outcomeEmpty, "the body is empty")
	default:
		return failed(outcomeTruncated, "the body is cut off: %w", err)
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// withoutURL removes the URL that net/http adds to its errors, because the URL may contain a user
// name.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// The excerpt function returns the beginning of a body as a single line that can be appended to a
// message. If the body is empty, the function returns "".
func excerpt(b []byte) string {
	if len(b) > excerptSize {
		b = b[:excerptSize]
	}
	text := strings.Join(strings.FieldsFunc(strings.ToValidUTF8(string(b), ""), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	if text == "" {
		return ""
	}
	return ": " + text
}
