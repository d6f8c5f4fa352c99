package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/otelcol-gpu/otelcol-gpu/internal/pipelinelint"
)

// lint reads a collector's configuration and prints what is wired or timed wrongly. It
// returns the exit status.
func lint(ctx context.Context, files []string, asJSON bool, out io.Writer) (int, error) {
	conf, err := pipelinelint.Read(ctx, files...)
	if err != nil {
		return exitUnread, err
	}
	found, err := pipelinelint.Lint(conf)
	if err != nil {
		return exitUnread, err
	}
	if err := writeFindings(found, asJSON, out); err != nil {
		return exitUnread, err
	}
	if len(found) > 0 {
		return exitMissing, nil
	}
	return exitComplete, nil
}

func writeFindings(found []pipelinelint.Finding, asJSON bool, out io.Writer) error {
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(append([]pipelinelint.Finding{}, found...))
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
