// Command dcgmsim simulates dcgm-exporter without a GPU. dcgmsim serves scripted scenarios or
// recorded output, in the format of any exporter generation. README.md in this directory describes
// the flags and scenarios.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/dcgmsim"
)

// Exit statuses of the command.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// shutdownTimeout is how long responses in progress may continue after a signal.
const shutdownTimeout = 2 * time.Second

// exporterTimeout is the read and write timeout of the HTTP server, which is the same as in
// dcgm-exporter.
const exporterTimeout = 10 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// options contains the parsed flags.
type options struct {
	listen string
	config dcgmsim.Config
	replay []string
}

// run serves metrics until ctx is done. The exit status is 0 after a clean shutdown, 1 if serving
// failed, and 2 if the flags are invalid.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "dcgmsim: %v\n", err)
		return exitUsage
	}
	server, err := newServer(opts)
	if err != nil {
		fmt.Fprintf(stderr, "dcgmsim: %v\n", err)
		return exitUsage
	}
	if err := serve(ctx, opts, server, stdout); err != nil {
		fmt.Fprintf(stderr, "dcgmsim: %v\n", err)
		return exitError
	}
	return exitOK
}

// newServer creates the simulation, reads the recordings to replay, and returns the server.
func newServer(opts *options) (*dcgmsim.Server, error) {
	var settings dcgmsim.ServerSettings
	for _, name := range opts.replay {
		body, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("--replay: %q: want a file that can be read: %w", name, err)
		}
		settings.Replay = append(settings.Replay, body)
	}
	simulation, err := dcgmsim.New(opts.config)
	if err != nil {
		return nil, fmt.Errorf("--%w", err) // The error text begins with the name of the setting, which is also the name of the flag.
	}
	return dcgmsim.NewServer(simulation, settings), nil
}

// serve listens on the configured address and serves metrics until ctx is done.
func serve(ctx context.Context, opts *options, handler *dcgmsim.Server, stdout io.Writer) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", opts.listen)
	if err != nil {
		return fmt.Errorf("--listen: %q: want a free address host:port: %w", opts.listen, err)
	}
	server := &http.Server{Handler: handler, ReadTimeout: exporterTimeout, WriteTimeout: exporterTimeout}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	fmt.Fprintf(stdout, "dcgmsim: %s, style %s, on http://%s/metrics\n", describe(opts), opts.config.Style, listener.Addr())

	select {
	case err = <-failed:
		return fmt.Errorf("serving failed: %w", err)
	case <-ctx.Done():
	}
	handler.Close()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(stopping); err != nil {
		// Close connections that are still busy after the timeout.
		_ = server.Close()
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving failed: %w", err)
	}
	return nil
}

// The describe function returns a short description of the simulation.
func describe(opts *options) string {
	nodes := "1 node"
	if opts.config.Nodes > 1 {
		nodes = fmt.Sprintf("%d nodes (/node/0/metrics to /node/%d/metrics)", opts.config.Nodes, opts.config.Nodes-1)
	}
	if len(opts.replay) > 0 {
		return fmt.Sprintf("replay of %d file(s) on %s", len(opts.replay), nodes)
	}
	return fmt.Sprintf("scenario %s, %s of %d GPUs", opts.config.Scenario, nodes, opts.config.GPUs)
}

// parse parses the flags. If help is requested, parse prints the usage and returns flag.ErrHelp.
func parse(args []string, stderr io.Writer) (*options, error) {
	opts := &options{config: dcgmsim.NewDefaultConfig()}
	fs := flag.NewFlagSet("dcgmsim", flag.ContinueOnError)
	fs.SetOutput(io.Discard)

	c := &opts.config
	fs.StringVar(&opts.listen, "listen", "127.0.0.1:9400", "`address` to serve on")
	fs.StringVar(&c.Scenario, "scenario", c.Scenario, "scenario of the GPUs: "+dcgmsim.List(dcgmsim.Scenarios()))
	text(fs, &c.Style, "style", "exporter generation: "+dcgmsim.List(dcgmsim.Styles()))
	text(fs, &c.Fields, "fields", "counters csv: default (the style's default-counters.csv) or all")
	intFlag(fs, &c.Nodes, "nodes", "number of nodes, served at /node/<n>/metrics")
	intFlag(fs, &c.GPUs, "gpus", "GPUs of each node")
	intFlag(fs, &c.MIG, "mig", "1g MIG instances of each GPU; 0 means that the scenario determines them")
	fs.Func("collect-interval", fmt.Sprintf("time for which the same values are served (default %s, the exporter's is 30s); "+
		"0s computes new values for each scrape", c.CollectInterval), func(value string) error {
		d, err := time.ParseDuration(value)
		if err != nil {
			return errors.New("want a duration such as 30s")
		}
		c.CollectInterval = d
		return nil
	})
	fs.Func("replay", "recorded `file` to serve unchanged instead of a scenario; repeat to serve several in turn", func(value string) error {
		opts.replay = append(opts.replay, value)
		return nil
	})

	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(stderr, "dcgmsim serves what a dcgm-exporter would, without a GPU.\n\nFlags:")
			fs.SetOutput(stderr)
			fs.PrintDefaults()
		}
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("%q: want flags only", fs.Arg(0))
	}
	return opts, nil
}

// Defines a string flag whose value Config.Validate checks.
func text[T ~string](fs *flag.FlagSet, p *T, name, usage string) {
	fs.Func(name, fmt.Sprintf("%s (default %s)", usage, *p), func(value string) error {
		*p = T(value)
		return nil
	})
}

// Defines an integer flag. Config.Validate checks that the flag's value is in range.
func intFlag(fs *flag.FlagSet, p *int, name, usage string) {
	fs.Func(name, fmt.Sprintf("%s (default %d)", usage, *p), func(value string) error {
		n, err := strconv.Atoi(value)
		if err != nil {
			return errors.New("want a whole number")
		}
		*p = n
		return nil
	})
}
