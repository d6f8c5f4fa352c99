package examples

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.yaml.in/yaml/v3"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/nvmltest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

const composeFile = "docker-compose.yaml"

// ofJob returns a metric's values for a batch job, keyed by hw.name. If job is "", ofJob returns
// the values for the devices themselves.
func ofJob(metrics pmetric.Metrics, name, job string) map[string]float64 {
	return ofHolder(metrics, name, gpudata.Holder{Job: job})
}

func ofHolder(metrics pmetric.Metrics, name string, holder gpudata.Holder) map[string]float64 {
	values := map[string]float64{}
	for p := range points.All(metrics) {
		if p.Metric.Name() == name && pdatagpu.HolderOf(p.Resource.Attributes()) == holder && !p.Flags().NoRecordedValue() {
			values[pdatagpu.Text(p.Attributes(), signal.HardwareName)] = points.Value(p.NumberDataPoint)
		}
	}
	return values
}

// runSlurm runs an agent on a node with four GPUs. Job 4711 has two of the GPUs, jobs 4712 and 4713
// share the third GPU, and the fourth GPU has no known holder.
func runSlurm(t *testing.T, files, set []string) {
	t.Helper()
	all := runOfJobs(t, files, set, "slurm", map[string]string{"STORAGE_DIR": t.TempDir(), "JOB_MAPPING_DIR": t.TempDir()})
	for job, gpus := range map[string][]string{
		"4711": {"nvidia0", "nvidia1"}, "4712": {"nvidia2"}, "4713": {"nvidia2"}, "": {"nvidia0", "nvidia1", "nvidia2", "nvidia3"},
	} {
		assert.ElementsMatch(t, gpus, slices.Collect(maps.Keys(ofJob(all, signal.UtilizationAvg.Name, job))), "windows of job %q", job)
	}
	shared, alone := ofJob(all, signal.K8sContainerGPUAllocatedTime.Name, "4712")["nvidia2"], ofJob(all, signal.K8sContainerGPUAllocatedTime.Name, "4711")["nvidia0"]
	assert.InDelta(t, alone/2, shared, alone/5, "half of a shared GPU")
	power := ofJob(all, signal.K8sContainerGPUPower.Name, "4711")["nvidia0"]
	assert.Greater(t, power, 0.0)
	assert.Less(t, power, ofJob(all, signal.HwPower.Name, "")["nvidia0"], "without the idle power")
	assert.Contains(t, ofJob(all, "gpu.unobserved.time", ""), "nvidia3")
}

// runOfJobs runs an example on a node with simulated GPUs until windows, power, and GPU time have
// been sent for job 4711, and returns the sent metrics.
func runOfJobs(t *testing.T, files, set []string, scenario string, env map[string]string) pmetric.Metrics {
	t.Helper()
	backend, exporter := processtest.StartBackend(t, nil), processtest.FreeAddress(t)
	processtest.StartSimulator(t, exporter, "--scenario", scenario, "--gpus", "4")
	env["DCGM_ENDPOINT"], env["OTLP_ENDPOINT"] = "http://"+exporter+"/metrics", backend.URL
	env["HEALTH_ENDPOINT"] = processtest.FreeAddress(t)
	env["TELEMETRY_PORT"] = processtest.Port(t, processtest.FreeAddress(t))
	// Set the idle power, because one minute of simulation is too short to determine it.
	c := startCollector(t, files, join(set, []string{stages + ".gpu_k8s.power.idle.watts=50"}), env)
	backend.Until(t, c.Process, "windows, power and GPU time of the job", func(metrics pmetric.Metrics) bool {
		of := func(m *signal.Metric) map[string]float64 { return ofJob(metrics, m.Name, "4711") }
		return twoWindows(metrics) && len(of(signal.UtilizationAvg)) == 2 && len(of(signal.K8sContainerGPUPower)) == 2 &&
			of(signal.K8sContainerGPUAllocatedTime)["nvidia0"] > 3
	})
	c.stop(t)
	checkWindows(t, backend.All(), windowLength)
	return backend.All()
}

