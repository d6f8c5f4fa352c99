// Command benchtable copies the output of go test -bench and appends the tables of
// test/benchcompare/RESULTS.md: the median of the runs, the peer's median in the same runs, their
// ratio, and the target.
//
// Missing a target does not change the exit status, because results from one machine are not a
// test. A row is omitted if its benchmark did not run. The exit status is 1 if the input cannot be
// read.
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
