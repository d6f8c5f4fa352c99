package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/notruntest"
)

const (
	uid   = "d1f2a3b4-0c5d-4e6f-8a9b-001122334455"
	under = "d1f2a3b4_0c5d_4e6f_8a9b_001122334455"
	hash  = "0123456789abcdef0123456789abcdef"
)

var (
	id    = strings.Repeat("0123456789abcdef", 4)
	other = strings.Repeat("fedcba9876543210", 4)
)

func TestParse(t *testing.T) {
	pod := Owner{Kind: Container, ContainerID: id, PodUID: uid}
	container := Owner{Kind: Container, ContainerID: id, Alone: true}
	job := Owner{Kind: Job, Job: "4711"}
	host := Owner{Kind: Host}
	service := func(unit string) Owner { return Owner{Kind: Host, Service: unit} }
	for name, test := range map[string]struct {
		text string
		want Owner
	}{
		"v2 systemd containerd":            {"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + under + ".slice/cri-containerd-" + id + ".scope\n", pod},
		"v2 systemd containerd guaranteed": {"0::/kubepods.slice/kubepods-pod" + under + ".slice/cri-containerd-" + id + ".scope\n", pod},
		"v2 systemd CRI-O":                 {"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + under + ".slice/crio-" + id + ".scope/container\n", pod},
		"v2 systemd Docker in a pod":       {"0::/kubepods.slice/kubepods-pod" + under + ".slice/docker-" + id + ".scope\n", pod},
		"v2 cgroupfs containerd":           {"0::/kubepods/burstable/pod" + uid + "/" + id + "\n", pod},
		"v2 cgroupfs CRI-O":                {"0::/kubepods/besteffort/pod" + uid + "/crio-" + id + "\n", pod},
		"v2 systemd inside the container": {
			"0::/kubepods.slice/kubepods-pod" + under + ".slice/cri-containerd-" + id + ".scope/system.slice/app.service\n", pod,
		},
		"v2 containerd's colon form": {
			"0::/system.slice/containerd.service/kubepods-burstable-pod" + under + ".slice:cri-containerd:" + id + "\n", pod,
		},
		"v2 seen from a cgroup namespace":                           {"0::/../../kubepods-pod" + under + ".slice/cri-containerd-" + id + ".scope\n", pod},
		"v2 a sibling in the same pod seen from a cgroup namespace": {"0::/../cri-containerd-" + id + ".scope\n", Owner{Kind: Container, ContainerID: id}},
		"v2 a static pod": {
			"0::/kubepods/burstable/pod" + hash + "/" + id + "\n", Owner{Kind: Container, ContainerID: id, PodUID: hash},
		},
		"v2 kubelet with a cgroup root": {"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + under + ".slice/cri-containerd-" + id + ".scope\n", pod},
		"v2 a node of kind": {
			"0::/docker/" + other + "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + under + ".slice/cri-containerd-" + id + ".scope\n", pod,
		},
		"v2 Docker in a pod's container": {"0::/kubepods/pod" + uid + "/" + id + "/docker/" + other + "\n", pod},
		"v2 a container that names its groups after another pod": {
			"0::/kubepods/pod" + uid + "/" + id + "/kubepods/pod" + hash + "/" + other + "\n", pod,
		},
		"v2 a pod's own group":        {"0::/kubepods/pod" + uid + "\n", Owner{Kind: Container, PodUID: uid}},
		"v2 Docker systemd":           {"0::/system.slice/docker-" + id + ".scope\n", container},
		"v2 Docker cgroupfs":          {"0::/docker/" + id + "\n", container},
		"v2 Docker in Docker":         {"0::/docker/" + id + "/docker/" + other + "\n", container},
		"v2 Podman":                   {"0::/machine.slice/libpod-" + id + ".scope/container\n", container},
		"v2 Podman in a pod":          {"0::/machine.slice/machine-libpod_pod_" + other + ".slice/libpod-" + id + ".scope\n", container},
		"v2 containerd without a pod": {"0::/default/" + id + "\n", container},
		"v1 systemd containerd": {
			"12:devices:/kubepods.slice/kubepods-pod" + under + ".slice/cri-containerd-" + id + ".scope\n1:name=systemd:/\n0::/\n", pod,
		},
		"v1 cgroupfs with hierarchies that the runtime does not manage": {
			"13:rdma:/\n12:cpu,cpuacct:/kubepods/burstable/pod" + uid + "/" + id + "\n3:misc:/docker/" + other + "\n0::/system.slice/kubelet.service\n", pod,
		},
		"v1 Docker": {"11:memory:/docker/" + id + "\n10:pids:/docker/" + id + "\n", container},
		"v2 containerd without Kubernetes, systemd": {"0::/system.slice/nerdctl-" + id + ".scope\n", container},
		"v2 rootless Podman": {
			"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + id + ".scope/container\n", container,
		},
		"v1 Docker on a machine with Slurm": {
			"11:devices:/docker/" + id + "\n1:name=systemd:/system.slice/slurmd.service\n", container,
		},
		"v2 a kubelet's container whose pod is not visible": {
			"0::/system.slice/cri-containerd-" + id + ".scope\n", Owner{Kind: Container, ContainerID: id},
		},
		"v2 a container of a pod with an invalid UID": {
			"0::/kubepods/burstable/podcast/" + id + "\n", Owner{Kind: Container, ContainerID: id},
		},

		"v2 Slurm":                      {"0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_3\n", job},
		"v2 Slurm's batch script":       {"0::/system.slice/slurmstepd.scope/job_4711/step_batch/user/task_0\n", job},
		"v2 Slurm, a session of ssh":    {"0::/system.slice/slurmstepd.scope/job_4711/step_extern/user/task_special\n", job},
		"v2 Slurm, several daemons":     {"0::/system.slice/node7_slurmstepd.scope/job_4711/step_0/user/task_0\n", job},
		"v2 Slurm's daemon":             {"0::/system.slice/slurmd.service\n", host},
		"v2 Slurm's steps outside jobs": {"0::/system.slice/slurmstepd.scope/system\n", host},
		"v1 Slurm":                      {"11:devices:/slurm/uid_1000/job_4711/step_0/task_0\n9:memory:/slurm/uid_1000/job_4711/step_0\n1:name=systemd:/system.slice/slurmd.service\n", job},
		"v1 Slurm, several daemons":     {"11:devices:/slurm_node7/uid_1000/job_4711/step_batch\n", job},
		"a job id that is not a number": {"0::/system.slice/slurmstepd.scope/job_47a/step_0\n", host},
		"a job without a number":        {"0::/system.slice/slurmstepd.scope/job_/step_0\n", host},
		"a job with too many digits":    {"0::/system.slice/slurmstepd.scope/job_12345678901/step_0\n", host},
		"a job below an invalid user":   {"5:devices:/slurm/uid_x/job_4711/step_0\n", host},
		"a job group that a user created": {
			"0::/user.slice/user-1000.slice/user@1000.service/slurmstepd.scope/job_4711/step_0\n", host,
		},
		"a job that creates groups like those of a pod": {
			"0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0/kubepods/pod" + uid + "/" + id + "\n", job,
		},
		"a container that creates groups like those of a job": {"0::/docker/" + id + "/slurm/uid_0/job_4711\n", container},
		"Slurm in a pod": {"0::/kubepods/burstable/pod" + uid + "/" + id + "/system.slice/slurmstepd.scope/job_4711/step_0\n", pod},
		"a pod group outside the kubelet's groups": {"0::/pod" + uid + "\n", host},
		"a service's group like a pod's":           {"0::/system.slice/app.service/pod" + uid + "/" + id + "\n", container},
		"a user's group like a pod's": {
			"0::/user.slice/user-1000.slice/user@1000.service/kubepods/pod" + uid + "/x\n", host,
		},

		// The lines in these test cases come from processes of the Slurm packages for Debian 12, on
		// a kernel with both cgroup versions.
		"Slurm 22.05, v1, a step": {
			"9:name=systemd:/\n8:pids:/\n6:freezer:/slurm_vm/uid_0/job_4711/step_0\n5:devices:/slurm_vm/uid_0/job_4711/step_0/task_0\n4:memory:/process_api/fda67a3b052cb711\n0::/\n", job,
		},
		"Slurm 22.05, v1, a batch script": {
			"6:freezer:/slurm_vm/uid_0/job_4711/step_batch\n5:devices:/slurm_vm/uid_0/job_4711/step_batch/task_0\n1:cpu:/\n0::/\n", job,
		},
		"Slurm 22.05, v2, a step":      {"1:cpu:/\n0::/system.slice/vm_slurmstepd.scope/job_4711/step_0/user/task_special\n", job},
		"Slurm 22.05, v2, the daemon":  {"1:cpu:/\n0::/system.slice/vm_slurmstepd.scope/slurmd\n", host},
		"Slurm 22.05, v2, extern step": {"1:cpu:/\n0::/system.slice/vm_slurmstepd.scope/job_4711/step_extern/user/task_special\n", job},
		"Docker 20.10, cgroupfs": {
			"9:name=systemd:/docker/" + id + "\n5:devices:/docker/" + id + "\n0::/docker/" + id + "\n", container,
		},
		"Docker 20.10, a custom parent": {
			"9:name=systemd:/mine/" + id + "\n4:memory:/process_api/fda67a3b052cb711/mine/" + id + "\n", container,
		},
		"Podman 4.3, cgroupfs":            {"9:name=systemd:/libpod_parent/libpod-" + id + "\n1:cpu:/\n0::/\n", container},
		"Podman 4.3, cgroupfs, a monitor": {"9:name=systemd:/\n8:pids:/libpod_parent/conmon\n0::/\n", host},
		"containerd 1.6":                  {"9:name=systemd:/default/" + id + "\n0::/default/" + id + "\n", container},
		"containerd 1.6, a name as id":    {"9:name=systemd:/default/plain1\n0::/default/plain1\n", host},
		"systemd 252, a service": {
			"9:name=systemd:/machine/system.slice/ollama.service\n8:pids:/system.slice/ollama.service\n1:cpu:/\n0::/system.slice/ollama.service\n", service("ollama.service"),
		},
		"systemd 252, a service of a template": {
			"8:pids:/system.slice/system-vllm.slice/vllm@llama.service\n5:devices:/system.slice/system-vllm.slice\n0::/system.slice/system-vllm.slice/vllm@llama.service\n",
			service("vllm@llama.service"),
		},

		"a host's service":               {"0::/system.slice/ollama.service\n", service("ollama.service")},
		"a service's own groups":         {"0::/system.slice/ollama.service/worker-1\n", service("ollama.service")},
		"a service of a template":        {"0::/system.slice/system-vllm.slice/vllm@llama.service\n", service("vllm@llama.service")},
		"v1, a service":                  {"11:devices:/\n1:name=systemd:/system.slice/ollama.service\n", service("ollama.service")},
		"a service of the driver":        {"0::/system.slice/nvidia-persistenced.service\n", host},
		"a service that runs containers": {"0::/system.slice/containerd.service\n", host},
		"a service of a user":            {"0::/user.slice/user-1000.slice/user@1000.service/app.slice/ollama.service\n", host},
		"a slice of services":            {"0::/system.slice/system-vllm.slice\n", host},
		"a user's session":               {"0::/user.slice/user-1000.slice/session-3.scope\n", host},
		"the root":                       {"0::/\n", host},
		"a container's monitor":          {"0::/kubepods.slice/crio-conmon-" + id + ".scope\n", host},
		"a slice with a similar name":    {"0::/app-pod" + under + ".slice\n", host},
		"a pod group without a UID":      {"0::/kubepods/podcast/app\n", host},
		"an id in upper case":            {"0::/docker/" + strings.ToUpper(id) + "\n", host},
		"without a newline":              {"0::/docker/" + id, container},
		"empty":                          {"", Owner{}},
		"not of this form":               {"hello\n0::relative\n::\n", Owner{}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, Parse(test.text))
		})
	}
}

func TestOwnerReadsTheProcFileSystem(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "42"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(root, "42", "cgroup"), []byte("0::/docker/"+id+"\n"), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "43"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(root, "43", "cgroup"), nil, 0o600))
	assert.Equal(t, Owner{Kind: Container, ContainerID: id, Alone: true}, Of(root, 42))
	assert.Equal(t, Owner{}, Of(root, 43), "an empty file")
	assert.Equal(t, Owner{}, Of(root, 44), "a process that has ended")
}

