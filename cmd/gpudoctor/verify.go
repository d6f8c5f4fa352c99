package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/otelcol-gpu/otelcol-gpu/cmd/gpudoctor/internal/load"
	"github.com/otelcol-gpu/otelcol-gpu/cmd/gpudoctor/internal/verify"
)

const verifyUsage = `usage: gpudoctor verify [flags]
On a machine with NVIDIA GPUs: reads NVML, a dcgm-exporter and nvidia-smi over the same time, reports which values
agree and by how much others differ, and answers questions that only hardware can answer. Changes no setting of a device.
The report is Markdown on standard output, fit for an issue.
Exit status: 0 all agrees, 1 something differs, 2 there was nothing to compare.

Flags:
`

// verifyOptions contains the parsed command line of verify.
type verifyOptions struct {
	verify.Options
	fetcher fetcher
	load    bool
	library string
}

// runVerify compares the sources on this machine and returns the exit status.
func runVerify(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parseVerify(args, stderr)
	if err != nil {
		return exit(false, err, stderr)
	}
	return o.run(ctx, stdout, stderr)
}

func parseVerify(args []string, stderr io.Writer) (*verifyOptions, error) {
	o := &verifyOptions{fetcher: newFetcher(false), library: load.Library}
	fs := newFlags("gpudoctor verify")
	fs.StringVar(&o.Exporter, "exporter", "http://localhost:9400/metrics", "`URL` of a dcgm-exporter of this machine; empty for none")
	fs.StringVar(&o.Program, "nvidia-smi", "nvidia-smi", "`program` to compare with; empty for none")
	fs.DurationVar(&o.Duration, "duration", time.Minute, "how long to read")
	fs.DurationVar(&o.Interval, "interval", 5*time.Second, "time between two readings")
	fs.BoolVar(&o.load, "load", false, "keep the GPUs busy for the last three quarters of the time, with 1 GiB on each")
	if err := parse(fs, args, verifyUsage, stderr); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("want flags only (got %q); see -h", fs.Arg(0))
	}
	if o.Interval < time.Second {
		return nil, fmt.Errorf("-interval must be at least 1s (got %s)", o.Interval)
	}
	if o.Duration < 4*o.Interval {
		return nil, fmt.Errorf("-duration must be at least four times -interval, %s (got %s)", 4*o.Interval, o.Duration)
	}
	return o, nil
}

func (o *verifyOptions) run(ctx context.Context, stdout, stderr io.Writer) int {
	o.Log = zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig()), zapcore.AddSync(stderr), zap.WarnLevel))
	var problems []string
	if o.Exporter != "" {
		if err := o.checkExporter(ctx); err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", verify.DCGM, err))
			o.Exporter = ""
		}
	}
	if o.Program != "" {
		path, err := exec.LookPath(o.Program)
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", verify.SMI, err))
		}
		o.Program = path
	}
	if o.load {
		o.Load = func(ctx context.Context) error { return load.Run(ctx, o.library) }
	}
	report, err := verify.Run(ctx, o.Options)
	report.Problems = append(problems, report.Problems...)
	_, unwritten := io.WriteString(stdout, report.Text(version))
	return exit(report.Agrees(), cmp.Or(unwritten, err), stderr)
}

// checkExporter returns an error if the exporter does not respond. The error text contains no
// credentials.
func (o *verifyOptions) checkExporter(ctx context.Context) error {
	s, err := parseSource(o.Exporter)
	if err != nil {
		return err
	}
	if s.url == nil {
		return fmt.Errorf("%q is not a URL", o.Exporter)
	}
	o.Exporter = s.url.String()
	o.fetcher.timeout = defaultTimeout
	ctx, cancel := context.WithTimeout(ctx, defaultTimeout)
	defer cancel()
	body, err := o.fetcher.get(ctx, s.url)
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return body.Close()
}
