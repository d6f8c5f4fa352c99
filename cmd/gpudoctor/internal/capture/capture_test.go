package capture_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/cmd/gpudoctor/internal/capture"
	"github.com/otelcol-gpu/otelcol-gpu/internal/exposition"
)

func TestOnlyNamesAndIDsAreReplaced(t *testing.T) {
	var out strings.Builder
	r, err := capture.Anonymize(&out, strings.NewReader(`# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).
# TYPE DCGM_FI_DEV_GPU_TEMP gauge
# written by our secret fork
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-6fa459ea-ee8a-3ca4-894e-db77e160355e",modelName="NVIDIA L4",Hostname="prod-7.corp",pod="merger-model",container="pay\"load",team=""} 41
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-6fa459ea-ee8a-3ca4-894e-db77e160355e",modelName="NVIDIA L4",Hostname="prod-7.corp",exported_pod="merger-model"} 7 1700000000000
DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-00000000-ee8a-3ca4-894e-db77e160355e",Hostname="prod-7.corp"} NaN

# TYPE payroll_total counter
payroll_total{who="alice"} 12
DCGM_FI_DEV_POWER_USAGE{gpu="0",Hostname="prod-7.corp} 70
`))
	require.NoError(t, err)
	assert.Equal(t, capture.Result{Samples: 3, Dropped: 2}, r)
	assert.Equal(t, `# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).
# TYPE DCGM_FI_DEV_GPU_TEMP gauge
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-00000000-0000-0000-0000-000000000001",modelName="NVIDIA L4",Hostname="hostname-1",pod="pod-1",container="container-1",team=""} 41
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-00000000-0000-0000-0000-000000000001",modelName="NVIDIA L4",Hostname="hostname-1",exported_pod="pod-1"} 7 1700000000000
DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-00000000-0000-0000-0000-000000000002",Hostname="hostname-1"} NaN
`, out.String())
}

func TestTheMachineInATPUsIDIsReplaced(t *testing.T) {
	var out strings.Builder
	_, err := capture.Anonymize(&out, strings.NewReader(`duty_cycle_node{accelerator_id="8936909905604911872-404",make="cloud-tpu",model="tpu-v5p-slice"} 78
memory_bandwidth_utilization_node{accelerator_id="8936909905604911872-0",make="cloud-tpu",model="tpu-v5p-slice"} 42
duty_cycle_node{accelerator_id="prod-tpu-7.corp-1",make="cloud-tpu",model="tpu-v5p-slice"} 78
duty_cycle_node{accelerator_id="prod-tpu-8936909905604911872",make="cloud-tpu",model="tpu-v5p-slice"} 78
duty_cycle_node{accelerator_id="prod-tpu",make="cloud-tpu",model="tpu-v5p-slice"} 78
`))
	require.NoError(t, err)
	assert.Equal(t, `duty_cycle_node{accelerator_id="accelerator-id-1-404",make="cloud-tpu",model="tpu-v5p-slice"} 78
memory_bandwidth_utilization_node{accelerator_id="accelerator-id-1-0",make="cloud-tpu",model="tpu-v5p-slice"} 42
duty_cycle_node{accelerator_id="accelerator-id-2-1",make="cloud-tpu",model="tpu-v5p-slice"} 78
duty_cycle_node{accelerator_id="accelerator-id-3",make="cloud-tpu",model="tpu-v5p-slice"} 78
duty_cycle_node{accelerator_id="accelerator-id-4",make="cloud-tpu",model="tpu-v5p-slice"} 78
`, out.String())
}

// With --kubernetes-enable-pod-labels, dcgm-exporter adds the labels of pods to its rows. The users
// of a cluster choose the names and the values of these labels.
func TestPodLabelsAreReplacedIfTheyHaveTheNameOfAHardwareLabel(t *testing.T) {
	for _, label := range []string{
		"model", "model_name", "modelname", "type", "make", "device", "gpu", "cpu", "nvswitch", "vgpu", "driver_version", "instance_type", "zone", "gpu_id",
	} {
		t.Run(label, func(t *testing.T) {
			var out strings.Builder
			_, err := capture.Anonymize(&out, strings.NewReader(
				`DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1",device="nvidia0",modelName="NVIDIA L4",pod="p-1",`+label+`="alice"} 41`))
			require.NoError(t, err)
			assert.NotContains(t, out.String(), "alice")
			assert.Contains(t, out.String(), `gpu="0"`)
			assert.Contains(t, out.String(), `device="nvidia0",modelName="NVIDIA L4"`)
		})
	}
}

func TestTextAfterTheLabelsIsNotRecorded(t *testing.T) {
	var out strings.Builder
	r, err := capture.Anonymize(&out, strings.NewReader(`DCGM_FI_DEV_GPU_TEMP{UUID="GPU-1"} 41 1700000000000 # {pod="merger"} 1
DCGM_FI_DEV_GPU_TEMP 41 # {pod="merger"} 1
DCGM_FI_DEV_GPU_TEMP{UUID="GPU-1",pod="a"}merger"} 41
`))
	require.NoError(t, err)
	assert.Equal(t, capture.Result{Samples: 2, Dropped: 1}, r)
	assert.Equal(t, "DCGM_FI_DEV_GPU_TEMP{UUID=\"uuid-1\"} 41 1700000000000\nDCGM_FI_DEV_GPU_TEMP 41\n", out.String())
}

func TestALineThatIsTooLongIsDroppedAndCounted(t *testing.T) {
	const sample = "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"GPU-1\"} 41\n"
	var out, want strings.Builder
	r, err := capture.Anonymize(&out, strings.NewReader(sample+"DCGM_FI_DEV_GPU_TEMP{pod=\""+strings.Repeat("x", exposition.MaxLine)+"\"} 41\n"+sample))
	require.NoError(t, err)
	assert.Equal(t, capture.Result{Samples: 2, Dropped: 1}, r)
	_, err = capture.Anonymize(&want, strings.NewReader(sample+sample))
	require.NoError(t, err)
	assert.Equal(t, want.String(), out.String())
}

func FuzzWrittenLineCanBeParsed(f *testing.F) {
	f.Add(`DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1",pod="a\"b"} 41`)
	f.Add(`DCGM_FI_DEV_GPU_TEMP {a="b" , } 1`)
	f.Fuzz(func(t *testing.T, line string) {
		var once, twice strings.Builder
		first, err := capture.Anonymize(&once, strings.NewReader(line))
		require.NoError(t, err)
		second, err := capture.Anonymize(&twice, strings.NewReader(once.String()))
		require.NoError(t, err)
		assert.Equal(t, first.Samples, second.Samples)
		assert.Zero(t, second.Dropped)
	})
}