// Without access to the job mapping directory, an exporter does not expose job labels.
func TestTheJobMappingIsReadIfTheExporterDoesNotReadIt(t *testing.T) {
	dir := t.TempDir()
	for _, gpu := range []string{"0", "1"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, gpu), []byte("4711\n"), 0o600))
		long := time.Now().Add(-time.Minute)
		require.NoError(t, os.Chtimes(filepath.Join(dir, gpu), long, long))
	}
	all := runOfJobs(t, files("overlays/slurm.yaml"), join(fastDCGM, fastStage, fastNVML), "idle",
		map[string]string{"STORAGE_DIR": t.TempDir(), "JOB_MAPPING_DIR": dir, "NODE_NAME": "gpu-node-0"})
	assert.Equal(t, []string{"nvidia0", "nvidia1"}, slices.Sorted(maps.Keys(ofJob(all, signal.K8sContainerGPUIdleTime.Name, "4711"))))
}

// machine creates fake /sys and /proc file systems of a host with an NVIDIA device.
func machine(t *testing.T) (sys, proc string) {
	t.Helper()
	sys, proc = t.TempDir(), t.TempDir()
	device := filepath.Join(sys, "bus", "pci", "devices", "0000:01:00.0")
	require.NoError(t, os.MkdirAll(device, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(device, "vendor"), []byte("0x10de\n"), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(proc, "self", "ns"), 0o755))
	require.NoError(t, os.Symlink("pid:[4026531836]", filepath.Join(proc, "self", "ns", "pid")))
	return sys, proc
}

// A crash in the driver's library must not stop the collector or interrupt the data from the
// exporter.
func TestACrashingLibraryStopsOnlyItsReceiver(t *testing.T) {
	for _, how := range []string{"segv", "abort"} {
		library := nvmltest.Build(t)
		library.Script(t, "init crash="+how+"\n")
		sys, proc := machine(t)
		backend := processtest.StartBackend(t, nil)
		c := startCollector(t, files("overlays/slurm.yaml"), join(fastDCGM, fastStage, fastNVML, []string{
			"receivers.dcgm.nvml.library_path=" + library.Path, "receivers.dcgm.nvml.sys_root=" + sys, "receivers.dcgm.nvml.proc_root=" + proc,
		}), map[string]string{
			"OTLP_ENDPOINT": backend.URL, "STORAGE_DIR": t.TempDir(), "HEALTH_ENDPOINT": processtest.FreeAddress(t), "NODE_NAME": "n1",
			"TELEMETRY_PORT": processtest.Port(t, processtest.FreeAddress(t)), "JOB_MAPPING_DIR": filepath.Join(t.TempDir(), "none"),
		})
		backend.Until(t, c.Process, "windows from the exporter", twoWindows)
		assert.Equal(t, 1, strings.Count(c.Output.String(), "NVML crashed in a child process"), how)
		c.Stop(t)
	}
}

