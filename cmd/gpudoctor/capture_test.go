package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/diagnose"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/expositiontest"
)

// A recording must lead to the same diagnosis as the exporter output from which it was made.
func TestACaptureHasTheDiagnosisOfTheExporter(t *testing.T) {
	identifies := regexp.MustCompile(`(?:UUID|uuid|Hostname|hostname|pod|pod_name|pod_uid|namespace|exported_pod|serial_number|accelerator_id|instance_id|hw_id|hw_serial_number|vdie_id|job_user|process_name)="([^"]{5,})"`)
	for _, file := range expositiontest.Recordings(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".prom"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			status, out, errs := gpudoctor(t, "", "capture", file)
			if strings.Contains(errs, "no line is a metric of") { // an exporter that gpudoctor does not know
				unknown, _, _ := gpudoctor(t, "", "check", file)
				assert.Equal(t, exitUnread, unknown)
				assert.Empty(t, out)
				return
			}
			require.Equal(t, exitComplete, status)
			for _, m := range identifies.FindAllStringSubmatch(string(text), -1) {
				if m[1] != "runai-reservation" { // the namespace of reservation pods
					assert.NotContains(t, out, `"`+m[1]+`"`)
				}
			}
			assert.Equal(t, available(t, string(text)), available(t, out))
		})
	}
}

// Returns the number of devices, by kind, that provide each signal.
func available(t *testing.T, text string) map[string][]diagnose.KindCount {
	t.Helper()
	var e diagnose.Exposition
	_, err := read(strings.NewReader(text), &e)
	require.NoError(t, err)
	out := map[string][]diagnose.KindCount{}
	for _, s := range e.Report().Signals {
		out[s.Signal] = s.Kinds
	}
	return out
}

func TestCaptureWithoutRowsFails(t *testing.T) {
	for text, want := range map[string]string{
		"":                  "no line is a metric of",
		"payroll_total 1\n": "no line is a metric of",
	} {
		status, out, errs := gpudoctor(t, text, "capture", "-")
		assert.Equal(t, exitUnread, status)
		assert.Empty(t, out)
		assert.Contains(t, errs, want)
	}
}
