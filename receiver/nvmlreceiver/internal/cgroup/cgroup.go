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

// Kind is the kind of owner of a process.
type Kind uint8

const (
	// Unknown means that the control group of the process cannot be read.
	Unknown Kind = iota
	// Host processes, such as system services and user sessions, are neither in a container nor in
	// a batch job.
	Host
	// Container processes are in a container or a pod.
	Container
	// Job processes are in a batch job.
	Job
	// NumKinds is one more than the highest Kind.
	NumKinds
)

// String returns the name that self-metrics use for the kind.
func (k Kind) String() string { return [...]string{"unknown", "host", "container", "job"}[k] }

// Owner identifies the owner of a process.
type Owner struct {
	Kind Kind
	// ContainerID is the ID that the container runtime assigned to the container. The ID has 64
	// hexadecimal digits. If the process is in a pod but not in any of the pod's containers,
	// ContainerID is empty.
	ContainerID string
	// PodUID is the UID of the pod in the API server. For a static pod, PodUID is a hash without
	// dashes that the kubelet computes. Outside Kubernetes, PodUID is empty.
	PodUID string
	// Alone is true if the container is known not to be part of a pod, because the path is complete
	// and the container was not created for a kubelet.
	Alone bool
	// Job is the ID of the Slurm job.
	Job string
	// Service is the systemd unit of the system service to which a Host process belongs, such as
	// ollama.service.
	Service string
}

// Of returns the owner of the process with the given PID. The procRoot argument is the path of a
// proc file system, such as /proc. The pid argument is a PID in the PID namespace to which this
// proc file system belongs. If the process cannot be read, for example because it has ended, the
// kind of the owner is Unknown.
func Of(procRoot string, pid uint32) Owner {
	text, err := os.ReadFile(filepath.Join(procRoot, strconv.FormatUint(uint64(pid), 10), "cgroup")) //nolint:gosec // The path consists of a configured directory and a number.
	if err != nil {
		return Owner{}
	}
	return Parse(string(text))
}

// Parse parses the contents of /proc/<pid>/cgroup and returns the most specific owner. Each line
// has the form "hierarchy:controllers:path". With cgroup v1, there is one line per hierarchy, but
// the container runtime does not necessarily manage all hierarchies.
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

// The rank method returns a number that indicates how specific an owner is, with higher numbers for
// more specific owners.
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

// parsePath returns the owner that the path of a control group indicates. A container may itself
// run a container runtime, for example if the container is an image builder or a node of a cluster
// that kind created. Therefore, only the outermost pod and the container directly below it belong
// to the kubelet on this machine. If the path contains no pod, parsePath uses the outermost
// container. Containers, batch jobs, and user sessions can choose the names of their child groups.
// Therefore, parsePath ignores names of pods outside the control groups of a kubelet.
func parsePath(path string) Owner {
	if job := jobForm.FindStringSubmatch(path); job != nil {
		return Owner{Kind: Job, Job: job[1]}
	}
	components := strings.Split(path, "/")[1:]
	o := Owner{Kind: Host}
	// Pod control groups exist only under the control groups of a kubelet. In a cgroup namespace,
	// the path might not contain the control groups of the kubelet.
	kubelet, hidden := false, components[0] == ".."
	for _, component := range components {
		kubelet = kubelet || strings.Contains(component, "kubepods")
		// If containerd uses the systemd driver with a cgroupfs path, a single path component
		// contains both the pod and the container: kubepods-pod<uid>.slice:cri-containerd:<id>.
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
	// jobForm matches the paths of jobs for which slurmd created the group: slurm/uid_<n>/job_<n>
	// (cgroup v1) or system.slice/slurmstepd.scope/job_<n> (cgroup v2). If several slurmd daemons
	// run on a machine, the top-level groups are named slurm_<node> and <node>_slurmstepd.scope.
	jobForm = regexp.MustCompile(`^/(?:slurm(?:_[^/]*)?/uid_[0-9]{1,10}|system\.slice/(?:[^/]*_)?slurmstepd\.scope)/job_([0-9]{1,10})(?:/|$)`)

	// serviceForm matches the paths system.slice/<unit> and system.slice/<slice of a
	// template>/<unit>. The otherOwners expression matches services that run workloads for other
	// owners, and services of the driver.
	serviceForm = regexp.MustCompile(`^/system\.slice/(?:[^/]*\.slice/)?([^/]*\.service)(?:/|$)`)
	otherOwners = regexp.MustCompile(`^(?:containerd|docker|crio|podman|kubelet|k3s|rke2|slurm|nvidia-|dcgm|user@)`)

	// podForm matches pod<uid> (cgroupfs driver) and kubepods-burstable-pod<uid>.slice (systemd
	// driver, which replaces - with _). The UID of a static pod is a hash.
	podForm = regexp.MustCompile(`^(?:pod([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})` +
		`|.*kubepods.*-pod([0-9a-f]{8}(?:_[0-9a-f]{4}){3}_[0-9a-f]{12}|[0-9a-f]{32})\.slice)$`)

	// containerForm matches <id> (cgroupfs driver), <runtime>-<id>.scope (systemd driver), and
	// <slice>:<runtime>:<id>. The runtime is cri-containerd, crio, docker, libpod, or nerdctl. The
	// groups crio-conmon-<id> and libpod-conmon-<id> contain the process that monitors the
	// container.
	containerForm = regexp.MustCompile(`^(?:(.*)[-:])?([0-9a-f]{64})(?:\.scope)?$`)
)
