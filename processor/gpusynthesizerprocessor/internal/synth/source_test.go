package synth

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
)

func TestOnlySourcesThatExposeADeviceAreKept(t *testing.T) {
	s := New(Options{MaxDevices: 10}).Begin(time.Time{})
	spelling, ok := dcgm.Exporter.Lookup("DCGM_FI_DEV_GPU_UTIL")
	require.True(t, ok)
	labels := catalogue.NewRow(dcgm.Exporter)
	labels.Set("UUID", "GPU-1")
	place := Place{Host: "n", Node: "n"}

	var exporter *Source
	for batch := range 100 {
		at := int64(batch+1) * 1e9
		exporter = s.Source("exporter", false)
		for other := range 100 {
			s.Ended(s.Source(fmt.Sprintf("application %d", 100*batch+other), false))
			s.Scraped(at+1, s.Source(fmt.Sprintf("http://other-%d", 100*batch+other), false))
		}
		s.Add(s.Row(labels, place, catalogue.Holder{}), exporter, spelling, at, 50)
		require.Len(t, s.Flush(), 1)
	}
	assert.Len(t, s.sources.byID, 1)
	assert.Same(t, exporter, s.sources.byID["exporter"], "a source that exposes a device stays the same")
}
