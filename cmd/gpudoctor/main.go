// Command gpudoctor reports which signals an exporter provides, why others are missing, and how to
// enable them. gpudoctor also checks a collector's configuration, displays devices in a terminal,
// compares the sources of GPU values on a machine, and records an exporter's output.
//
// gpudoctor reads an exposition once, in the same way as the collector. If the exposition does not
// prove a cause, gpudoctor reports the cause as likely.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/cmd/gpudoctor/internal/capture"
	"github.com/otelcol-gpu/otelcol-gpu/cmd/gpudoctor/internal/top"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/diagnose"
)

// Exit statuses of the command.
const (
	exitComplete = 0
	exitMissing  = 1
	exitUnread   = 2
)

// version is the version of the distribution, which must be the same as in builder-config.yaml.
const version = "0.1.0"

const defaultTimeout = 15 * time.Second

const usage = `usage: gpudoctor COMMAND [flags] [arguments]

  check URL|FILE|-    which signals an exporter gives, why others are missing, and what turns them on
  lint FILE...        what is wrong in a collector's configuration; several files are merged
  top [URL]           the newest values of every device, in a terminal
  verify              compare NVML, dcgm-exporter and nvidia-smi on a machine with GPUs
  capture URL|FILE|-  a recording of an exporter without names and ids, to attach to an issue
  version             the version
  help [COMMAND]      the flags of a command

Without a command, gpudoctor URL|FILE|- is check.
`

const checkUsage = `usage: gpudoctor check [flags] URL|FILE|-
Reports which signals an exporter gives, why others are missing, and what turns them on.
URL is http://HOST:9400/metrics; FILE has the text of such a response; - reads it from standard input.
Exit status: 0 every signal is available, 1 some are missing, 2 nothing to read.

Flags:
`

const lintUsage = `usage: gpudoctor lint [flags] FILE...
Reports what is wrong in the pipelines of a collector's configuration: the order of components, missing components and
intervals. Several files are merged, as the collector does. Exit status: 0 nothing is wrong, 1 something is, 2 no pipeline.

Flags:
`

const captureUsage = `usage: gpudoctor capture [flags] URL|FILE|-
Writes what an exporter exposes to standard output. Names of pods, hosts and jobs, and ids of devices are replaced; models,
versions and values stay. Review it before you attach it to an issue. Exit status: 0, or 2 if there is nothing to read.

Flags:
`

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// options contains the parsed command line of check and capture.
type options struct {
	fetcher   fetcher
	json, csv bool
	source    source
}

// command is the type of functions that run a command with its arguments and return the exit
// status.
type command func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int

// commands maps names to the commands that accept flags.
var commands = map[string]command{
	"check": runCheck, "lint": runLint, "capture": runCapture,
	"top": func(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
		return runTop(ctx, args, stdout, stderr)
	},
	"verify": func(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
		return runVerify(ctx, args, stdout, stderr)
	},
}

// run runs the command line in args and returns the exit status instead of exiting.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	first := ""
	if len(args) > 0 {
		first = args[0]
	}
	if c, ok := commands[first]; ok {
		return c(ctx, args[1:], stdin, stdout, stderr)
	}
	switch first {
	case "":
		fmt.Fprint(stderr, usage)
		return exitUnread
	case "-h", "-help", "--help":
		return help(ctx, nil, stdout, stderr)
	case "version", "-version", "--version":
		fmt.Fprintln(stdout, "gpudoctor version", version)
		return exitComplete
	case "help":
		return help(ctx, args[1:], stdout, stderr)
	}
	if _, err := os.Stat(first); errors.Is(err, os.ErrNotExist) {
		if meant := componenthelper.Similar(first, commandNames()); meant != "" {
			return exit(false, fmt.Errorf("%q is neither a command, a file nor a URL; did you mean %s?", first, meant), stderr)
		}
	}
	return runCheck(ctx, args, stdin, stdout, stderr)
}

// commandNames returns the names of all commands.
func commandNames() []string { return append(slices.Sorted(maps.Keys(commands)), "version", "help") }

// help prints the usage of a command, or of all commands.
func help(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") || args[0] == "help" || args[0] == "version" {
		fmt.Fprint(stderr, usage)
		return exitComplete
	}
	c, ok := commands[args[0]]
	if !ok {
		return exit(false, fmt.Errorf("%q is not a command; the commands are %s", args[0], strings.Join(commandNames(), ", ")), stderr)
	}
	return c(ctx, []string{"-h"}, nil, stdout, stderr)
}

// runCheck diagnoses an exporter.
func runCheck(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o := &options{fetcher: newFetcher(false)}
	fs := newFlags("gpudoctor check")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	fs.BoolVar(&o.csv, "csv", false, "print a complete csv for dcgm-exporter: the lines for what it exposes, and those for what is missing")
	if err := o.parse(fs, args, checkUsage, stderr); err != nil {
		return exit(false, err, stderr)
	}
	o.fetcher.stdin = stdin
	if o.csv {
		err := o.writeCSV(ctx, stdout)
		if err != nil {
			err = fmt.Errorf("%s: %w", o.source.name, err)
		}
		return exit(true, err, stderr)
	}
	complete, err := o.examine(ctx, stdout)
	return exit(complete, err, stderr)
}

