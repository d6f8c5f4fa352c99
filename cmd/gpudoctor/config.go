package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/pipelinelint"
)

// lint checks a collector's configuration and prints pipeline and timing errors. right is true
// if there are none.
func lint(ctx context.Context, files []string, asJSON bool, out io.Writer) (right bool, err error) {
	conf, err := pipelinelint.Read(ctx, files...)
	if err != nil {
		return false, err
	}
	found, err := pipelinelint.Lint(conf)
	if err != nil {
		return false, err
	}
	if asJSON {
		return len(found) == 0, writeJSON(out, append([]pipelinelint.Finding{}, found...))
	}
	var b strings.Builder
	for i := range found {
		fmt.Fprintln(&b, &found[i])
	}
	if len(found) == 0 {
		b.WriteString("The pipelines are wired and timed as they should be.\n")
	}
	_, err = io.WriteString(out, b.String())
	return len(found) == 0, err
}
