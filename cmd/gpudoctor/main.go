// Command gpudoctor says which signals an exporter can give, why the others are missing, and
// what turns it on; of a collector's configuration what is wired or timed wrongly. Its command
// top shows devices in a terminal, verify compares sources on a machine with GPUs.
//
// Without a command it asks once and reads what is exposed, as the collector would. What an
// exposition cannot prove is called likely.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/cmd/gpudoctor/internal/top"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/diagnose"
)

// Exit statuses.
const (
	exitComplete = 0
	exitMissing  = 1
	exitUnread   = 2
)

// version is that of the distribution, as builder-config.yaml has it.
const version = "0.1.0"

const defaultTimeout = 15 * time.Second

const usage = `usage: gpudoctor [flags] URL|FILE|-
       gpudoctor -config FILE
       gpudoctor top [flags] [URL]
       gpudoctor verify [flags]
       gpudoctor help [COMMAND]
       gpudoctor version
Says which signals a dcgm-exporter can give, why others are missing, and what turns them on.
URL is http://HOST:9400/metrics; FILE holds the text of such an answer; - reads it from standard input.
With -config it says what is wired or timed wrongly in a collector's configuration.
Exit status: 0 every signal is there, or nothing is wrong; 1 something is missing or wrong; 2 nothing to read.

Flags:
`

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// options are the command line.
type options struct {
	fetcher fetcher
	json    bool
	source  source
	configs []string
}

// run does everything but leave. It returns the exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		switch args[0] {
		case "top":
			return runTop(ctx, args[1:], stdout, stderr)
		case "verify":
			return runVerify(ctx, args[1:], stdout, stderr)
		case "help":
			command, err := helpOf(args[1:])
			if err != nil {
				return exit(false, err, stderr)
			}
			return run(ctx, append(command, "-h"), stdin, stdout, stderr)
		case "version", "-version", "--version":
			fmt.Fprintln(stdout, "gpudoctor version", version)
			return exitComplete
		}
	}
	o, err := parseFlags(args, stderr)
	if err != nil {
		return exit(false, err, stderr)
	}
	o.fetcher.stdin = stdin
	complete, err := o.examine(ctx, stdout)
	return exit(complete, err, stderr)
}

// commands are those that help can be asked for.
var commands = []string{"top", "verify", "help", "version"}

// helpOf returns the command that help is asked for, empty for the command line without one.
func helpOf(args []string) ([]string, error) {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return nil, nil
	}
	switch command := args[0]; {
	case !slices.Contains(commands, command):
		return nil, fmt.Errorf("%q is no command; the commands are %s", command, strings.Join(commands, ", "))
	case command == "help", command == "version": // they have no flags of their own
		return nil, nil
	}
	return args[:1], nil
}

// exit says what went wrong and returns the exit status.
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

// newFlags returns the flags of a command, which say nothing by themselves: exit does, once.
func newFlags(command string) *flag.FlagSet {
	fs := flag.NewFlagSet(command, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	return fs
}

// parse parses a command line, and explains it where that is asked for.
func parse(fs *flag.FlagSet, args []string, usage string, stderr io.Writer) error {
	err := fs.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stderr, usage)
		fs.SetOutput(stderr)
		fs.PrintDefaults()
	}
	// The flag package says no more of a duration without a unit.
	if err != nil && strings.HasPrefix(err.Error(), "invalid value") {
		if said, ok := strings.CutSuffix(err.Error(), ": parse error"); ok {
			return errors.New(said + ": want a duration such as 15s")
		}
	}
	return err
}

func parseFlags(args []string, stderr io.Writer) (*options, error) {
	o := &options{fetcher: newFetcher(false)}
	fs := newFlags("gpudoctor")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	o.fetcher.flags(fs)
	fs.Func("config", "`file` with a collector's configuration to read in place of an exporter; repeat for those that are merged", func(value string) error {
		o.configs = append(o.configs, value)
		return nil
	})
	if err := parse(fs, args, usage, stderr); err != nil {
		return nil, err
	}
	if len(o.configs) > 0 {
		if fs.NArg() != 0 {
			return nil, fmt.Errorf("want no argument beside -config FILE (got %q); -h says more", fs.Arg(0))
		}
		return o, nil
	}
	if fs.NArg() != 1 {
		return nil, fmt.Errorf("want one URL, FILE or - after the flags (got %d); -h says more", fs.NArg())
	}
	if err := o.fetcher.valid(); err != nil {
		return nil, err
	}
	var err error
	o.source, err = parseSource(fs.Arg(0))
	return o, err
}

// report is a diagnosis and where it was made.
type report struct {
	Source string `json:"source"`
	*diagnose.Report
}

// examine reads the source or the configuration once, prints what it is like and reports
// whether nothing is missing or wrong.
func (o *options) examine(ctx context.Context, out io.Writer) (complete bool, err error) {
	if len(o.configs) > 0 {
		return lint(ctx, o.configs, o.json, out)
	}
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
		return nil, errors.New("the answer is empty; exporters answer so while they reload their csv, and without any GPU")
	case lines.samples == 0:
		return nil, fmt.Errorf("no line is a metric; line %d is the first of %d that cannot be read", lines.first, lines.count)
	case e.Rows() == 0 && lines.hami > 0:
		return nil, errors.New("this is HAMi's vGPU monitor, which exposes the usage and limits of containers; gpu_synthesizer reads it. For devices, use dcgm-exporter")
	case e.Rows() == 0:
		return nil, fmt.Errorf("%d metrics, none of them of %s", lines.samples, exporterNames())
	case len(r.Devices) == 0:
		return nil, errors.New("metrics of an exporter that is known, but no row names a device by its id")
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

// exporterNames are those of the exporters that are known.
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
