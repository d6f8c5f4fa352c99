package main

import (
	"context"
	"fmt"
	"io"

	"github.com/otelcol-gpu/otelcol-gpu/internal/pipelinelint"
)

// lint reads a collector's configuration and prints what is wired or timed wrongly. It
// reports whether nothing is.
func lint(ctx context.Context, files []string, asJSON bool, out io.Writer) (right bool, err error) {
	conf, err := pipelinelint.Read(ctx, files...)
	if err != nil {
		return false, err
	}
	found, err := pipelinelint.Lint(conf)
	if err != nil {
		return false, err
	}
	return len(found) == 0, writeFindings(found, asJSON, out)
}

func writeFindings(found []pipelinelint.Finding, asJSON bool, out io.Writer) error {
	if asJSON {
		return writeJSON(out, append([]pipelinelint.Finding{}, found...))
	}
	for i := range found {
		if _, err := fmt.Fprintln(out, &found[i]); err != nil {
			return err
		}
	}
	if len(found) == 0 {
		_, err := fmt.Fprintln(out, "The pipelines are wired and timed as they should be.")
		return err
	}
	return nil
}
