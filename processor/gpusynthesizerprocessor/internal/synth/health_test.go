package synth

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// The metric hw.status shows only the worst state.
func TestAPredictedFailureIsInTheFrameEvenIfTheStatusIsWorse(t *testing.T) {
	s := New(Options{MaxDevices: 100}).Begin(time.Time{})
	gpu := map[string]string{"UUID": "GPU-1", "modelName": "NVIDIA L4"}
	for at, pending := range []float64{1, 0} {
		labels := catalogue.NewRow(dcgm.Exporter)
		for k, v := range gpu {
			labels.Set(k, v)
		}
		row := s.Row(labels, Place{Host: "h", Node: "n"}, catalogue.Holder{})
		for name, v := range map[string]float64{"DCGM_FI_DEV_ROW_REMAP_PENDING": pending, "DCGM_FI_DEV_ROW_REMAP_FAILURE": 1} {
			spelling, _ := dcgm.Exporter.Lookup(name)
			s.Add(row, nil, spelling, int64(at+1)*10e9, v)
		}
		d := s.Flush()[0].Devices[0]
		failed, _ := d.Samples.Get(signal.HwStatus, signal.StatusFailed)
		assert.InDelta(t, 1, failed, 0)
		assert.Equal(t, pending == 1, d.FailurePredicted)
	}
}
