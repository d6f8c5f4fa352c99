package dcgm

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// podLabels contains names of pod labels to which the table assigns a role. In the rows of this
// test, the exporter itself does not use any of the names in podLabels.
var podLabels = []string{
	"cpu", "cpucore", "nvlink", "nvswitch", "gpu_uuid", "uuid", "Uuid", "hostname", "HOSTNAME", "MODELNAME", "model_name",
	"pod_name", "pod_namespace", "container_name", "podname", "Pod", "NAMESPACE", "Container", "uid", "POD_UID",
	"exported_pod", "exported_namespace", "exported_container", "exported_pod_uid", "exported_uid", "exported_pod_name",
	"vgpu", "dra_claim_name", "dra_driver_name", "dra_device_name", "dra_mig_device_uuid", "hpc_job", "gpu_i_id", "gpu_i_profile",
	"job", "service",
	"GPU_I_ID", "GPU_I_PROFILE", "DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION", "DCGM_FI_DEV_SERIAL", "DCGM_FI_DEV_BOARD_SERIAL",
}

// Up to version 4.8.2, the exporter exposes pod labels without a prefix (dcgm-exporter#423, #529,
// #585).
func TestAPodLabelThatAUserSetChangesNothing(t *testing.T) {
	own := map[string]string{
		"UUID": "GPU-1", "Hostname": "n1", "modelName": "NVIDIA L40S", "device": "nvidia0",
		"pod": "real", "namespace": "team", "container": "main", "pod_uid": "u",
	}
	plain := catalogue.NewRow(Exporter)
	for name, value := range own {
		plain.Set(name, value)
	}
	want, _ := identify(plain)
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.MapOf(rapid.SampledFrom(podLabels), rapid.StringMatching(`fake[a-z0-9]{0,3}`)).Draw(t, "labels of the pod")
		maps.Copy(all, own)
		names := []string{}
		for name := range all {
			names = append(names, name)
		}
		r := catalogue.NewRow(Exporter)
		for _, name := range rapid.Permutation(names).Draw(t, "order") {
			r.Set(name, all[name])
		}
		is, refusal := identify(r)
		assert.Equal(t, catalogue.Accepted, refusal)
		assert.Equal(t, want, is)
		h, held := r.Named()
		assert.True(t, held)
		assert.Equal(t, catalogue.Holder{Namespace: "team", Pod: "real", UID: "u", Container: "main"}, h)
		assert.False(t, r.Relayed())
		assert.False(t, r.Claimed())
		assert.Empty(t, r.Get(catalogue.RoleVGPU))
		assert.Equal(t, "n1", r.Get(catalogue.RoleHost))
		assert.Equal(t, "NVIDIA L40S", r.Get(catalogue.RoleModel))
	})
}

