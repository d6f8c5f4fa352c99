// Command benchtable copies the output of go test -bench and appends the tables of
// test/benchcompare/RESULTS.md: medians of the runs, each beside its peer of the same run, with ratio and
// target.
//
// A missed target is printed and the exit status stays 0, because figures of one machine are no
// test. A measure whose benchmark did not run is left out. The exit status is 1 when the input
// cannot be read.
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	figures, err := read(io.TeeReader(os.Stdin, os.Stdout))
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchtable:", err)
		os.Exit(1)
	}
	fmt.Print(tables(figures))
}
