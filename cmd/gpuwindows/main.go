// Command gpuwindows prints GPU saturation windows, one line per device and
// window, for a person at a terminal.
//
// It reads what the collector's file exporter writes, OTLP/JSON with one request
// per line, from standard input, and ends when its input ends:
//
//	otelcol-gpu --config examples/quickstart.yaml | gpuwindows
//
// A signal that a window does not carry is shown as "-", never as 0. A line also
// says when the scrapes of an exporter begin to fail and when they work again.
// Lines that are not OTLP/JSON metrics are skipped and counted on standard error.
//
// A line has the number of characters that COLUMNS says, 120 without it; where
// that is little, the least telling columns are left out. Colors are for a
// terminal without NO_COLOR.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// maxLine bounds one OTLP/JSON request. The window processor sends some
// thousand points at a time, each well below a kilobyte.
const maxLine = 64 << 20

func main() {
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: otelcol-gpu --config FILE | gpuwindows\nPrints the GPU windows in OTLP/JSON lines from standard input. COLUMNS is the length of a line (120):\nwhere it is little, columns are left out. NO_COLOR leaves colors out.")
	}
	flag.Parse()
	if flag.NArg() > 0 || isTerminal(os.Stdin) {
		flag.Usage()
		os.Exit(2)
	}
	// Ctrl-C, a hangup or an end of the job goes to the whole pipeline. The collector
	// answers it with its last windows; they have to be read before leaving.
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)

	out := &table{
		out: os.Stdout, zone: time.Local, width: lineWidth(os.Getenv("COLUMNS")),
		color: isTerminal(os.Stdout) && os.Getenv("NO_COLOR") == "",
	}
	if err := run(os.Stdin, out, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "gpuwindows:", err)
		os.Exit(1)
	}
}

// run prints the windows of every line of in until in ends. It says on errs
// which line was the first that it could not read, and how many there were.
func run(in io.Reader, out *table, errs io.Writer) error {
	var reader reader
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	bad, n := 0, 0
	for lines.Scan() {
		n++
		if len(lines.Bytes()) == 0 {
			continue
		}
		request, err := reader.read(lines.Bytes())
		if err != nil {
			bad++
			if bad == 1 {
				fmt.Fprintf(errs, "gpuwindows: line %d skipped: %v\n", n, err)
			}
			continue
		}
		if err := out.print(request); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	if bad > 1 {
		fmt.Fprintf(errs, "gpuwindows: %d of %d lines skipped\n", bad, n)
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("line %d is longer than %d bytes", n+1, maxLine)
	}
	return lines.Err()
}

// lineWidth reads COLUMNS; a terminal that does not know its width says 0.
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