// The exporter exposes an instance's number only together with its profile.
func TestAnInstanceNumberFromAPodLabelIsIgnored(t *testing.T) {
	const pod = " pod=p namespace=ns container=c"
	for labels, instance := range map[string]string{
		"UUID=GPU-1 modelName=NVIDIA-L40S GPU_I_ID=3" + pod:                                    "",
		"UUID=GPU-1 modelName=NVIDIA-H100-80GB-HBM3 GPU_I_ID=3" + pod:                          "",
		"UUID=GPU-1 modelName=NVIDIA-H100-80GB-HBM3 GPU_I_ID=3 GPU_I_PROFILE=gold" + pod:       "",
		"UUID=GPU-1 modelName=New GPU_I_ID=3" + pod:                                            "",
		"uuid=gpu-1 modelname=nvidia-l40s gpu_i_id=3 pod=p namespace=ns":                       "",
		"UUID=GPU-1 modelName=NVIDIA-L40S GPU_I_ID=3 pod_name=p pod_namespace=ns":              "",
		"UUID=GPU-1 modelName=NVIDIA-H100-80GB-HBM3 GPU_I_ID=3 GPU_I_PROFILE=1g.10gb":          "3",
		"UUID=GPU-1 modelName=New GPU_I_ID=3 GPU_I_PROFILE=1g.10gb" + pod:                      "3",
		"UUID=GPU-1 modelName=New GPU_I_ID=3 GPU_I_PROFILE=1c.3g.40gb+new" + pod:               "3",
		"UUID=GPU-1 modelName=NVIDIA-H100-80GB-HBM3 GPU_I_ID=3 GPU_I_PROFILE=<<<NULL>>>" + pod: "3", // gpu-monitoring-tools#193
		"UUID=GPU-1 modelName=NVIDIA-H100-80GB-HBM3 GPU_I_ID=3":                                "3",
		"UUID=GPU-1 GPU_I_ID=3" + pod:                                                          "3", // a storage backend has removed labels
		"uuid=gpu-1 modelname=nvidia-h100 gpu_i_id=3 gpu_i_profile=1g.10gb pod=p namespace=n":  "3",
	} {
		is, refusal := identify(row(labels))
		assert.Equal(t, catalogue.Accepted, refusal, labels)
		assert.Equal(t, instance, is.Instance, labels)
	}
}

func TestTextsWithoutTheFormOfTheRoleAreIgnored(t *testing.T) {
	for labels, want := range map[string][2]string{
		"DCGM_FI_DRIVER_VERSION=580.105.08 DCGM_FI_DEV_SERIAL=1565220008176":   {"580.105.08", "1565220008176"},
		"DCGM_FI_SYSTEM_DRIVER_VERSION=610.20 DCGM_FI_DEV_BOARD_SERIAL=1565":   {"610.20", "1565"},
		"DCGM_FI_DRIVER_VERSION=mine DCGM_FI_SYSTEM_DRIVER_VERSION=580":        {"580", ""},
		"DCGM_FI_DRIVER_VERSION=580.1 DCGM_FI_SYSTEM_DRIVER_VERSION=1.2.3-rc1": {"580.1", ""},
		"DCGM_FI_DRIVER_VERSION=v2 DCGM_FI_DEV_SERIAL=team-a":                  {"", ""},
		"DCGM_FI_DEV_SERIAL=team-a DCGM_FI_DEV_BOARD_SERIAL=1565220008176":     {"", "1565220008176"},
	} {
		r := row("UUID=GPU-1 " + labels)
		assert.Equal(t, want, [2]string{r.Get(catalogue.RoleDriverVersion), r.Get(catalogue.RoleSerial)}, labels)
	}
}

func TestOnlyRowsWithoutAUUIDAreAboutLinksSwitchesOrCPUs(t *testing.T) {
	for name, tt := range map[string]struct {
		labels string
		want   catalogue.Refusal
	}{
		"a GPU in a pod with the label":                      {"UUID=GPU-1 cpu=8 nvlink=1 nvswitch=2", catalogue.Accepted},
		"a GPU in a pod with the label, old names":           {"uuid=GPU-1 cpu=8", catalogue.Accepted},
		"a GPU in a pod with the label, names in lower case": {"uuid=gpu-1 modelname=x cpucore=8", catalogue.Accepted},
		"a link of a GPU":                                    {"gpu_uuid=GPU-1 nvlink=1", catalogue.OtherEntity},
		"a CPU":                                              {"cpu=8", catalogue.OtherEntity},
		"a switch":                                           {"nvswitch=8", catalogue.OtherEntity},
		"another vendor's GPU":                               {"UUID=GPU-1 modelName=MTT-S4000", catalogue.OtherVendor},
		"another vendor's GPU, names in lower case":          {"uuid=GPU-1 model_name=amd-llama modelname=t4", catalogue.Accepted},
		"a GPU in a pod that serves a GPU":                   {"UUID=GPU-1 model_name=amd-llama modelName=T4", catalogue.Accepted},
		"an instance number that is not a number":            {"UUID=GPU-1 GPU_I_ID=x", catalogue.Accepted},
	} {
		r := row(tt.labels)
		is, got := identify(r)
		assert.Equal(t, tt.want, got, name)
		if got == catalogue.Accepted {
			assert.Equal(t, catalogue.Identity{Board: "GPU-1"}, is, name)
		}
	}
}