func TestThisProcessHasAnOwner(t *testing.T) {
	if _, err := os.Stat("/proc/self/cgroup"); err != nil {
		notruntest.Skip(t, "the owner of a process: there is no proc file system here")
	}
	assert.NotEqual(t, Unknown, Of("/proc", uint32(os.Getpid())).Kind)
}

// For any input, each ID in the result is either empty or well-formed.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"0::/kubepods.slice/kubepods-pod" + under + ".slice/cri-containerd-" + id + ".scope\n",
		"12:cpu,cpuacct:/kubepods/burstable/pod" + uid + "/" + id + "\n0::/\n",
		"0::/system.slice/containerd.service/kubepods-pod" + under + ".slice:cri-containerd:" + id + "\n",
		"0::/kubepods/pod" + hash + "/crio-conmon-" + id + ".scope",
		"0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0/kubepods/pod" + uid,
		"5:devices:/slurm/uid_1000/job_4711/step_batch\n1:name=systemd:/docker/" + id,
		"0::/user.slice/libpod-" + id + ".scope/kubepods/pod" + uid,
		"::",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o := Parse(text)
		assert.Regexp(t, `^([0-9a-f]{64})?$`, o.ContainerID)
		assert.Regexp(t, `^([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32})?$`, o.PodUID)
		assert.Equal(t, o.Kind == Container, o.ContainerID != "" || o.PodUID != "")
		assert.Equal(t, o.Kind == Job, o.Job != "")
		assert.Regexp(t, `^[0-9]{0,10}$`, o.Job)
		assert.True(t, o.Job == "" || strings.Contains(text, "/job_"+o.Job), o.Job)
		assert.False(t, o.Alone && (o.ContainerID == "" || o.PodUID != ""))
		assert.True(t, o.PodUID == "" || strings.Contains(text, "kubepods") || strings.Contains(text, ":/.."), "not a kubelet's group")
		assert.Contains(t, text, o.ContainerID)
	})
}

func BenchmarkOwner(b *testing.B) {
	pid := uint32(os.Getpid())
	b.ReportAllocs()
	for b.Loop() {
		Of("/proc", pid)
	}
}
