package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/pipelinelint"
)

// lint checks the configuration of a collector and prints pipeline errors, timing errors and notes.
// The Boolean result is true if lint finds no errors.
func lint(ctx context.Context, files []string, asJSON bool, out io.Writer) (right bool, err error) {
	conf, err := pipelinelint.Read(ctx, files...)
	if err != nil {
		return false, err
	}
	found, err := pipelinelint.Lint(conf)
	if err != nil {
		return false, err
	}
	right = !slices.ContainsFunc(found, func(f pipelinelint.Finding) bool { return !f.Note })
	if asJSON {
		return right, writeJSON(out, append([]pipelinelint.Finding{}, found...))
	}
	var b strings.Builder
	for i := range found {
		fmt.Fprintln(&b, &found[i])
	}
	if right {
		b.WriteString("The pipelines are wired and timed as they should be; otelcol-gpu validate checks the settings.\n")
	}
	_, err = io.WriteString(out, b.String())
	return right, err
}
