package verify

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/scripttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var startTime = time.Date(2026, time.November, 23, 12, 0, 0, 0, time.UTC)

// series returns samples with the given values, ten seconds apart.
func series(values ...float64) []Sample {
	var out []Sample
	for i, v := range values {
		out = append(out, Sample{startTime.Add(time.Duration(i) * 10 * time.Second), v})
	}
	return out
}

func key(m *signal.Metric, part string) Key { return Key{"GPU-1", m.Name, part} }

func TestTolerances(t *testing.T) {
	for name, tt := range map[string]struct {
		key  Key
		a, b []Sample
		want Verdict
	}{
		"watts within 5%":                    {key(signal.HwPower, ""), series(700, 700), series(670, 670), Agrees},
		"watts beyond":                       {key(signal.HwPower, ""), series(700, 700), series(600, 600), Differs},
		"watts that changed":                 {key(signal.HwPower, ""), series(100, 700), series(600, 600), Agrees},
		"degrees":                            {key(signal.HwTemperature, "gpu"), series(50), series(52), Agrees},
		"degrees apart":                      {key(signal.HwTemperature, "gpu"), series(50), series(60), Differs},
		"energy as watts":                    {key(signal.HwEnergy, ""), series(1000, 8000), series(0, 7100), Agrees},
		"energy in millijoule":               {key(signal.HwEnergy, ""), series(1000, 8000), series(0, 7_000_000), Differs},
		"errors of one source that are 0":    {key(signal.HwErrors, "corrected"), series(5, 5), series(7, 7), Agrees},
		"errors that only one source counts": {key(signal.HwErrors, "corrected"), series(5, 5), series(7, 8), Differs},
		"a counter that decreased":           {key(signal.HwEnergy, ""), series(1000, 8000), series(7000, 0), Alone},
		"one sample of a counter":            {key(signal.HwEnergy, ""), series(1000, 8000), series(7000), Alone},
	} {
		t.Run(name, func(t *testing.T) {
			got := compare(map[string]Readings{NVML: {tt.key: tt.a}, DCGM: {tt.key: tt.b}})
			require.Len(t, got, 1)
			assert.Equal(t, tt.want, got[0].Verdict)
		})
	}
}

func TestTimeCountersAreComparedWithTheirReasons(t *testing.T) {
	half := series(1, 0, 1, 0, 1, 0) // the reason is set in half of the samples
	for name, tt := range map[string]struct {
		counter, reason []Sample
		want            Verdict
	}{
		"the counter increases while the reason is set": {series(0, 5, 10, 15, 20, 25), half, Yes},
		"the counter increases by a thousandth of that": {series(0, 0.005, 0.010, 0.015, 0.020, 0.025), half, No},
		"the counter does not increase":                 {series(3, 3, 3, 3, 3, 3), half, No},
		"it falls":                                      {series(0, 5, 0, 5, 0, 5), half, No},
		"neither":                                       {series(0, 50, 100, 150, 200, 250), half, Undecided},
		"nothing was throttled":                         {series(0, 0, 0, 0, 0, 0), series(0, 0, 0, 0, 0, 0), Undecided},
		"an unknown reason":                             {series(0, 5, 10, 15, 20, 25), nil, Undecided},
	} {
		t.Run(name, func(t *testing.T) {
			for i, m := range []*signal.Metric{signal.GPUClockThrottleTime, signal.GPUClockEventTime} {
				part := []string{"power", "sw_power_cap"}[i]
				sources := map[string]Readings{
					DCGM: {key(m, part): tt.counter}, NVML: {key(signal.GPUClockEventActive, "sw_power_cap"): tt.reason}, SMI: {},
				}
				questions := answerQuestions(sources, compare(sources), nil, time.Time{})
				assert.Equal(t, tt.want, questions[i].Verdict, questions[i])
				assert.NotEmpty(t, questions[i].Evidence)
			}
		})
	}
}

func TestProfilingIsComparedBetweenNVMLAndDCGM(t *testing.T) {
	for name, tt := range map[string]struct {
		sources map[string]Readings
		want    Verdict
	}{
		"they agree":      {map[string]Readings{NVML: {key(signal.GPUSMActive, ""): series(0.8, 0.8)}, DCGM: {key(signal.GPUSMActive, ""): series(0.81)}}, Yes},
		"they differ":     {map[string]Readings{NVML: {key(signal.GPUSMActive, ""): series(0.8, 0.8)}, DCGM: {key(signal.GPUSMActive, ""): series(0.5)}}, No},
		"only one source": {map[string]Readings{NVML: {key(signal.GPUSMActive, ""): series(0.8, 0.8)}}, Undecided},
	} {
		assert.Equal(t, tt.want, profilingAgrees(compare(tt.sources)).Verdict, name)
	}
}

func TestAnInvisibleLoadHasTheVerdictNo(t *testing.T) {
	sources := map[string]Readings{NVML: {key(signal.HwPower, ""): series(70, 70, 71, 70)}}
	assert.Equal(t, No, loadIsVisible(sources, startTime.Add(15*time.Second)).Verdict)
	sources[NVML][key(signal.HwPower, "")] = series(70, 70, 600, 70)
	assert.Equal(t, Yes, loadIsVisible(sources, startTime.Add(15*time.Second)).Verdict)
	assert.Equal(t, Undecided, loadIsVisible(sources, startTime).Verdict, "no reading before the load")
}

func TestTheVerdictNoIsFinal(t *testing.T) {
	var q Question
	q.decide(Undecided, "a")
	q.decide(Yes, "b")
	q.decide(No, "c")
	q.decide(Yes, "d")
	assert.Equal(t, Question{Verdict: No, Evidence: []string{"a", "b", "c", "d"}}, q)
	assert.False(t, (&Report{Questions: []Question{q}}).Agrees())
}

