package dcgm

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The list that we hand to users turns every field on that a signal is made
// of, but for those that only stand in for another one.
func TestTheExampleCountersTurnEverySignalOn(t *testing.T) {
	file, err := os.Open("../../examples/dcgm-exporter/counters.csv")
	require.NoError(t, err)
	defer file.Close()
	listed := map[ID]bool{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := strings.TrimPrefix(lines.Text(), "# DCGM_EXP")
		if line != lines.Text() {
			line = "DCGM_EXP" + line // offered, for newer exporters
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		columns := strings.Split(line, ",")
		require.Len(t, columns, 3, "an exporter wants exactly two commas: %s", line)
		spelling, ok := Lookup(strings.TrimSpace(columns[0]))
		require.True(t, ok, "no signal is made of %s", columns[0])
		assert.False(t, listed[spelling.Field.ID], "%s twice", columns[0])
		listed[spelling.Field.ID] = true
		assert.Contains(t, []string{"gauge", "counter"}, strings.TrimSpace(columns[1]))
	}
	standIns := map[ID]bool{
		PCIeTXTotal: true, PCIeRXTotal: true, NVLinkTXTotal: true, NVLinkRXTotal: true,
		NVLinkTXBandwidth: true, NVLinkRXBandwidth: true,
		// Names that older exporters do not know, and refuse to start with.
		NVLinkLinkCRC: true, NVLinkLinkReplay: true, NVLinkLinkRecovery: true,
		NVLinkRecoveryEvents: true, NVLinkRecoverySuccessful: true, NVLinkRecoveryFailed: true,
		// Rarely wanted pipes, each of which costs profiling passes.
		PipeIntActive: true, PipeTensorIMMAActive: true, PipeTensorHMMAActive: true, PipeTensorDFMAActive: true,
	}
	for _, f := range Fields() {
		assert.NotEqual(t, standIns[f.ID], listed[f.ID], f.Name)
	}
}
