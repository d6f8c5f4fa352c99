package examples

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.yaml.in/yaml/v3"

	"github.com/otelcol-gpu/otelcol-gpu/internal/nvmltest"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

const composeFile = "docker-compose.yaml"

// jobExposition is what dcgm-exporter says of a GPU that a batch job has.
const jobExposition = `DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="n1",hpc_job="4711"} 75
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-1",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="n1",hpc_job="4711"} 20480
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-1",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="n1",hpc_job="4711"} 61440
DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-1",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="n1",hpc_job="4711"} 0
`

// startJobExporter starts an exporter on a machine where job 4711 has the only GPU.
func startJobExporter(t *testing.T) string {
	t.Helper()
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, jobExposition)
	}))
	t.Cleanup(exporter.Close)
	return exporter.URL + "/metrics"
}

// ofJob says whether the metrics have a metric of a job, or of the device itself where job is "".
func ofJob(metrics pmetric.Metrics, name, job string) bool {
	for p := range points.All(metrics) {
		id := p.Resource.Attributes().AsRaw()[signal.HPCJobID]
		if p.Metric.Name() == name && (id == job || id == nil && job == "") {
			return true
		}
	}
	return false
}

// runSlurm looks at the windows of a device and at the GPU time of the job that has it.
func runSlurm(t *testing.T, file string, set []string) {
	t.Helper()
	runOfJob(t, file, set, map[string]string{"STORAGE_DIR": t.TempDir()})
}

func runOfJob(t *testing.T, file string, set []string, env map[string]string) {
	t.Helper()
	backend := processtest.StartBackend(t, nil)
	env["DCGM_ENDPOINT"], env["OTLP_ENDPOINT"] = startJobExporter(t), backend.URL
	env["HEALTH_ENDPOINT"] = processtest.FreeAddress(t)
	env["TELEMETRY_PORT"] = processtest.Port(t, processtest.FreeAddress(t))
	c := startCollector(t, file, set, env)
	backend.Until(t, c.Process, "windows of the device and GPU time of the job", func(metrics pmetric.Metrics) bool {
		return twoWindows(metrics) && ofJob(metrics, "k8s.container.gpu.allocated.time", "4711")
	})
	c.stop(t)
	checkWindows(t, backend.All(), windowLength)
}

// Where no exporter runs the driver is enough.
func TestWithoutAnExporterGPUsAreReadByNVML(t *testing.T) {
	library := nvmltest.Build(t)
	library.Script(t, "gpu uuid=GPU-1 name=NVIDIA_L4 minor=0 migmode=0 total=24000000000 reserved=0 free=18000000000 used=6000000000 util=40\n")
	sys := t.TempDir()
	device := filepath.Join(sys, "bus", "pci", "devices", "0000:01:00.0")
	require.NoError(t, os.MkdirAll(device, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(device, "vendor"), []byte("0x10de\n"), 0o600))

	backend := processtest.StartBackend(t, nil)
	c := startCollector(t, filepath.Join(examplesDir, "slurm.yaml"), join(fastDCGM, fastWindow, fastNVML, []string{
		"receivers.nvml.library_path=" + library.Path, "receivers.nvml.sys_root=" + sys,
	}), map[string]string{
		"DCGM_ENDPOINT": "http://" + processtest.FreeAddress(t) + "/metrics", "OTLP_ENDPOINT": backend.URL, "STORAGE_DIR": t.TempDir(),
		"HEALTH_ENDPOINT": processtest.FreeAddress(t), "TELEMETRY_PORT": processtest.Port(t, processtest.FreeAddress(t)), "NODE_NAME": "n1",
	})
	backend.Until(t, c.Process, "two windows", twoWindows)
	assert.True(t, ofJob(backend.All(), signal.UtilizationAvg.Name, ""))
	c.Stop(t)
}

// The compose file's collector gets the pipeline and the environment that it is run with here.
func TestTheComposeFileRunsAPipelineBesideIt(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(examplesDir, composeFile))
	require.NoError(t, err)
	type service struct {
		Image       string
		Environment map[string]string
		Volumes     []string
		DependsOn   []string `yaml:"depends_on"`
		Pid         string
	}
	var compose struct {
		Services map[string]service
		Volumes  map[string]any
	}
	require.NoError(t, yaml.Unmarshal(content, &compose))
	collector := compose.Services["otelcol-gpu"]
	assert.Equal(t, "host", collector.Pid, "NVML lists processes of its own PID namespace only")
	assert.Contains(t, collector.Image, "-nvml")

	pipeline := ""
	for name, s := range compose.Services {
		for _, volume := range s.Volumes {
			source, target, _ := strings.Cut(volume, ":")
			if !strings.HasPrefix(source, "./") {
				assert.Contains(t, compose.Volumes, source, name)
				assert.Equal(t, "/var/lib/otelcol-gpu", target, "where the image's user may write")
				continue
			}
			assert.FileExists(t, filepath.Join(examplesDir, source), name)
			if target == "/etc/otelcol-gpu/config.yaml:ro" {
				pipeline = filepath.Join(examplesDir, source)
			}
		}
	}
	require.NotEmpty(t, pipeline)

	processtest.Binary(t, "otelcol-gpu")
	// As compose does: what is asked for is given, or the default taken.
	variable := regexp.MustCompile(`\$\{(\w+):(\?[^}]*|-[^}]*)\}`)
	env := map[string]string{}
	for key, value := range collector.Environment {
		env[key] = variable.ReplaceAllString(value, "n1")
	}
	exporter, _, _ := strings.Cut(strings.TrimPrefix(env["DCGM_ENDPOINT"], "http://"), ":")
	assert.Contains(t, compose.Services, exporter)
	assert.Equal(t, compose.Services[exporter].Environment["NODE_NAME"], collector.Environment["NODE_NAME"], "one name of the machine")
	env["STORAGE_DIR"] = t.TempDir()
	runOfJob(t, pipeline, join(fastDCGM, fastWindow, fastNVML), env)
}

// Slurm calls the script before and after each job, for jobs that share a GPU as well.
func TestTheExporterIsToldWhichJobHasWhichGPU(t *testing.T) {
	script, err := filepath.Abs(filepath.Join(examplesDir, "slurm", "job-gpus.sh"))
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "jobs")
	slurm := func(context, job, gpus string) {
		cmd := exec.CommandContext(t.Context(), script)
		cmd.Env = []string{
			"PATH=/usr/bin:/bin", "JOB_MAPPING_DIR=" + dir, "SLURM_SCRIPT_CONTEXT=" + context, "SLURM_JOB_ID=" + job, "SLURM_JOB_GPUS=" + gpus,
		}
		output, err := cmd.CombinedOutput()
		require.NoError(t, err)
		assert.Empty(t, string(output))
	}
	jobs := func() map[string]string {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		files := map[string]string{}
		for _, entry := range entries {
			content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
			require.NoError(t, err)
			files[entry.Name()] = string(content)
		}
		return files
	}
	slurm("prolog_slurmd", "47", "0,1")
	slurm("prolog_slurmd", "4711", "1")
	slurm("prolog_slurmd", "4711", "1") // requeued
	slurm("prolog_slurmd", "4712", "")  // without a GPU
	assert.Equal(t, map[string]string{"0": "47\n", "1": "47\n4711\n"}, jobs())
	slurm("epilog_slurmd", "47", "0,1")
	assert.Equal(t, map[string]string{"1": "4711\n"}, jobs())
	slurm("epilog_slurmd", "4711", "1")
	assert.Empty(t, jobs())
}
