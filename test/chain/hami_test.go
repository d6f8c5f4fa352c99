package chain

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/expositiontest"
)

// The test replays recorded responses from HAMi's monitor and checks the memory usage and budgets
// of containers. Each recording is replayed with and without a budget section in the configuration,
// and with and without another exporter for the boards.
func TestRecordingsOfHAMi(t *testing.T) {
	type recorded struct {
		pod string
		// monitor contains the values that are expected from the monitor, keyed by metric and
		// board. budget contains the values that the budget section adds. dcgm contains the used
		// memory of each board in MiB, as reported by dcgm-exporter.
		monitor, budget map[string]string
		dcgm            map[string]int
	}
	const (
		usage, limit, ratio = "k8s.container.gpu.memory.usage ", "k8s.container.gpu.memory.budget ", "k8s.container.gpu.memory.budget.utilization "
		device              = "hw.gpu.memory.usage "
		w7                  = "GPU-59ab1128-3130-b95a-9870-4bd748926e97"
	)
	four := []string{
		"GPU-9ef17446-43db-8bfa-b0d5-a9920d8d5ba0", "GPU-a77a62f0-b573-e135-ae52-32ea5902bb2c",
		"GPU-cd2567a3-0aa7-a034-a745-efa5538ca2ba", "GPU-dbb13621-ea14-83cb-e192-eebf2d1c40c8",
	}
	for name, want := range map[string]recorded{
		"hami_legacy_w7panel": {
			"gpu-cxeyttpu-5bc96fc469-8q2zb",
			map[string]string{usage + w7: "0", limit + w7: "314572800"},
			map[string]string{ratio + w7: "0"},
			map[string]int{w7: 300},
		},
		"hami_4gpu_issue555": {
			"mistral-7b-78c69f7cc4-fz96k",
			map[string]string{usage + four[0]: "19876938752", usage + four[1]: "0", usage + four[2]: "0", usage + four[3]: "0"},
			nil,
			map[string]int{four[0]: 19000, four[1]: 1, four[2]: 1, four[3]: 1},
		},
	} {
		body, found := recording(t, name)
		if !found {
			continue
		}
		for _, form := range forms {
			for _, withBudget := range []bool{false, true} {
				for _, withDCGM := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s, %s, budget %t, dcgm-exporter %t", name, form, withBudget, withDCGM), func(t *testing.T) {
						k8s, expected := map[string]any{}, map[string]string{}
						for key, v := range want.monitor {
							expected[key+" of "+want.pod] = v
						}
						if withBudget {
							k8s["budget"] = map[string]any{}
							for key, v := range want.budget {
								expected[key+" of "+want.pod] = v
							}
						}
						head, sink := pipeline(t, form, k8s)
						begin := time.Now().Add(-30 * time.Second)
						for i := range 2 {
							at := begin.Add(time.Duration(i) * 10 * time.Second)
							if withDCGM {
								require.NoError(t, head.ConsumeMetrics(t.Context(), boardsOf(t, want.dcgm, at)))
							}
							require.NoError(t, head.ConsumeMetrics(t.Context(), fromExporter(t, "hami", body, at.Add(time.Second))))
						}
						if withDCGM {
							for id, mebibytes := range want.dcgm {
								expected[device+id] = strconv.Itoa(mebibytes * mib)
							}
						} else if name == "hami_legacy_w7panel" { // the other recording has no board samples
							expected[device+w7] = "287244288"
						}
						got := workload(sink)
						maps.DeleteFunc(got, func(key, _ string) bool { return strings.HasPrefix(key, "gpu.memory.attribution.state ") })
						assert.Equal(t, expected, got)
					})
				}
			}
		}
	}
}

// recording returns the recorded scrape with the given name. found is false if the recording is not
// available.
func recording(t *testing.T, name string) (body string, found bool) {
	t.Helper()
	for _, file := range expositiontest.Recordings(t) {
		if strings.TrimSuffix(filepath.Base(file), ".prom") == name {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			return string(text), true
		}
	}
	return "", false
}

// boardsOf returns dcgm-exporter's samples for boards with 24 GiB of memory. The used parameter
// contains each board's used memory, in MiB.
func boardsOf(t *testing.T, used map[string]int, at time.Time) pmetric.Metrics {
	t.Helper()
	var b strings.Builder
	for id, mebibytes := range used {
		labels := fmt.Sprintf(`{UUID="%s",Hostname="n1"}`, id)
		fmt.Fprintf(&b, "DCGM_FI_DEV_FB_USED%s %d\nDCGM_FI_DEV_FB_FREE%s %d\n", labels, mebibytes, labels, 24576-mebibytes)
	}
	return fromExporter(t, "dcgm", b.String(), at)
}
