// Command benchtable reads what go test -bench prints, hands it on as it comes,
// and ends it with the tables that docs/performance.md speaks of: medians of the
// runs, each beside its peer of the same run, with the ratio and the target.
//
// It judges nothing: a target that is missed is said and the exit status stays 0,
// for a figure of a machine is not a test. A measure whose benchmark did not run is
// left out. Input that cannot be read is exit status 1.
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
