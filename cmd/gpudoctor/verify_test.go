//go:build linux && !otelcol_gpu_no_nvml

package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/nvmltest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/scripttest"
)

const board = "GPU-0d7d2e0c-31a1-4a0e-9a3c-0c8f6f3a1b22"

// With these scripts, the NVML stub reports the same board in two states: idle and busy.
const (
	idle = "gpu uuid=" + board + " name=NVIDIA_H100_80GB_HBM3 minor=0 total=85899345920 reserved=0 used=1073741824 free=84825604096 " +
		"util=0 power=72000 limit=700000 temp=31 sm=345 mem=2619 reasons=0\n"
	busy = "gpu uuid=" + board + " name=NVIDIA_H100_80GB_HBM3 minor=0 total=85899345920 reserved=0 used=2147483648 free=83751862272 " +
		"util=100 power=650000 limit=700000 temp=52 sm=1980 mem=2619 reasons=0\nproc pid=1 mem=1073741824\n"
)

// onStubs returns options for a verification that uses an NVML stub, and runs the shell script in
// the program parameter instead of nvidia-smi. The exporter parameter is the body that a fake
// dcgm-exporter returns. If exporter is empty, no fake dcgm-exporter runs.
func onStubs(t *testing.T, program, exporter string) *verifyOptions {
	t.Helper()
	stub := nvmltest.Build(t)
	stub.Script(t, idle)
	sys := filepath.Join(t.TempDir(), "bus", "pci", "devices", "0000:05:00.0")
	require.NoError(t, os.MkdirAll(sys, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(sys, "vendor"), []byte("0x10de\n"), 0o600))

	smi := filepath.Join(stub.Dir, "nvidia-smi")
	scripttest.Write(t, smi, "#!/bin/sh\n"+program)
	o, err := parseVerify([]string{"-duration", "4s", "-interval", "1s", "-nvidia-smi", smi, "-exporter", ""}, io.Discard)
	require.NoError(t, err)
	if exporter != "" {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, exporter) }))
		t.Cleanup(server.Close)
		o.Exporter = server.URL
	}
	// The stub reads its script when NVML is initialized.
	o.NVML = map[string]any{"library_path": stub.Path, "sys_root": filepath.Dir(filepath.Dir(filepath.Dir(filepath.Dir(sys)))), "hold": "never"}
	o.library = filepath.Join(stub.Dir, "libcuda.so.1")
	return o
}

func dcgmText(watts float64) string {
	var b bytes.Buffer
	for field, value := range map[string]float64{
		"GPU_UTIL": 0, "POWER_USAGE": watts, "GPU_TEMP": 31, "SM_CLOCK": 345, "MEM_CLOCK": 2619, "FB_USED": 1024, "FB_FREE": 80896,
	} {
		fmt.Fprintf(&b, "# TYPE DCGM_FI_DEV_%s gauge\nDCGM_FI_DEV_%s{gpu=\"0\",UUID=%q,device=\"nvidia0\",modelName=\"NVIDIA H100 80GB HBM3\",Hostname=\"n\"} %v\n",
			field, field, board, value)
	}
	return b.String()
}

// smi is a shell script that prints the values of the supported properties in the requested order.
const smi = `case "$1" in
*clocks_event_reasons_counters*) name=${1##*,}; echo "Field \"$name\" is not a valid field to query."; exit 2;;
*clocks_event_reasons*|*remapped*|*ecc*|*encoder*|*decoder*|*temperature.memory*)
	name=$(echo "$1" | tr ',' '\n' | grep -E 'clocks_event_reasons|remapped|ecc|encoder|decoder|temperature.memory' | head -n 1)
	echo "Field \"$name\" is not a valid field to query."; exit 2;;
esac
`

