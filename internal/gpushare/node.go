package gpushare

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// hamiRegister is the node annotation in which HAMi's device plugin lists GPUs.
const hamiRegister = "hami.io/node-nvidia-register"

// NodeResource is a GPU resource of a node: what the node advertises and the
// devices behind it. Several resources can speak of the same devices
// (nvidia.com/gpu and Koordinator's four): do not add Physical over resources.
type NodeResource struct {
	Resource
	// Units is the quantity as the node advertises it, in the resource's unit:
	// slots where devices are shared.
	Units int64
	// Physical is the number of devices behind the units: boards, or MIG
	// instances and other partitions where the unit is one. 0 where nothing
	// tells, as for gpu.shared without labels.
	Physical int64
	// MemoryBytes is the memory of each such device, 0 where it is not known or
	// differs. HAMi's deviceMemoryScaling is contained in it.
	MemoryBytes int64
}

// NodeDevices returns the GPU resources of a node of the built-in families.
func NodeDevices(capacity Requests, labels, annotations map[string]string) ([]NodeResource, error) {
	return Families{}.NodeDevices(capacity, labels, annotations)
}

// NodeDevices returns the GPU resources of a node, given its capacity or its
// allocatable, sorted by name. Slots are told from devices
//
//   - by HAMi's register annotation for nvidia.com/gpu: one entry for each GPU;
//   - by the labels of GPU feature discovery (gpu.replicas, gpu.count,
//     mig-<profile>.replicas) for NVIDIA's names; in the single MIG strategy
//     nvidia.com/gpu counts instances;
//   - by division by 100 for Koordinator's percent points, and for its
//     gpu.shared, of which each GPU has 100.
//
// Where nothing speaks of sharing, a unit of a name that does not promise it is
// taken as a device. The error lists what of the annotation could not be read;
// the rest is returned beside it.
func (f Families) NodeDevices(capacity Requests, labels, annotations map[string]string) ([]NodeResource, error) {
	var p problems
	registered := hamiDevices(annotations[hamiRegister], &p)
	var out []NodeResource
	for name, q := range capacity {
		r, ok := f.Lookup(name)
		if !ok {
			continue
		}
		n := NodeResource{Resource: r, Units: Units(q)}
		switch {
		case name == "nvidia.com/gpu" && len(registered) > 0:
			n.Physical, n.MemoryBytes = registeredGPUs(registered, n.Units)
		case r.Family == NVIDIA:
			nvidiaNode(&n, Units(capacity["nvidia.com/gpu.shared"]) > 0, labels)
		case r.Family == MIG:
			prefix := strings.TrimSuffix(name, ".shared")
			n.Physical = perReplica(n.Units, r.Shared, labels[prefix+".replicas"])
			n.MemoryBytes = times(labelNumber(labels[prefix+".memory"]), mebi)
		case r.Family == Koordinator && r.Unit != Bytes:
			n.Physical = n.Units / 100
			if n.Physical > 0 {
				n.MemoryBytes = Units(capacity[koordMemory]) / n.Physical
			}
		case r.Family == Tencent && r.Unit == Percent:
			n.Physical = n.Units / 100
		case r.Counted() && !r.Shared:
			n.Physical = n.Units
		}
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b NodeResource) int { return cmp.Compare(a.Name, b.Name) })
	return out, p.err()
}

// migProduct finds the profile in gpu.product of the single MIG strategy:
// NVIDIA-A100-SXM4-40GB-MIG-1g.5gb, with -SHARED behind it where sliced.
var migProduct = regexp.MustCompile(`-MIG-((?:\d{1,2}c\.)?\d{1,2}g\.\d{1,4}gb(?:[.+](?:me\.all|me|gfx))*)(?:-SHARED)?$`)

// nvidiaNode fills nvidia.com/gpu and gpu.shared from the labels.
func nvidiaNode(n *NodeResource, renamed bool, labels map[string]string) {
	n.MemoryBytes = times(labelNumber(labels["nvidia.com/gpu.memory"]), mebi)
	if labels["nvidia.com/mig.strategy"] == "single" {
		if m := migProduct.FindStringSubmatch(labels["nvidia.com/gpu.product"]); m != nil {
			n.Profile = m[1]
		}
	}
	if renamed && !n.Shared {
		// Slots go by the other name; what is left are whole devices.
		n.Physical = n.Units
		return
	}
	replicas := labels["nvidia.com/gpu.replicas"]
	if count := labelNumber(labels["nvidia.com/gpu.count"]); labelNumber(replicas) == 0 && count > 0 && n.Units%count == 0 {
		n.Physical = min(count, n.Units)
		return
	}
	n.Physical = perReplica(n.Units, n.Shared, replicas)
}