// If there is no exporter, the collector must still report devices, XID errors, jobs, Docker
// containers, and systemd services, based only on data from NVML. Holders are determined from the
// cgroups of processes.
func TestWithoutAnExporterGPUsAreReadByNVML(t *testing.T) {
	library := nvmltest.Build(t)
	library.Script(t, "gpu uuid=GPU-1 name=NVIDIA_L4 minor=0 migmode=0 total=24000000000 reserved=0 free=18000000000 used=6000000000 util=40\n"+
		"proc pid=7 mem=5000000000\n"+
		"gpu uuid=GPU-2 name=NVIDIA_L4 minor=1 migmode=0 total=24000000000 reserved=0 free=18000000000 used=6000000000 util=0\n"+
		"gpu uuid=GPU-3 name=NVIDIA_L4 minor=2 migmode=0 total=24000000000 reserved=0 free=18000000000 used=6000000000 util=60\n"+
		"proc pid=8 mem=5000000000\n"+
		"gpu uuid=GPU-4 name=NVIDIA_L4 minor=3 migmode=0 total=24000000000 reserved=0 free=18000000000 used=6000000000 util=20\n"+
		"proc pid=9 mem=5000000000\n")
	sys, proc := machine(t)
	container := gpudata.Holder{ID: strings.Repeat("0123456789abcdef", 4)}
	for pid, group := range map[string]string{
		"7": "/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0", "8": "/system.slice/docker-" + container.ID + ".scope",
		"9": "/system.slice/ollama.service",
	} {
		require.NoError(t, os.Mkdir(filepath.Join(proc, pid), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(proc, pid, "cgroup"), []byte("0::"+group+"\n"), 0o600))
	}

	backend := processtest.StartBackend(t, nil)
	c := startCollector(t, files("overlays/slurm.yaml"), join(fastDCGM, fastStage, fastNVML, []string{
		"receivers.dcgm.nvml.library_path=" + library.Path, "receivers.dcgm.nvml.sys_root=" + sys, "receivers.dcgm.nvml.proc_root=" + proc,
	}), map[string]string{
		"DCGM_ENDPOINT": "http://" + processtest.FreeAddress(t) + "/metrics", "OTLP_ENDPOINT": backend.URL, "STORAGE_DIR": t.TempDir(),
		"HEALTH_ENDPOINT": processtest.FreeAddress(t), "TELEMETRY_PORT": processtest.Port(t, processtest.FreeAddress(t)), "NODE_NAME": "n1",
		"JOB_MAPPING_DIR": filepath.Join(t.TempDir(), "none"),
	})
	backend.Until(t, c.Process, "windows of the GPUs and of the job", func(metrics pmetric.Metrics) bool {
		return twoWindows(metrics) && len(ofJob(metrics, signal.UtilizationAvg.Name, "4711")) > 0 && len(ofJob(metrics, signal.XIDErrors.Name, "")) > 0
	})
	all := backend.All()
	assert.Equal(t, map[string]float64{"nvidia0": 0.4}, ofJob(all, signal.UtilizationAvg.Name, "4711"))
	assert.Equal(t, map[string]float64{"nvidia2": 0.6}, ofHolder(all, signal.UtilizationAvg.Name, container))
	assert.Equal(t, map[string]float64{"nvidia3": 0.2}, ofHolder(all, signal.UtilizationAvg.Name, gpudata.Holder{Name: "ollama.service"}))
	assert.Equal(t, map[string]float64{"nvidia0": 0.4, "nvidia1": 0, "nvidia2": 0.6, "nvidia3": 0.2}, ofJob(all, signal.UtilizationAvg.Name, ""))
	assert.Equal(t, map[string]float64{"nvidia0": 0, "nvidia1": 0, "nvidia2": 0, "nvidia3": 0}, ofJob(all, signal.XIDErrors.Name, ""))
	assert.Equal(t, map[string]float64{"nvidia0": 1, "nvidia1": 0, "nvidia2": 1, "nvidia3": 1}, ofJob(all, signal.GPUSharingClients.Name, ""), "no process is on the other one")
	c.Stop(t)
}

// The Compose file must run the collector with the same pipeline and environment variables as this
// test.
func TestTheComposeFileRunsThePipelineNextToIt(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(examplesDir, composeFile))
	require.NoError(t, err)
	type service struct {
		Image       string
		Environment map[string]string
		Volumes     []string
		Command     []string
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

	mounted := map[string]string{}
	for name, s := range compose.Services {
		for _, volume := range s.Volumes {
			source, target, _ := strings.Cut(volume, ":")
			if !strings.HasPrefix(source, "./") {
				assert.Contains(t, compose.Volumes, source, name)
				assert.Equal(t, "/var/lib/otelcol-gpu", target, "where the image's user may write")
				continue
			}
			assert.FileExists(t, filepath.Join(examplesDir, source), name)
			mounted["--config="+strings.TrimSuffix(target, ":ro")] = filepath.Join(examplesDir, source)
		}
	}
	var pipeline []string
	for _, flag := range collector.Command {
		require.Contains(t, mounted, flag)
		pipeline = append(pipeline, mounted[flag])
	}
	require.Equal(t, files("overlays/slurm.yaml"), pipeline)

	processtest.Binary(t, "otelcol-gpu")
	// As in Docker Compose, required variables must be set, and optional variables have defaults.
	variable := regexp.MustCompile(`\$\{(\w+):(\?[^}]*|-[^}]*)\}`)
	env := map[string]string{}
	for key, value := range collector.Environment {
		env[key] = variable.ReplaceAllString(value, "n1")
	}
	exporter, _, _ := strings.Cut(strings.TrimPrefix(env["DCGM_ENDPOINT"], "http://"), ":")
	assert.Contains(t, compose.Services, exporter)
	assert.Equal(t, compose.Services[exporter].Environment["NODE_NAME"], collector.Environment["NODE_NAME"], "one name of the machine")
	env["STORAGE_DIR"] = t.TempDir()
	runOfJobs(t, pipeline, join(fastDCGM, fastStage, fastNVML), "slurm", env)
}

// Slurm runs the script before and after each job. Several jobs can share a GPU.
func TestTheExporterLearnsTheGPUsOfEachJob(t *testing.T) {
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