// runCapture writes an anonymized recording of an exporter.
func runCapture(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o := &options{fetcher: newFetcher(false)}
	if err := o.parse(newFlags("gpudoctor capture"), args, captureUsage, stderr); err != nil {
		return exit(false, err, stderr)
	}
	o.fetcher.stdin = stdin
	ctx, cancel := context.WithTimeout(ctx, o.fetcher.timeout)
	defer cancel()
	text, err := o.fetcher.open(ctx, o.source)
	if err != nil {
		return exit(false, fmt.Errorf("%s: %w", o.source.name, err), stderr)
	}
	defer text.Close()
	r, err := capture.Anonymize(stdout, text)
	switch {
	case err != nil:
		err = fmt.Errorf("%s: %w", o.source.name, err)
	case r.Samples == 0:
		err = fmt.Errorf("%s: no line is a metric of %s", o.source.name, exporterNames())
	}
	if r.Dropped > 0 {
		fmt.Fprintf(stderr, "gpudoctor: dropped %s that cannot be parsed or belong to no known exporter\n", top.Counted(r.Dropped, "line"))
	}
	return exit(true, err, stderr)
}

// runLint checks a collector's configuration.
func runLint(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	fs := newFlags("gpudoctor lint")
	asJSON := fs.Bool("json", false, "print JSON")
	if err := parse(fs, args, lintUsage, stderr); err != nil {
		return exit(false, err, stderr)
	}
	if fs.NArg() == 0 {
		return exit(false, errors.New("want at least one FILE after the flags; see gpudoctor help lint"), stderr)
	}
	right, err := lint(ctx, fs.Args(), *asJSON, stdout)
	return exit(right, err, stderr)
}

// Prints err, if it is not nil, and returns the exit status.
func exit(complete bool, err error, stderr io.Writer) int {
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitComplete
	case err != nil:
		fmt.Fprintln(stderr, "gpudoctor:", err)
		return exitUnread
	case !complete:
		return exitMissing
	}
	return exitComplete
}

// newFlags returns a flag set for a command. The flag set prints nothing, because the exit function
// prints the errors.
func newFlags(command string) *flag.FlagSet {
	fs := flag.NewFlagSet(command, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	return fs
}

// parse parses a command line, and prints the usage if help is requested.
func parse(fs *flag.FlagSet, args []string, usage string, stderr io.Writer) error {
	err := fs.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stderr, usage)
		fs.SetOutput(stderr)
		fs.PrintDefaults()
	}
	// For a duration without a unit, the flag package returns only "parse error".
	if err != nil && strings.HasPrefix(err.Error(), "invalid value") {
		if said, ok := strings.CutSuffix(err.Error(), ": parse error"); ok {
			return errors.New(said + ": want a duration such as 15s")
		}
	}
	return err
}

// parse parses the flags of a command that reads an exposition.
func (o *options) parse(fs *flag.FlagSet, args []string, usage string, stderr io.Writer) error {
	o.fetcher.flags(fs)
	if err := parse(fs, args, usage, stderr); err != nil {
		return err
	}
	if fs.NArg() != 1 {
		return fmt.Errorf("want one URL, FILE or - after the flags (got %d); see gpudoctor help", fs.NArg())
	}
	if err := o.fetcher.valid(); err != nil {
		return err
	}
	var err error
	o.source, err = parseSource(fs.Arg(0))
	return err
}

// report is a diagnosis and the source that was diagnosed.
type report struct {
	Source string `json:"source"`
	*diagnose.Report
}

// The examine method reads the source once, prints the diagnosis, and reports whether all signals
// are available.
func (o *options) examine(ctx context.Context, out io.Writer) (complete bool, err error) {
	found, err := diagnoseSource(ctx, o)
	if err != nil {
		return false, fmt.Errorf("%s: %w", o.source.name, err)
	}
	r := &report{o.source.name, found}
	if o.json {
		return r.Complete(), writeJSON(out, r)
	}
	_, err = io.WriteString(out, r.text())
	return r.Complete(), err
}

func diagnoseSource(ctx context.Context, o *options) (*diagnose.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, o.fetcher.timeout)
	defer cancel()
	text, err := o.fetcher.open(ctx, o.source)
	if err != nil {
		return nil, err
	}
	defer text.Close()
	var e diagnose.Exposition
	lines, err := read(text, &e)
	if err != nil {
		return nil, err
	}
	r := e.Report()
	switch {
	case lines.samples == 0 && lines.count == 0:
		return nil, errors.New("the response is empty: the exporter is reloading its csv, or the node has no GPU")
	case lines.samples == 0:
		return nil, fmt.Errorf("no line is a metric; line %d is the first of %d that cannot be read", lines.first, lines.count)
	case e.Rows() == 0 && lines.hami > 0:
		return nil, errors.New("this is HAMi's vGPU monitor, which exposes the usage and limits of containers; gpu_synthesizer reads it. For devices, use dcgm-exporter")
	case e.Rows() == 0:
		return nil, fmt.Errorf("%d metrics, none of them of %s", lines.samples, exporterNames())
	case len(r.Devices) == 0:
		return nil, errors.New("the exporter is known, but no row has the id of a device")
	}
	if lines.count > 0 {
		r.Warnings = append(r.Warnings, diagnose.Warning{
			Code: "unreadable_lines",
			Text: fmt.Sprintf("%s cannot be read, line %d first. The collector skips and counts such lines.",
				top.Counted(lines.count, "line"), lines.first),
		})
	}
	return r, nil
}

func writeJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// exporterNames returns the names of the known exporters.
func exporterNames() string {
	var names []string
	for _, x := range exporters.All {
		if !x.OfContainers {
			names = append(names, x.Name)
		}
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