func TestSourcesAgree(t *testing.T) {
	t.Parallel()
	o := onStubs(t, smi+"echo '"+board+", 0, 72.00, 700.00, 31, 0, 81920, 1024, 345, 2619'", dcgmText(73))
	var out, errs bytes.Buffer
	status := o.run(t.Context(), &out, &errs)
	assert.Equal(t, exitComplete, status, "%s%s", &out, &errs)
	assert.Contains(t, out.String(), "# 1 × NVIDIA H100 80GB HBM3, driver 590.48.01\n")
	assert.Regexp(t, `\| nvidia0 +\| hw.power +\| W +\| 72 +\| 73 +\| 72 +\| agrees +\|`, out.String())
	assert.Regexp(t, `\| nvidia0 +\| hw.gpu.memory.limit +\| By +\| 8.5899e\+10 +\| 8.5899e\+10 +\| 8.5899e\+10 +\| agrees +\|`, out.String())
	assert.Regexp(t, `\| nvidia0 +\| hw.gpu.memory.usage +\| By +\| 1.0737e\+09 +\| 1.0737e\+09 +\| 1.0737e\+09 +\| agrees +\|`, out.String())
	assert.Regexp(t, `hold: never takes [0-9.]+ ms, mean of [0-9]+`, out.String())
	assert.NotContains(t, out.String(), board, "the report contains no ids")
	assert.NotContains(t, out.String(), "differs by")
}

func TestDifferingSourceIsReportedWithTheDifference(t *testing.T) {
	t.Parallel()
	o := onStubs(t, "echo '[Driver/library version mismatch]'; exit 18", dcgmText(350))
	delete(o.NVML, "hold") // use the default, as on a real machine
	var out, errs bytes.Buffer
	assert.Equal(t, exitMissing, o.run(t.Context(), &out, &errs), "%s", &errs)
	assert.Regexp(t, `\| nvidia0 +\| hw.power +\| W +\| 72 +\| 350 +\| - +\| \*\*differs\*\* by 278 +\|`, out.String())
	assert.Regexp(t, `hold: always takes [0-9.]+ ms, mean of [0-9]+\n  - hold: never takes [0-9.]+ ms`, out.String())
	assert.Contains(t, out.String(), "- not read: nvidia-smi: exit status 18: [Driver/library version mismatch]\n")
}

func TestGPUThatOnlyNVIDIASMIReportsIsNamedByItsIndex(t *testing.T) {
	t.Parallel()
	o := onStubs(t, smi+"echo '"+strings.Replace(board, "0d7d", "1d7d", 1)+", 5, 72.00, 700.00, 31, 0, 81920, 1024, 345, 2619'", "")
	var out, errs bytes.Buffer
	assert.Equal(t, exitUnread, o.run(t.Context(), &out, &errs), "no GPU has two sources")
	assert.Regexp(t, `\| nvidia-smi index 5 +\| hw.power +\| W +\| - +\| - +\| 72 +\|`, out.String())
	assert.NotContains(t, out.String(), "GPU-")
}

func TestLoadIsVisible(t *testing.T) {
	t.Parallel()
	o := onStubs(t, "exit 1", "")
	o.load, o.Duration = true, 6*time.Second
	dir := filepath.Dir(o.library)
	output, err := exec.CommandContext(t.Context(), "gcc", "-shared", "-fPIC", "-o", o.library, "testdata/verify/cuda.c").CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "busy"), []byte(busy), 0o600))
	var out, errs bytes.Buffer
	assert.Equal(t, exitUnread, o.run(t.Context(), &out, &errs), "NVML is the only source")
	assert.Contains(t, out.String(), "- **Is a load visible in utilization, power, clocks, memory and processes?** yes\n")
	assert.Contains(t, out.String(), "hw.power of nvidia0: 72 without, up to 650 with the load")
	assert.NotContains(t, out.String(), "load:")
}

func TestFailingLoadIsReported(t *testing.T) {
	t.Parallel()
	o := onStubs(t, "exit 1", "")
	o.load, o.Exporter = true, "http://me:secret@127.0.0.1:1/metrics"
	var out, errs bytes.Buffer
	assert.Equal(t, exitUnread, o.run(t.Context(), &out, &errs))
	assert.Contains(t, out.String(), "- not read: load: ")
	assert.Contains(t, out.String(), "- not read: dcgm-exporter: http://me:xxxxx@127.0.0.1:1/metrics: connection refused")
	assert.Contains(t, out.String(), "libcuda.so.1")
}

func TestWrongCommandLinesOfVerify(t *testing.T) {
	for want, args := range map[string][]string{
		"want flags only": {"http://localhost:9400"},
		"-interval must be at least 1s (got 100ms)": {"-interval", "100ms"},
		"-duration must be at least four times":     {"-duration", "10s"},
		"flag provided but not defined: -fix":       {"-fix"},
	} {
		status, stdout, stderr := gpudoctor(t, "", append([]string{"verify"}, args...)...)
		assert.Equal(t, exitUnread, status, want)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, want)
	}
}