// The label names for holders differ between exporter versions, and Prometheus may rename the
// labels.
func TestTheExportersOwnLabelsNameTheHolder(t *testing.T) {
	const (
		target = " job=dcgm instance=10.0.0.1:9400 pod=exp-1 namespace=mon container=exporter"
		moved  = " exported_pod=real exported_namespace=team exported_container=main"
		old    = " pod_name=real pod_namespace=team container_name=main"
	)
	team := catalogue.Holder{Namespace: "team", Pod: "real", Container: "main"}
	for labels, want := range map[string]struct {
		holder  catalogue.Holder
		relayed bool
	}{
		"UUID=GPU-1 pod=real namespace=team container=main" + " pod_name=x pod_namespace=x container_name=x": {team, false},
		"UUID=GPU-1" + old:                                            {team, false},
		"uuid=GPU-1 modelName=T4" + old:                               {team, false},
		"uuid=GPU-1 modelName=T4" + old + target:                      {team, true},
		"UUID=GPU-1" + target + moved:                                 {team, true},
		"UUID=GPU-1" + target + moved + " pod_name=x pod_namespace=x": {team, true},
		"UUID=GPU-1 pod=real namespace=team container=main exported_pod=x exported_namespace=x job=x": {team, false},
		"uuid=gpu-1 modelname=t4 pod=real namespace=team container=main podname=exp-1":                {team, false},
	} {
		r := row(labels)
		h, held := r.Named()
		assert.True(t, held, labels)
		assert.Equal(t, want.holder, h, labels)
		assert.Equal(t, want.relayed, r.Relayed(), labels)
	}
	_, held := row("uuid=gpu-1 modelname=t4 podname=exp-1").Named()
	assert.False(t, held)
}

// row returns a row with the given labels, each in the format name=value.
func row(labels string) *catalogue.Row {
	r := catalogue.NewRow(Exporter)
	for l := range strings.FieldsSeq(labels) {
		name, value, _ := strings.Cut(l, "=")
		r.Set(name, value)
	}
	return r
}

// Pod labels can have the names of the labels that Prometheus adds, but not their values: an
// address with a port contains a colon, which Kubernetes does not allow in pod label values.
func TestLabelsThatImitateAPrometheusNeverNameAnotherHolder(t *testing.T) {
	named := func(labels map[string]string) (catalogue.Holder, bool) {
		row := catalogue.NewRow(Exporter)
		for name, value := range map[string]string{"UUID": "GPU-1", "Hostname": "n", "namespace": "ns", "pod": "train-abcde", "container": "c"} {
			row.Set(name, value)
		}
		for name, value := range labels {
			row.Set(name, value)
		}
		if row.NamesTarget() {
			return catalogue.Holder{}, false
		}
		return row.Named()
	}
	own := catalogue.Holder{Namespace: "ns", Pod: "train-abcde", Container: "c"}
	victim := map[string]string{"exported_pod": "victim", "exported_namespace": "vns", "exported_container": "vc", "job": "a"}

	victim["instance"] = "10.0.0.1:9400"
	h, held := named(victim)
	assert.True(t, held)
	assert.Equal(t, catalogue.Holder{Namespace: "vns", Pod: "victim", Container: "vc"}, h, "relayed by a Prometheus")

	victim["instance"] = "b"
	_, held = named(victim)
	assert.False(t, held, "each of them can be the holder")

	h, held = named(map[string]string{"job": "train", "instance": "b", "service": "train"})
	assert.True(t, held)
	assert.Equal(t, own, h)
}