// program returns an smi that runs the given shell script instead of nvidia-smi.
func program(t *testing.T, script string) *smi {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nvidia-smi")
	scripttest.Write(t, path, "#!/bin/sh\n"+script)
	return &smi{path: path}
}

func TestNVIDIASMIIsQueriedForSupportedProperties(t *testing.T) {
	s := program(t, `case "$1" in
*power.draw*) echo 'Field "power.draw" is not a valid field to query.'; exit 2;;
*ecc.*) name=$(echo "$1" | tr ',' '\n' | grep ecc | head -n 1); echo "Field \"$name\" is not a valid field to query."; exit 2;;
esac
echo "GPU-1, 3, 700.00, 31, [N/A], 12, 0, 0, 81920, 1024, 345, 2619, Active, Not Active, Not Active, Not Active, Not Active, Not Active, 2500000, 0, 0, 0, 0, 1, 0"
`)
	r := Readings{}
	require.NoError(t, s.read(t.Context(), r))
	value := func(m *signal.Metric, part string) float64 {
		samples := r[key(m, part)]
		require.Len(t, samples, 1, "%s %s", m.Name, part)
		return samples[0].Value
	}
	assert.Equal(t, map[string]string{"GPU-1": "3"}, s.indexes)
	assert.InDelta(t, 700, value(signal.GPUPowerLimit, ""), 1e-9)
	assert.InDelta(t, 0.12, value(signal.HwGPUUtilization, "general"), 1e-9)
	assert.InDelta(t, 80<<30, value(signal.HwGPUMemoryLimit, ""), 1e-9)
	assert.InDelta(t, 1<<30, value(signal.HwGPUMemoryUsage, ""), 1e-9)
	assert.InDelta(t, 345e6, value(signal.GPUClockFrequency, "sm"), 1e-3)
	assert.InDelta(t, 1, value(signal.GPUClockEventActive, "sw_power_cap"), 0)
	assert.InDelta(t, 2.5, value(signal.GPUClockEventTime, "sw_power_cap"), 1e-9)
	assert.InDelta(t, 1, value(signal.HwErrors, "row_remap_correctable"), 0)
	assert.NotContains(t, r, key(signal.HwTemperature, "memory"), "[N/A] is absent")
	assert.NotContains(t, r, key(signal.HwPower, ""))
}

func TestInvalidNVIDIASMIOutputIsAnError(t *testing.T) {
	for want, script := range map[string]string{
		"exit status 9: NVIDIA-SMI has failed": "echo 'NVIDIA-SMI has failed'; exit 9",
		"wrong number of fields":               "echo 'GPU-1, 5'",
		"exit status 2: Field \"uuid\"":        "echo 'Field \"uuid\" is not a valid field to query.'; exit 2",
	} {
		require.ErrorContains(t, program(t, script).read(t.Context(), Readings{}), want)
	}
}

// Reports are meant for public issues, so they contain no UUIDs, even for devices without a name.
func TestReportContainsNoUUIDs(t *testing.T) {
	const named, onlySMI, unnamed = "GPU-0d7d2e0c-31a1-4a0e-9a3c-0c8f6f3a1b22", "GPU-1d7d2e0c-31a1-4a0e-9a3c-0c8f6f3a1b22", "GPU-2d7d2e0c-31a1-4a0e-9a3c-0c8f6f3a1b22"
	gpu := program(t, `printf '`+named+`, 0, 100.00\n`+onlySMI+`, 1, 200.00\n'`)
	gpu.known = properties[:1]
	r := &run{
		Report: &Report{Devices: map[string]Device{named: {Name: "nvidia0", Model: "NVIDIA L4"}, unnamed + "/gi7": {}}},
		smi:    gpu, sources: map[string]Readings{SMI: {}, DCGM: {}},
	}
	require.NoError(t, gpu.read(t.Context(), r.sources[SMI]))
	for i, id := range []string{named, unnamed, unnamed + "/gi7", "MIG-3d7d2e0c-31a1-4a0e-9a3c-0c8f6f3a1b22"} {
		r.sources[DCGM][Key{Device: id, Metric: signal.HwTemperature.Name, Part: "gpu"}] = series(float64(30+i), float64(30+i))
	}
	r.nameDevices()
	r.Comparisons = compare(r.sources)
	r.Questions = []Question{{Text: "Which devices?", Verdict: Yes, Evidence: []string{named + ", " + onlySMI + ", " + unnamed + "/gi7"}}}

	text := r.Text("0.1.0")
	assert.NotContains(t, text, "0c8f6f3a1b22")
	assert.Contains(t, text, "nvidia0, nvidia-smi index 1, unnamed device 1/gi7\n")
	assert.Regexp(t, `\| nvidia0 +\| hw.power +\| W +\| - +\| - +\| 100 +\|`, text)
	assert.Regexp(t, `\| nvidia-smi index 1 +\| hw.power +\| W +\| - +\| - +\| 200 +\|`, text)
	assert.Regexp(t, `\| unnamed device 1 +\| hw.temperature\{gpu\} +\| Cel +\| - +\| 31 +\|`, text)
	assert.Regexp(t, `\| unnamed device 1/gi7 +\| hw.temperature\{gpu\} +\| Cel +\| - +\| 32 +\|`, text)
	assert.Regexp(t, `\| unnamed device 2 +\| hw.temperature\{gpu\} +\| Cel +\| - +\| 33 +\|`, text)
}

func TestEveryPropertyIsInTheSignalTable(t *testing.T) {
	for _, p := range properties {
		require.Contains(t, metrics, p.metric.Name)
		if p.part != "" {
			assert.Contains(t, signal.Values(p.metric.Attributes[0]), p.part, p.name)
		}
	}
}
