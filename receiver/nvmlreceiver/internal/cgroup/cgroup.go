// Package cgroup determines the container, pod, batch job, or systemd service of a process from the
// path of its control group.
package cgroup

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Kind is the kind of a process's owner.
type Kind uint8

const (
	// Unknown processes have no readable control group.
	Unknown Kind = iota
	// Host processes are neither in a container nor in a batch job. They are system services and
	// sessions.
	Host
	// Container processes run in a container.
	Container
	// Job processes run in a batch job.
	Job
	// NumKinds is one more than the highest Kind.
	NumKinds
)

// String returns the name of the kind in the self-metrics.
func (k Kind) String() string { return [...]string{"unknown", "host", "container", "job"}[k] }

// Owner identifies the owner of a process.
type Owner struct {
	Kind Kind
	// ContainerID is the container runtime's ID, which has 64 hexadecimal digits. It is empty if a
	// process of a pod is not in any of the pod's containers.
	ContainerID string
	// PodUID is the UID of the pod in the API server. For a static pod, it is the hash that the
	// kubelet computes, without dashes. It is empty outside Kubernetes.
	PodUID string
	// Alone is true if the container is certainly not part of a pod. This is the case if the path
	// is complete and the runtime did not create the container for a kubelet.
	Alone bool
	// Job is the number of a Slurm job.
	Job string
	// Service is the systemd unit of a Host process that belongs to a system service, such as
	// ollama.service.
	Service string
}

// Of returns the owner of a process. pid is the ID of the process in the PID namespace of procRoot.
// procRoot is a proc file system, such as /proc. If the process cannot be read, for example because
// it has ended, the kind of the owner is Unknown.
func Of(procRoot string, pid uint32) Owner {
	text, err := os.ReadFile(filepath.Join(procRoot, strconv.FormatUint(uint64(pid), 10), "cgroup")) //nolint:gosec // a number in a directory that is configured
	if err != nil {
		return Owner{}
	}
	return Parse(string(text))
}

// Parse parses the content of /proc/<pid>/cgroup and returns the most specific owner. Each line has
// the form "hierarchy:controllers:path". With cgroup v1, there is one line per hierarchy, and the
// container runtime may not manage all hierarchies.
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

// rank returns a number that is higher for more specific owners.
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

// parsePath parses a path. A container may run another container runtime, for example a kind node
// or an image builder. Therefore, only the outermost pod and the container directly below it belong
// to the kubelet on this machine. If the path contains no pod, parsePath uses the outermost
// container. Containers, batch jobs and user sessions can choose the names of the groups below
// them. Therefore, parsePath ignores pods in these groups.
func parsePath(path string) Owner {
	if job := jobForm.FindStringSubmatch(path); job != nil {
		return Owner{Kind: Job, Job: job[1]}
	}
	components := strings.Split(path, "/")[1:]
	o := Owner{Kind: Host}
	// Only the groups of a kubelet contain pods. In a cgroup namespace, the groups of the kubelet
	// may be invisible.
	kubelet, hidden := false, components[0] == ".."
	for _, component := range components {
		kubelet = kubelet || strings.Contains(component, "kubepods")
		// With the systemd driver of containerd and a cgroupfs path, one path component contains
		// both the pod and the container: kubepods-pod<uid>.slice:cri-containerd:<id>.
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
	if unit := serviceForm.FindStringSubmatch(path); unit != nil && o.Kind == Host && !otherOwners.MatchString(unit[1]) {
		o.Service = unit[1]
	}
	return o
}

var (
	// jobForm is the path of a job whose group slurmd created: slurm/uid_<n>/job_<n> (v1) or
	// system.slice/slurmstepd.scope/job_<n> (v2). If several daemons run on a machine, these groups
	// are named slurm_<node> and <node>_slurmstepd.scope.
	jobForm = regexp.MustCompile(`^/(?:slurm(?:_[^/]*)?/uid_[0-9]{1,10}|system\.slice/(?:[^/]*_)?slurmstepd\.scope)/job_([0-9]{1,10})(?:/|$)`)

	// serviceForm is the path system.slice/<unit> or system.slice/<slice of a template>/<unit>.
	// otherOwners are services that run the workloads of other owners, and services of the driver.
	serviceForm = regexp.MustCompile(`^/system\.slice/(?:[^/]*\.slice/)?([^/]*\.service)(?:/|$)`)
	otherOwners = regexp.MustCompile(`^(?:containerd|docker|crio|podman|kubelet|k3s|rke2|slurm|nvidia-|dcgm|user@)`)

	// podForm is pod<uid> (cgroupfs driver) or kubepods-burstable-pod<uid>.slice (systemd driver,
	// which replaces - by _). The UID of a static pod is a hash.
	podForm = regexp.MustCompile(`^(?:pod([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})` +
		`|.*kubepods.*-pod([0-9a-f]{8}(?:_[0-9a-f]{4}){3}_[0-9a-f]{12}|[0-9a-f]{32})\.slice)$`)

	// containerForm is <id> (cgroupfs driver), <runtime>-<id>.scope (systemd driver:
	// cri-containerd, crio, docker, libpod, nerdctl) or <slice>:<runtime>:<id>. crio-conmon-<id>
	// and libpod-conmon-<id> contain the container's monitor process.
	containerForm = regexp.MustCompile(`^(?:(.*)[-:])?([0-9a-f]{64})(?:\.scope)?$`)
)
