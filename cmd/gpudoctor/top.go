package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/cmd/gpudoctor/internal/inprocess"
	"github.com/otelcol-gpu/otelcol-gpu/cmd/gpudoctor/internal/top"
	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver"
)

const (
	defaultPage     = "http://localhost:9411"
	defaultInterval = 2 * time.Second
	// defaultWidth is the line width that is used if the width of the terminal is unknown.
	defaultWidth = 120
)

const topUsage = `usage: gpudoctor top [flags] [URL]
Shows the newest window of every device: as a screen on a terminal, otherwise as a line per device and window.
URL is a page of gpu_view (` + defaultPage + `), or an exporter (http://HOST:9400/metrics). For an
exporter it computes windows of 30s. COLUMNS is the line width, NO_COLOR disables colors.
Exit status: 0 after an interrupt or q, 2 when there is nothing to read.

Flags:
`

// topOptions contains the parsed command line of top.
type topOptions struct {
	fetcher  fetcher
	interval time.Duration
	url      *url.URL
	// If the URL belongs to an exporter, window is the window length, and scrape is the time
	// between two scrapes.
	window, scrape time.Duration
}

// runTop displays windows until ctx is done, and returns the exit status.
func runTop(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	o, err := parseTop(args, stderr)
	if err == nil {
		err = o.run(ctx, stdout, stderr)
	}
	return exit(true, err, stderr)
}

func parseTop(args []string, stderr io.Writer) (*topOptions, error) {
	// Exporters read their devices every 30s by default. In a window shorter than 30s, the increase
	// in a counter might cover more time than the window.
	o := &topOptions{fetcher: newFetcher(true), window: 30 * time.Second, scrape: 5 * time.Second}
	fs := newFlags("gpudoctor top")
	o.fetcher.flags(fs)
	fs.DurationVar(&o.interval, "interval", defaultInterval, "time between two requests")
	if err := parse(fs, args, topUsage, stderr); err != nil {
		return nil, err
	}
	address := defaultPage
	switch fs.NArg() {
	case 0:
	case 1:
		address = fs.Arg(0)
	default:
		return nil, fmt.Errorf("want one URL after the flags (got %d); see -h", fs.NArg())
	}
	if o.interval < 100*time.Millisecond {
		return nil, fmt.Errorf("-interval must be at least 100ms (got %s)", o.interval)
	}
	if err := o.fetcher.valid(); err != nil {
		return nil, err
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("the URL cannot be used; want %s for a page, http://HOST:9400/metrics for an exporter", defaultPage)
	}
	o.url = u
	return o, nil
}

// The run method displays the windows of a gpu_view page. If the URL belongs to an exporter, run
// first starts a gpu_view page for that exporter.
func (o *topOptions) run(ctx context.Context, stdout, stderr io.Writer) error {
	name, pageURL, pageFetcher := o.url.Redacted(), o.url, o.fetcher
	if strings.HasSuffix(o.url.Path, "/metrics") {
		page, stop, err := o.serve(ctx, freeAddress)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		defer stop()
		name, pageURL, pageFetcher = name+" (page: "+page.String()+")", page, newFetcher(true)
		pageFetcher.timeout = o.fetcher.timeout
	}
	pageURL = pageURL.JoinPath("api", "devices")
	source := &top.Source{Name: name, Interval: o.interval, Timeout: pageFetcher.timeout, Fetch: func(ctx context.Context, tag string) (io.ReadCloser, string, error) {
		return pageFetcher.getChanged(ctx, pageURL, tag)
	}}
	var err error
	if out, ok := stdout.(*os.File); ok && isTerminal(out) && os.Getenv("TERM") != "dumb" {
		err = top.Screen(ctx, source, time.Local, os.Getenv("NO_COLOR") == "")
	} else {
		err = top.Lines(ctx, source, time.Local, lineWidth(os.Getenv("COLUMNS")), stdout, stderr)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// serveAttempts is the number of ports to try. Several attempts are needed, because another program
// might start to use a free port before the serve method does.
const serveAttempts = 5

// serve computes windows from an exporter's samples and serves the windows on a free port.
func (o *topOptions) serve(ctx context.Context, free func(context.Context) (string, error)) (page *url.URL, stop func(), err error) {
	for range serveAttempts {
		var address string
		if address, err = free(ctx); err != nil {
			return nil, nil, err
		}
		if page, stop, err = o.serveAt(ctx, address); !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return page, stop, err
}

// serveAt is like serve, but uses the given address.
func (o *topOptions) serveAt(ctx context.Context, address string) (page *url.URL, stop func(), err error) {
	headers := map[string]any{}
	for name, values := range o.fetcher.header {
		headers[name] = strings.Join(values, ", ")
	}
	p := inprocess.New(zap.NewNop())
	p.Exporter(ctx, gpuviewexporter.NewFactory(), map[string]any{"endpoint": address})
	p.Receiver(ctx, dcgmreceiver.NewFactory(), map[string]any{
		"endpoints": []any{o.url.String()}, "collection_interval": o.scrape.String(), "timeout": o.fetcher.timeout.String(), "start_jitter": "0s",
		"http": map[string]any{"headers": headers, "tls": map[string]any{"insecure_skip_verify": o.fetcher.insecure}},
		"stages": map[string]any{
			"gpu_k8s": map[string]any{
				"kubernetes": map[string]any{"auth_type": "none"},
				"sources":    map[string]any{"pod_resources": map[string]any{"enabled": false}, "dra": map[string]any{"enabled": false}},
			},
			"gpu_window": map[string]any{"window": o.window.String(), "grace": "1s", "max_gap": (3 * o.scrape).String()},
		},
	})
	end, err := p.Start(ctx)
	if err != nil {
		return nil, nil, err
	}
	// The last window is not needed, so errors during shutdown are ignored.
	return &url.URL{Scheme: "http", Host: address}, func() { _ = end(context.WithoutCancel(ctx)) }, nil
}

// freeAddress returns a loopback address with a free port.
func freeAddress(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// lineWidth parses COLUMNS. COLUMNS may be 0 if the width of the terminal is unknown.
func lineWidth(columns string) int {
	if n, err := strconv.Atoi(columns); err == nil && n > 0 {
		return n
	}
	return defaultWidth
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
