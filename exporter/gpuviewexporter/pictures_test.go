package gpuviewexporter

import (
	"bytes"
	"flag"
	"fmt"
	"image/png"
	"os"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// The spending function returns the usage counters of some holders after the given number of
// minutes. The job is always active. The deployment is idle after the first 30 minutes. The
// notebooks are always idle.
func spending(end time.Time, minutes float64) pmetric.Metrics {
	b := newBatch(end, time.Minute)
	for _, i := range []int{0, 2, 4, 6, 8, 10} {
		kind, workload, active := "PyTorchJob", "llama-70b", minutes
		switch i % 3 {
		case 1:
			kind, workload, active = "Deployment", "ranker", min(minutes, 30)
		case 2:
			kind, workload, active = "StatefulSet", "notebooks", 0
		}
		b.ownedBy(kind, workload).onNode(fmt.Sprintf("gpu-node-%02d", i/8), []string{"training", "inference", "research"}[i%3], fmt.Sprintf("worker-%d", i), "main").
			device(fmt.Sprintf("GPU-%08x-7d1c-4c5e-9f7a-2b8c1d3e5f60", i+1)).addPoint(signal.GPUDeviceHolder, 1).
			addPoint(signal.K8sContainerGPUAllocatedTime, 60*minutes, "false").addPoint(signal.K8sContainerGPUActiveTime, 60*active, "false").
			addPoint(signal.K8sContainerGPUIdleTime, 60*(minutes-active), "false").
			addPoint(signal.K8sContainerGPUCost, minutes/20, "false").addPoint(signal.K8sContainerGPUCostIdle, (minutes-active)/20, "false")
	}
	return b.md
}

// The screenshots in the documentation must show the current version of the page. If the -update
// flag is set, the test takes new screenshots. Otherwise, the test compares only the sizes of the
// images, because fonts differ between machines.
func (s *pageSuite) TestScreenshotsOfTheDocumentation() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	at := now()
	for i := range 60 {
		end := at.Add(time.Duration(i-59) * time.Minute)
		consume(t, e, fleet(end, time.Minute, 16, true))
		consume(t, e, spending(end, float64(i)))
	}
	codes := newBatch(at, time.Minute)
	for _, board := range []int{6, 14} { // fleet adds two XID errors to these boards
		codes.onNode(fmt.Sprintf("gpu-node-%02d", board/8)).device(fmt.Sprintf("GPU-%08x-7d1c-4c5e-9f7a-2b8c1d3e5f60", board+1))
		for _, code := range []string{"xid_48", "xid_63"} {
			codes.addPoint(signal.HwErrors, 1, code).counted(at.Add(-30 * time.Second))
		}
	}
	consume(t, e, codes.md)
	p := s.open(base)
	p.until(`document.querySelectorAll("tr.row:not([hidden])").length > 0`)
	take := func(name string) {
		t.Helper()
		var got []byte
		p.run(chromedp.CaptureScreenshot(&got))
		picture, err := png.DecodeConfig(bytes.NewReader(got))
		require.NoError(t, err)
		if flag.Lookup("update").Value.String() == "true" {
			require.NoError(t, os.WriteFile(name, got, 0o600))
		}
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		config, err := png.DecodeConfig(bytes.NewReader(content))
		require.NoError(t, err)
		assert.Equal(t, [2]int{picture.Width, picture.Height}, [2]int{config.Width, config.Height}, "take %s again with -update", name)
	}
	p.run(chromedp.EmulateViewport(1500, 800))
	take("screenshot.png")
	p.run(chromedp.EmulateViewport(1240, 800))
	p.click("#by")
	p.input("group", "namespace")
	p.until(`document.querySelectorAll("#groups-waste table").length === 2 && document.querySelector("#groups-now tbody").rows.length === 4`)
	take("groups.png")
	p = s.openTimeline()
	p.run(chromedp.EmulateViewport(900, 800))
	take("timeline.png")
}
