package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/cmd/gpudoctor/internal/top"
)

const (
	// maxBody is the maximum size of an exposition in bytes.
	maxBody = 64 << 20
	// excerptSize is the maximum length of an excerpt from an error response, in bytes.
	excerptSize = 200
)

// source is the URL, file, or standard input from which an exposition is read.
type source struct {
	// name is the URL or file name that the user entered, without credentials.
	name string
	url  *url.URL // Nil for a file or standard input.
	path string   // The value "-" means standard input.
}

// parseSource parses a URL or a file name.
func parseSource(arg string) (source, error) {
	if !strings.Contains(arg, "://") {
		if arg == "-" {
			return source{name: "standard input", path: arg}, nil
		}
		if _, err := os.Stat(arg); errors.Is(err, fs.ErrNotExist) {
			return source{}, fmt.Errorf("%q is neither a file nor a URL; want http://HOST:9400/metrics", arg)
		}
		return source{name: arg, path: arg}, nil
	}
	u, err := url.Parse(arg)
	if err != nil {
		return source{}, errors.New("the URL is invalid; want http://HOST:9400/metrics")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return source{}, fmt.Errorf("%q: want http://HOST:9400/metrics or https://", u.Redacted())
	}
	// At the root path, exporters serve an HTML page instead of metrics.
	if u.Path == "" || u.Path == "/" {
		u.Path = "/metrics"
	}
	return source{name: u.Redacted(), url: u}, nil
}

// fetcher fetches either expositions or responses from the API of a gpu_view page.
type fetcher struct {
	timeout  time.Duration
	insecure bool
	header   http.Header
	stdin    io.Reader
	page     bool // whether to fetch from the API of a gpu_view page
}

// newFetcher returns a fetcher. If page is true, the fetcher fetches responses from the API of a
// gpu_view page. Otherwise, the fetcher fetches expositions.
func newFetcher(page bool) fetcher { return fetcher{header: http.Header{}, page: page} }

// flags defines the command-line flags that configure requests.
func (f *fetcher) flags(set *flag.FlagSet) {
	set.BoolVar(&f.insecure, "insecure", false, "do not check the server's certificate")
	set.DurationVar(&f.timeout, "timeout", defaultTimeout, "time limit of a request")
	set.Func("header", "`header` of the request, such as 'Authorization: Bearer TOKEN'; repeat for several", func(value string) error {
		name, text, ok := strings.Cut(value, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return errors.New("want NAME: VALUE")
		}
		f.header.Add(strings.TrimSpace(name), strings.TrimSpace(text))
		return nil
	})
}

func (f *fetcher) valid() error {
	if f.timeout <= 0 {
		return fmt.Errorf("-timeout must be positive (got %s)", f.timeout)
	}
	return nil
}

// The open method returns a reader for the text of the exposition. The caller must close the
// reader.
func (f *fetcher) open(ctx context.Context, s source) (io.ReadCloser, error) {
	switch {
	case s.path == "-":
		return io.NopCloser(f.stdin), nil
	case s.url == nil:
		file, err := os.Open(s.path)
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			return nil, fmt.Errorf("cannot open the file: %w", e.Err) // the caller adds the path to the error
		}
		return file, err
	}
	return f.get(ctx, s.url)
}

// get sends one request and returns the body of the response.
func (f *fetcher) get(ctx context.Context, u *url.URL) (io.ReadCloser, error) {
	text, _, err := f.getChanged(ctx, u, "")
	return text, err
}

