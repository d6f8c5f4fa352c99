package dcgmsim_test

import (
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/dcgmsim"
)

// A test runs an exporter in its own process, advances the exporter's clock, and compares the
// scraped counters with the true values.
func Example() {
	config := dcgmsim.NewDefaultConfig()
	config.Scenario, config.GPUs = dcgmsim.ScenarioPowerCapped, 1
	simulation, err := dcgmsim.New(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Unix(1_700_000_000, 0)
	server := dcgmsim.NewServer(simulation, dcgmsim.ServerSettings{Now: func() time.Time { return now }})
	exporter := httptest.NewServer(server)
	defer exporter.Close()
	defer server.Close()

	for range 2 {
		response, err := exporter.Client().Get(exporter.URL + "/metrics")
		if err != nil {
			fmt.Println(err)
			return
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			fmt.Println(err)
			return
		}
		for line := range strings.Lines(string(body)) {
			if strings.HasPrefix(line, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS{") {
				fmt.Println("exposed:", strings.Fields(line[strings.LastIndex(line, "}"):])[1])
			}
		}
		now = now.Add(time.Minute)
	}
	device := simulation.Devices(0)[0]
	fmt.Println("truth:", simulation.ThrottledTime(device, dcgmsim.ReasonSWPowerCap, 0, time.Minute))
	// Output:
	// exposed: 0
	// exposed: 2.54e+10
	// truth: 25.4s
}
