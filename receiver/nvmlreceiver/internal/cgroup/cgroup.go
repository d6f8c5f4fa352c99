// Package cgroup tells from the path of a process's control group which container, which pod,
// which batch job or which service of systemd it runs in.
package cgroup

import (
	"os"
	"path/filepath"
	"slices"
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

// maxSize bounds what is read of a process's file; paths are far shorter.
const maxSize = 64 << 10

// Reader finds owners through the proc file system.
type Reader struct {
	root   string
	buffer []byte
}

// NewReader returns a Reader for a proc file system, such as /proc. It is not
// safe for concurrent use.
func NewReader(root string) *Reader {
	return &Reader{root: root, buffer: make([]byte, maxSize)}
}

// Owner returns the owner of a process by its ID in the proc file system's PID
// namespace. A process that cannot be read, because it is gone, is Unknown.
func (r *Reader) Owner(pid uint32) Owner {
	f, err := os.Open(filepath.Join(r.root, strconv.FormatUint(uint64(pid), 10), "cgroup"))
	if err != nil {
		return Owner{}
	}
	n, err := f.Read(r.buffer)
	_ = f.Close() // nothing was written
	if err != nil {
		return Owner{}
	}
	return Parse(string(r.buffer[:n]))
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
	components := strings.Split(path, "/")[1:]
	if job := slurmJob(components); job != "" {
		return Owner{Kind: Job, Job: job}
	}
	o := Owner{Kind: Host}
	// Only a kubelet's groups hold pods. From a cgroup namespace they may be out of sight.
	kubelet, hidden := false, components[0] == ".."
	for _, component := range components {
		kubelet = kubelet || strings.Contains(component, "kubepods")
		// With containerd's systemd driver and a cgroupfs path, both are in one:
		// kubepods-pod<uid>.slice:cri-containerd:<id>.
		slice, rest, _ := strings.Cut(component, ":")
		if uid := podUID(slice); uid != "" && o.PodUID == "" && (kubelet || hidden) && components[0] != "user.slice" {
			o = Owner{Kind: Container, PodUID: uid}
			component = rest
		}
		if o.ContainerID == "" {
			if id := containerID(component); id != "" {
				o.Kind, o.ContainerID = Container, id
				o.Alone = o.PodUID == "" && !hidden && !kubelet && !strings.Contains(component, "cri")
			}
		}
	}
	if o.Kind == Host {
		o.Service = service(components)
	}
	return o
}

// notItsOwn begin the names of services whose processes are somebody else's workloads, or the
// driver's.
var notItsOwn = []string{"containerd", "docker", "crio", "podman", "kubelet", "k3s", "rke2", "slurm", "nvidia-", "dcgm", "user@"}

// service returns the unit of system.slice/<unit> and system.slice/<slice of a template>/<unit>,
// "" for anything else.
func service(components []string) string {
	if len(components) < 2 || components[0] != "system.slice" {
		return ""
	}
	unit := components[1]
	if strings.HasSuffix(unit, ".slice") && len(components) > 2 {
		unit = components[2]
	}
	if !strings.HasSuffix(unit, ".service") || slices.ContainsFunc(notItsOwn, func(name string) bool { return strings.HasPrefix(unit, name) }) {
		return ""
	}
	return unit
}

// slurmJob returns the number of the job whose group slurmd made: slurm/uid_<n>/job_<n> (v1)
// or system.slice/slurmstepd.scope/job_<n> (v2). With several daemons on a machine their name
// is slurm_<node> and <node>_slurmstepd.scope.
func slurmJob(components []string) string {
	if len(components) < 3 {
		return ""
	}
	first, second := components[0], components[1]
	v1 := (first == "slurm" || strings.HasPrefix(first, "slurm_")) && isNumber(strings.TrimPrefix(second, "uid_")) && strings.HasPrefix(second, "uid_")
	v2 := first == "system.slice" && (second == "slurmstepd.scope" || strings.HasSuffix(second, "_slurmstepd.scope"))
	job, ok := strings.CutPrefix(components[2], "job_")
	if !ok || !isNumber(job) || !v1 && !v2 {
		return ""
	}
	return job
}

// isNumber reports whether s is a number as schedulers write it: of at most ten digits.
func isNumber(s string) bool {
	const digits = "0123456789"
	return s != "" && len(s) <= len(digits) && strings.Trim(s, digits) == ""
}

// podUID reads "pod<uid>" (cgroupfs driver) and "kubepods-burstable-pod<uid>.slice"
// (systemd driver, which writes _ for -). It returns "" for anything else.
func podUID(component string) string {
	name, systemd := strings.CutSuffix(component, ".slice")
	if systemd {
		if !strings.Contains(name, "kubepods") {
			return ""
		}
		name = name[strings.LastIndexByte(name, '-')+1:]
	}
	uid, ok := strings.CutPrefix(name, "pod")
	if !ok {
		return ""
	}
	if systemd {
		uid = strings.ReplaceAll(uid, "_", "-")
	}
	if hash := len(uid) == 32 && isHex(uid); !hash && !isUUID(uid) {
		return ""
	}
	return uid
}

// containerID reads "<id>" (cgroupfs driver), "<runtime>-<id>.scope" (systemd
// driver: cri-containerd, crio, docker, libpod, nerdctl) and
// "<slice>:<runtime>:<id>". It returns "" for anything else.
func containerID(component string) string {
	name := strings.TrimSuffix(component, ".scope")
	if i := strings.LastIndexAny(name, "-:"); i >= 0 {
		// crio-conmon-<id> and libpod-conmon-<id> hold the container's monitor.
		if strings.HasSuffix(name[:i], "conmon") {
			return ""
		}
		name = name[i+1:]
	}
	const idLength = 64
	if len(name) != idLength || !isHex(name) {
		return ""
	}
	return name
}

func isUUID(s string) bool {
	const form = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
	if len(s) != len(form) {
		return false
	}
	for i := range len(s) {
		if form[i] == '-' && s[i] != '-' || form[i] == 'x' && !isHex(s[i:i+1]) {
			return false
		}
	}
	return true
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