// perReplica divides slots by the replicas label. Without one a shared name
// leaves the number of devices unknown.
func perReplica(n int64, shared bool, label string) int64 {
	replicas := labelNumber(label)
	if replicas == 0 {
		if shared {
			return 0
		}
		return n
	}
	return n / replicas
}

// labelNumber reads a label of GPU feature discovery, 0 where it is absent or
// no number.
func labelNumber(text string) int64 {
	n, err := strconv.ParseUint(text, 10, 40)
	if err != nil {
		return 0
	}
	return int64(n)
}

// hamiGPU is a GPU that HAMi registered.
type hamiGPU struct {
	ID      string `json:"id"`
	Count   int32  `json:"count"`
	Memory  int32  `json:"devmem"`
	Healthy bool   `json:"health"`
}

// hamiDevices reads the register annotation. HAMi's documentation shows
// UUID,split,MiB,cores,type,numa,health with an index and a mode behind it in
// later versions, GPUs separated by colons; its code writes a JSON list now.
// Both are read. An entry that is not whole is left out and listed.
func hamiDevices(value string, p *problems) []hamiGPU {
	if value == "" || p.tooLong(hamiRegister, value) {
		return nil
	}
	var out []hamiGPU
	take := func(entry string, g hamiGPU, err error) {
		if err == nil && (!uuidForm.MatchString(g.ID) || g.Count < 1 || g.Memory < 0) {
			err = errors.New("id, count or memory is impossible")
		}
		if err != nil {
			p.add("%s: %s is no GPU: %w", hamiRegister, clip(entry), err)
			return
		}
		out = append(out, g)
	}
	if strings.HasPrefix(value, "[") {
		var entries []json.RawMessage
		if err := json.Unmarshal([]byte(value), &entries); err != nil {
			p.add("%s: %s is no list", hamiRegister, clip(value))
		}
		for _, raw := range entries {
			var g hamiGPU
			err := json.Unmarshal(raw, &g)
			take(string(raw), g, err)
		}
		return out
	}
	for entry := range strings.SplitSeq(value, ":") {
		if entry == "" {
			continue
		}
		g, err := registeredText(entry)
		take(entry, g, err)
	}
	return out
}

func registeredText(entry string) (hamiGPU, error) {
	fields := strings.Split(entry, ",")
	if len(fields) != 7 && len(fields) != 9 {
		return hamiGPU{}, fmt.Errorf("%d fields, not 7 or 9", len(fields))
	}
	count, err := strconv.ParseInt(fields[1], 10, 32)
	if err != nil {
		return hamiGPU{}, fmt.Errorf("split %s is no number", clip(fields[1]))
	}
	memory, err := strconv.ParseInt(fields[2], 10, 32)
	if err != nil {
		return hamiGPU{}, fmt.Errorf("memory %s is no number of MiB", clip(fields[2]))
	}
	healthy, err := strconv.ParseBool(fields[6])
	if err != nil {
		return hamiGPU{}, fmt.Errorf("health %s is neither true nor false", clip(fields[6]))
	}
	return hamiGPU{ID: fields[0], Count: int32(count), Memory: int32(memory), Healthy: healthy}, nil
}

// registeredGPUs counts the GPUs behind a number of slots: all of them where
// the slots are all (capacity), else the healthy ones (allocatable).
func registeredGPUs(gpus []hamiGPU, slots int64) (physical, memoryBytes int64) {
	var all, healthy int64
	memory := gpus[0].Memory
	for _, g := range gpus {
		all += int64(g.Count)
		if g.Healthy {
			healthy++
		}
		if g.Memory != memory {
			memory = 0
		}
	}
	memoryBytes = int64(memory) * mebi
	switch {
	case slots == 0:
		return 0, memoryBytes
	case slots < all:
		return min(healthy, slots), memoryBytes
	}
	return int64(len(gpus)), memoryBytes
}
