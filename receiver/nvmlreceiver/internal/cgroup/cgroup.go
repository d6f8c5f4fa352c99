// Package cgroup tells from the path of a process's control group which container, which pod,
// which batch job or which service of systemd it runs in.
package cgroup

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Kind says where a process runs.
type Kind uint8

const (
	// Unknown processes have no control group that could be read.
	Unknown Kind = iota
	// Host processes run in no container and no batch job: system services, sessions.
	Host
	// Container processes run in a container.
	Container
	// Job processes run in a batch job.
	Job
	// NumKinds is one more than the highest Kind.
	NumKinds
)

// String names the kind as self-metrics do.
func (k Kind) String() string { return [...]string{"unknown", "host", "container", "job"}[k] }

// Owner is who a process belongs to.
type Owner struct {
	Kind Kind
	// ContainerID is the runtime's 64 hex digits; empty where a pod's process is
	// in none of its containers.
	ContainerID string
	// PodUID is the pod's UID as the API server has it; of a static pod it is the
	// hash that kubelet made, without dashes. Empty outside of Kubernetes.
	PodUID string
	// Alone says that the container is known to be in no pod: nothing of the path is hidden, and
	// no runtime made it for a kubelet.
	Alone bool
	// Job is the number of a Slurm job.
	Job string
	// Service is the unit of a Host process that is a service of the system, such as
	// ollama.service.
	Service string
}

// Of returns the owner of a process by its ID in the PID namespace of a proc file system, such as
// /proc. A process that cannot be read, because it is gone, is Unknown.
func Of(procRoot string, pid uint32) Owner {
	text, err := os.ReadFile(filepath.Join(procRoot, strconv.FormatUint(uint64(pid), 10), "cgroup")) //nolint:gosec // a number in a directory that is configured
	if err != nil {
		return Owner{}
	}
	return Parse(string(text))
}

// Parse reads /proc/<pid>/cgroup. A line is "hierarchy:controllers:path"; with
// cgroup v1 there is one for each hierarchy, and some of them may not be managed
// by the runtime. The line that says most counts.
func Parse(text string) Owner {
	var best Owner
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) != 3 || !strings.HasPrefix(fields[2], "/") {
			continue
		}
		if o := parsePath(fields[2]); o.rank() > best.rank() {
			best = o
		}
	}
	return best
}

// rank orders owners by how much is known.
func (o Owner) rank() int {
	rank := int(o.Kind)
	if o.ContainerID != "" || o.Service != "" {
		rank++
	}
	if o.PodUID != "" {
		rank += 2
	}
	return rank
}

// parsePath reads one path. A container may run a container runtime itself, as
// the nodes of kind do and builders in pods. What this machine's kubelet made is
// the outermost pod and the container right below it, and without any pod it is
// the outermost container; further in, a container may name its groups as it
// likes. So may a batch job below its own, and a user in a session: a pod is looked
// for in neither.
func parsePath(path string) Owner {
	if job := jobForm.FindStringSubmatch(path); job != nil {
		return Owner{Kind: Job, Job: job[1]}
	}
	components := strings.Split(path, "/")[1:]
	o := Owner{Kind: Host}
	// Only a kubelet's groups hold pods. From a cgroup namespace they may be out of sight.
	kubelet, hidden := false, components[0] == ".."
	for _, component := range components {
		kubelet = kubelet || strings.Contains(component, "kubepods")
		// With containerd's systemd driver and a cgroupfs path, both are in one:
		// kubepods-pod<uid>.slice:cri-containerd:<id>.
		slice, rest, _ := strings.Cut(component, ":")
		if uid := podForm.FindStringSubmatch(slice); uid != nil && o.PodUID == "" && (kubelet || hidden) && components[0] != "user.slice" {
			o = Owner{Kind: Container, PodUID: uid[1] + strings.ReplaceAll(uid[2], "_", "-")}
			component = rest
		}
		if id := containerForm.FindStringSubmatch(component); id != nil && o.ContainerID == "" && !strings.HasSuffix(id[1], "conmon") {
			o.Kind, o.ContainerID = Container, id[2]
			o.Alone = o.PodUID == "" && !hidden && !kubelet && !strings.Contains(component, "cri")
		}
	}
	if unit := serviceForm.FindStringSubmatch(path); unit != nil && o.Kind == Host && !somebodyElses.MatchString(unit[1]) {
		o.Service = unit[1]
	}
	return o
}

var (
	// jobForm is the path of a job whose group slurmd made: slurm/uid_<n>/job_<n> (v1) or
	// system.slice/slurmstepd.scope/job_<n> (v2). With several daemons on a machine their name
	// is slurm_<node> and <node>_slurmstepd.scope.
	jobForm = regexp.MustCompile(`^/(?:slurm(?:_[^/]*)?/uid_[0-9]{1,10}|system\.slice/(?:[^/]*_)?slurmstepd\.scope)/job_([0-9]{1,10})(?:/|$)`)

	// serviceForm is the path of system.slice/<unit> and system.slice/<slice of a template>/<unit>.
	// somebodyElses are services whose processes are somebody else's workloads, or the driver's.
	serviceForm   = regexp.MustCompile(`^/system\.slice/(?:[^/]*\.slice/)?([^/]*\.service)(?:/|$)`)
	somebodyElses = regexp.MustCompile(`^(?:containerd|docker|crio|podman|kubelet|k3s|rke2|slurm|nvidia-|dcgm|user@)`)

	// podForm is pod<uid> (cgroupfs driver) and kubepods-burstable-pod<uid>.slice (systemd driver,
	// which writes _ for -). A static pod has a hash for its UID.
	podForm = regexp.MustCompile(`^(?:pod([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})` +
		`|.*kubepods.*-pod([0-9a-f]{8}(?:_[0-9a-f]{4}){3}_[0-9a-f]{12}|[0-9a-f]{32})\.slice)$`)

	// containerForm is <id> (cgroupfs driver), <runtime>-<id>.scope (systemd driver: cri-containerd,
	// crio, docker, libpod, nerdctl) and <slice>:<runtime>:<id>. crio-conmon-<id> and
	// libpod-conmon-<id> hold the container's monitor.
	containerForm = regexp.MustCompile(`^(?:(.*)[-:])?([0-9a-f]{64})(?:\.scope)?$`)
)
