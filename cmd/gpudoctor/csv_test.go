package main

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/expositiontest"
)

func TestCSVIsCompleteAndListsEachFieldOnce(t *testing.T) {
	for _, file := range expositiontest.DCGMRecordings(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".prom"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			if !strings.Contains("\n"+string(text), "\n"+dcgmPrefix) {
				status, out, errs := gpudoctor(t, "", "check", "-csv", file)
				assert.Equal(t, exitUnread, status)
				assert.Empty(t, out)
				assert.Contains(t, errs, "other exporters have no csv")
				return
			}
			status, out, errs := gpudoctor(t, "", "check", "-csv", file)
			require.Equal(t, exitComplete, status, errs)
			reader := csv.NewReader(strings.NewReader(out))
			reader.Comment, reader.TrimLeadingSpace, reader.FieldsPerRecord = '#', true, 3
			records, err := reader.ReadAll()
			require.NoError(t, err, "the format that dcgm-exporter accepts")
			listed := map[string]bool{}
			for _, r := range records {
				assert.False(t, listed[r[0]], "%s twice", r[0])
				listed[r[0]] = true
				assert.Contains(t, []string{"gauge", "counter", "label"}, r[1], r[0])
			}
			for line := range strings.Lines(string(text)) {
				if name, _, ok := strings.Cut(line, "{"); ok && strings.HasPrefix(name, dcgmPrefix) {
					assert.True(t, listed[name], "%s is exposed but not in the csv", name)
				}
			}
		})
	}
}

func TestCSVAddsTheMissingFields(t *testing.T) {
	const body = `# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %), mean.
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",modelName="NVIDIA L4",DCGM_FI_DRIVER_VERSION="580.1"} 7
`
	_, out, errs := gpudoctor(t, body, "check", "-csv", "-")
	assert.Empty(t, errs)
	assert.True(t, strings.HasPrefix(out, "# Exposed now.\nDCGM_FI_DEV_GPU_UTIL,gauge,\"GPU utilization (in %), mean.\"\nDCGM_FI_DRIVER_VERSION,label,DCGM_FI_DRIVER_VERSION\n# Missing.\n"), out)
	assert.Contains(t, out, "\nDCGM_FI_DEV_FB_USED, gauge, ")
	assert.NotContains(t, out, "\nDCGM_FI_DEV_GPU_UTIL, gauge")
}