// getChanged sends one request, and returns the body and the ETag of the response. If the current
// ETag equals the tag parameter, the returned body is nil. If tag is empty, the returned body is
// never nil. The HTTP transport requests gzip and decompresses the body.
func (f *fetcher) getChanged(ctx context.Context, u *url.URL, tag string) (text io.ReadCloser, newTag string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody) //nolint:gosec // The user specifies the URL.
	if err != nil {
		return nil, "", errors.New("the URL is invalid")
	}
	maps.Copy(req.Header, f.header)
	if tag != "" {
		req.Header.Set("If-None-Match", tag)
	}
	if host := f.header.Get("Host"); host != "" {
		req.Host = host
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()            //nolint:forcetypeassert // This is the documented type of DefaultTransport.
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: f.insecure} //nolint:gosec // The user sets this with -insecure.
	transport.DisableKeepAlives = true
	client := &http.Client{Transport: transport, CheckRedirect: checkRedirect}
	resp, err := client.Do(req) //nolint:gosec // requested by the user
	if err != nil {
		return nil, "", f.explain(err)
	}
	if tag != "" && resp.StatusCode == http.StatusNotModified {
		resp.Body.Close()
		return nil, tag, nil
	}
	if err := f.check(resp); err != nil {
		resp.Body.Close()
		return nil, "", err
	}
	return body{http.MaxBytesReader(nil, resp.Body, maxBody), f}, resp.Header.Get("ETag"), nil
}

// checkRedirect rejects redirects to other hosts and from HTTPS to HTTP, so that the client does
// not send the user's headers there. checkRedirect also rejects the sixth redirect in a row.
func checkRedirect(req *http.Request, via []*http.Request) error {
	last := via[len(via)-1].URL
	if len(via) > 5 || req.URL.Hostname() != last.Hostname() || last.Scheme == "https" && req.URL.Scheme != "https" {
		return errors.New("the server redirects to another host; use that URL if you trust it")
	}
	return nil
}

// body is a response body that adds explanations to read errors.
type body struct {
	io.ReadCloser
	fetcher *fetcher
}

func (b body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.fetcher.explain(err)
	}
	return n, err
}

// The check method returns an error if the status or the content type of a response is wrong. The
// response must be an exposition or, if f.page is set, a response from the API of a gpu_view page.
func (f *fetcher) check(resp *http.Response) error {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch status := resp.StatusCode; {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return fmt.Errorf("HTTP status %s: give credentials with -header 'Authorization: …'", resp.Status)
	case f.page && (status == http.StatusNotFound || status == http.StatusOK && kind != "application/json"):
		return errors.New("the server has no gpu_view page; for an exporter, add /metrics to the URL")
	case status == http.StatusNotFound:
		return fmt.Errorf("HTTP status %s: does the path end in /metrics?", resp.Status)
	case status == http.StatusInternalServerError && !f.page:
		return fmt.Errorf("HTTP status %s: exporters since 4.6.0-4.8.3 reject the entire scrape because of one bad row%s", resp.Status, excerpt(resp.Body))
	case status != http.StatusOK:
		return fmt.Errorf("HTTP status %s%s", resp.Status, excerpt(resp.Body))
	case kind == "text/html":
		return errors.New("the response is an HTML page: does the path end in /metrics?")
	}
	return nil
}

// excerpt returns the beginning of an error response as a single line that can be appended to a
// message.
func excerpt(r io.Reader) string {
	text, _ := io.ReadAll(io.LimitReader(r, excerptSize))
	if line := top.Printable(strings.Join(strings.Fields(string(text)), " ")); line != "" {
		return ": " + line
	}
	return ""
}

// The explain method returns an error that explains why a request received no complete response.
// The error omits the URL, because the caller prints the URL, and the URL may contain a password.
func (f *fetcher) explain(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	var (
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		record    tls.RecordHeaderError
		size      *http.MaxBytesError
	)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no complete response within %s (-timeout)", f.timeout)
	case errors.Is(err, syscall.ECONNREFUSED) && f.page:
		return errors.New("connection refused: is a collector with gpu_view running, and is this its port (9411)?")
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("connection refused: is the exporter running, and is this its port (9400)?")
	case errors.As(err, &authority), errors.As(err, &hostname):
		return fmt.Errorf("%w (-insecure does not check it)", err)
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return errors.New("the port does not use TLS: try http://")
	case errors.As(err, &size):
		return fmt.Errorf("the response is larger than %d MiB", maxBody>>20)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the response is incomplete")
	}
	return err
}
