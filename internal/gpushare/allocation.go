package gpushare

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
)

// Annotations of pods.
const (
	koordAllocated = "scheduling.koordinator.sh/device-allocated"

	hamiAllocated  = "hami.io/vgpu-devices-allocated"
	hamiAMD        = "hami.io/amd-devices-allocated"
	hamiToAllocate = "hami.io/vgpu-devices-to-allocate"
	hamiMIG        = "hami.io/vgpu-mig-allocations"

	kaiFraction  = "gpu-fraction"
	kaiMemory    = "gpu-memory"
	kaiContainer = "gpu-fraction-container-name"
	kaiDevices   = "gpu-fraction-num-devices"
)

// KAIAnnotations returns the keys of KAI's annotations.
func KAIAnnotations() []string { return []string{kaiMemory, kaiFraction, kaiContainer, kaiDevices} }

// Allocation is a device, or a share of a device, that a scheduler allocated to a pod.
type Allocation struct {
	// Family identifies the system that wrote the annotation: Koordinator, HAMi, or KAI. For
	// Volcano's annotation, the family is HAMi.
	Family Family
	// Container is the container's name. Container is "" if the device is allocated to the pod
	// (Koordinator) or if the container is unknown. [Allocations] sets Container only if KAI's
	// annotation names a container. [PodAllocations] also sets Container for HAMi allocations, and
	// for KAI allocations whose annotation does not name a container.
	Container string
	// Slot is the allocation's position in HAMi's or Volcano's annotation, or -1 for the other
	// families. A slot is not the index of a container; see [PodAllocations].
	Slot int
	// UUID is the board's UUID, for example GPU-<uuid>. UUID is "" if it is unknown (KAI, older
	// Koordinator releases, and HAMi entries that contain only the UUID of a MIG instance).
	UUID string
	// Minor is the device's minor number, or -1 if it is unknown.
	Minor int
	// MemoryBytes is the allocated device memory, or 0 if it is unknown.
	MemoryBytes int64
	// MemoryRatio is the allocated fraction of the device's memory, in (0, 1], or 0 if it is
	// unknown.
	MemoryRatio float64
	// Core is the allocated fraction of the device's compute, in (0, 1], or 0 if it is unknown or
	// unlimited.
	Core float64
	// MIG is the MIG instance on the board, or nil if the board itself is allocated.
	MIG *MIGInstance
}

// MIGInstance is a MIG instance that HAMi selected.
type MIGInstance struct {
	// UUID is the instance's UUID in the form MIG-<uuid>. UUID is "" until the device plugin has
	// created the instance. Older HAMi releases do not record the UUID.
	UUID string
	// GPUInstance is NVML's ID for the instance, or -1 if it is unknown.
	GPUInstance int
}

// Allocations parses the pod annotations in which Koordinator, HAMi, Volcano, and KAI record
// allocations, in this order. If a pod has annotations of both HAMi and Volcano, Allocations parses
// only HAMi's. KAI's annotations contain only the request, not the allocated device.
//
// If an entry is invalid, Allocations omits the entry from the result, lists the entry in the
// error, and returns the other entries. (HAMi and Koordinator would reject the entire annotation.)
// Allocations does not parse annotations that are larger than 256 KiB.
//
// [PodAllocations] also determines which containers use the allocated devices.
func Allocations(annotations map[string]string) ([]Allocation, error) {
	var p problems
	all, _ := allocations(annotations, &p)
	return all, p.err()
}

// allocations works like [Allocations]. In addition, allocations returns the sorted list of the
// slots in HAMi's annotation that contain a device.
func allocations(annotations map[string]string, p *problems) (out []Allocation, slots []int) {
	hami, slots := hamiAllocations(annotations, p)
	out = append(koordinatorAllocations(annotations, p), hami...)
	return append(out, kaiAllocations(annotations, p)...), slots
}

// uuidForm matches device UUIDs. Because vendors and tests use arbitrary device names, the
// expression is permissive: it rejects only text with separators, spaces, or quotes.
var uuidForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$`)

// koordinatorAllocations parses {"gpu":[{"minor":3,"id":"GPU-…","resources":{…}}]}. Entries for
// other device types are ignored, even if they are malformed.
func koordinatorAllocations(annotations map[string]string, p *problems) []Allocation {
	value, ok := annotations[koordAllocated]
	if !ok || p.tooLong(koordAllocated, value) {
		return nil
	}
	var types struct {
		GPU []json.RawMessage `json:"gpu"`
	}
	if err := json.Unmarshal([]byte(value), &types); err != nil {
		p.add("%s: %s is not a list of devices by type", koordAllocated, clip(value))
		return nil
	}
	var allocations []Allocation
	for i, raw := range types.GPU {
		a, err := koordinatorDevice(raw)
		if err != nil {
			p.add("%s: gpu[%d]: %w", koordAllocated, i, err)
			continue
		}
		allocations = append(allocations, a)
	}
	return allocations
}

func koordinatorDevice(raw json.RawMessage) (Allocation, error) {
	var device struct {
		Minor     *int32                     `json:"minor"`
		ID        string                     `json:"id"`
		Resources map[string]json.RawMessage `json:"resources"`
	}
	if err := json.Unmarshal(raw, &device); err != nil {
		return Allocation{}, fmt.Errorf("%s is not a device", clip(string(raw)))
	}
	a := Allocation{Family: Koordinator, Slot: -1, Minor: -1, UUID: device.ID}
	if device.Minor != nil && *device.Minor >= 0 {
		a.Minor = int(*device.Minor)
	}
	if a.UUID == "" && a.Minor < 0 {
		return Allocation{}, errors.New("neither id nor minor")
	}
	if a.UUID != "" && !uuidForm.MatchString(a.UUID) {
		return Allocation{}, fmt.Errorf("id %s is not a device id", clip(a.UUID))
	}
	for _, field := range []struct {
		name string
		max  int64
		set  func(int64)
	}{
		{koordMemory, limit, func(n int64) { a.MemoryBytes = n }},
		{koordRatio, 100, func(n int64) { a.MemoryRatio = float64(n) / 100 }},
		{koordCore, 100, func(n int64) { a.Core = float64(n) / 100 }},
	} {
		quantity, ok := device.Resources[field.name]
		if !ok {
			continue
		}
		n, err := parseQuantity(quantity)
		if err != nil {
			return Allocation{}, fmt.Errorf("%s: %w", field.name, err)
		}
		if n > field.max {
			return Allocation{}, fmt.Errorf("%s: %d is more than a device has", field.name, n)
		}
		field.set(n)
	}
	return a, nil
}

// slot identifies the position of a device in HAMi's annotations.
type slot struct{ slot, device int }

// hamiTypeAMD is the type of AMD devices in HAMi's annotations.
const hamiTypeAMD = "AMDGPU"

// hamiEmpty is the text that some releases write to a slot without a device (HAMi#991). Other
// releases leave the slot empty.
const hamiEmpty = ",,0,0"

// hamiAllocations parses HAMi's or Volcano's annotation, which contains UUID,TYPE,MiB,cores for
// each device. Semicolons separate slots, and colons separate the devices of a slot. The slot and
// the position in the slot determine which device a MIG instance belongs to. hamiAllocations also
// returns the sorted list of slots that contain a device, even if the device cannot be parsed. If
// the pod has no annotation with allocations, hamiAllocations parses the annotation that contains
// the request (-to-allocate). HAMi writes both annotations at the same time. When the device plugin
// has allocated a device, HAMi removes the device from the request annotation.
func hamiAllocations(annotations map[string]string, p *problems) (out []Allocation, slots []int) {
	key := positional(annotations)
	value := annotations[key]
	at := map[slot]int{}
	if !p.tooLong(key, value) {
		index := 0
		for devices := range strings.SplitSeq(value, ";") {
			device := 0
			for entry := range strings.SplitSeq(devices, ":") {
				if entry == "" || entry == hamiEmpty {
					continue
				}
				a, err := hamiDevice(entry)
				if err != nil {
					p.add("%s: slot %d: %w", key, index, err)
				} else {
					a.Slot = index
					if key == volcanoAllocated {
						a.MemoryBytes = 0
					}
					at[slot{index, device}] = len(out)
					out = append(out, a)
				}
				device++
			}
			if device > 0 {
				slots = append(slots, index)
			}
			index++
		}
	}
	out = hamiMIGAllocations(annotations[hamiMIG], out, at, p)
	for i := range out {
		if at, known := slices.BinarySearch(slots, out[i].Slot); !known {
			slots = slices.Insert(slots, at, out[i].Slot) // the slot occurs only in the MIG annotation
		}
	}
	return out, slots
}

func hamiDevice(entry string) (Allocation, error) {
	fields := strings.Split(entry, ",")
	if len(fields) < 4 {
		return Allocation{}, fmt.Errorf("%s is not UUID,TYPE,MiB,cores", clip(entry))
	}
	a := Allocation{Family: HAMi, Minor: -1, UUID: fields[0]}
	// Older HAMi releases do not record the placement of a MIG instance. Instead, they append the
	// indexes of the MIG template and of the template's slot to the board's UUID, in brackets:
	// GPU-…[0-1]. These indexes do not identify the instance.
	if board, template, ok := strings.Cut(a.UUID, "["); ok && strings.HasSuffix(template, "]") {
		a.UUID, a.MIG = board, &MIGInstance{GPUInstance: -1}
	}
	if !uuidForm.MatchString(a.UUID) {
		return Allocation{}, fmt.Errorf("%s does not start with a device's UUID", clip(entry))
	}
	if exporters.IsInstance(a.UUID) {
		a.MIG = &MIGInstance{UUID: a.UUID, GPUInstance: -1}
		a.UUID = ""
	}
	memory, err := strconv.ParseInt(fields[2], 10, 32)
	if err != nil || memory < 0 {
		return Allocation{}, fmt.Errorf("memory %s of %s is not a number of MiB", clip(fields[2]), clip(fields[0]))
	}
	cores, err := strconv.ParseInt(fields[3], 10, 32)
	if err == nil && cores >= 0 && fields[1] == hamiTypeAMD {
		cores = 0 // the value is a number of compute units, and the device's total number of units is unknown
	}
	if err != nil || cores < 0 || cores > 100 {
		return Allocation{}, fmt.Errorf("cores %s of %s are not a percentage", clip(fields[3]), clip(fields[0]))
	}
	a.MemoryBytes, a.Core = memory*mebi, float64(cores)/100
	return a, nil
}

// hamiMIGAllocations adds each MIG instance to the allocation for the same slot and device. If no
// allocation has the same slot and device, the instance becomes a separate allocation with unknown
// memory.
func hamiMIGAllocations(value string, out []Allocation, at map[slot]int, p *problems) []Allocation {
	if value == "" || p.tooLong(hamiMIG, value) {
		return out
	}
	var entries []json.RawMessage
	if err := json.Unmarshal([]byte(value), &entries); err != nil {
		p.add("%s: %s is not a list", hamiMIG, clip(value))
		return out
	}
	seen := map[slot]bool{}
	for i, raw := range entries {
		position, board, instance, err := hamiInstance(raw)
		if err == nil && seen[position] {
			err = fmt.Errorf("slot %d, device %d is listed twice", position.slot, position.device)
		}
		index, ok := at[position]
		if err == nil && ok && out[index].UUID != board {
			err = fmt.Errorf("slot %d, device %d is %s in %s", position.slot, position.device, clip(out[index].UUID), hamiAllocated)
		}
		if err != nil {
			p.add("%s: [%d]: %w", hamiMIG, i, err)
			continue
		}
		seen[position] = true
		if ok {
			out[index].MIG = instance
			continue
		}
		out = append(out, Allocation{
			Family: HAMi, Slot: position.slot, UUID: board, Minor: -1, MIG: instance,
		})
	}
	return out
}

func hamiInstance(raw json.RawMessage) (slot, string, *MIGInstance, error) {
	var e struct {
		ContainerIndex *uint16 `json:"containerIndex"`
		DeviceIndex    *uint16 `json:"deviceIndex"`
		GPUUUID        string  `json:"gpuUUID"`
		Profile        string  `json:"profile"`
		Placement      struct {
			Size uint8 `json:"size"`
		} `json:"placement"`
		MIGUUID           string  `json:"migUUID"`
		GPUInstanceID     *uint16 `json:"gpuInstanceID"`
		ComputeInstanceID *uint16 `json:"computeInstanceID"`
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return slot{}, "", nil, fmt.Errorf("%s is not a MIG allocation", clip(string(raw)))
	}
	// HAMi always writes both indexes, even if they are 0, and rejects incomplete entries.
	if e.ContainerIndex == nil || e.DeviceIndex == nil || !uuidForm.MatchString(e.GPUUUID) ||
		e.Profile == "" || len(e.Profile) > 32 || e.Placement.Size == 0 {
		return slot{}, "", nil, fmt.Errorf("%s is incomplete", clip(string(raw)))
	}
	isCreated := e.MIGUUID != ""
	if isCreated != (e.GPUInstanceID != nil) || isCreated != (e.ComputeInstanceID != nil) || isCreated && !uuidForm.MatchString(e.MIGUUID) {
		return slot{}, "", nil, fmt.Errorf("%s has only some of its ids", clip(string(raw)))
	}
	instance := &MIGInstance{UUID: e.MIGUUID, GPUInstance: -1}
	if isCreated {
		instance.GPUInstance = int(*e.GPUInstanceID)
	}
	return slot{int(*e.ContainerIndex), int(*e.DeviceIndex)}, e.GPUUUID, instance, nil
}

var (
	fractionForm = regexp.MustCompile(`^(?:0?\.\d{1,9}|1(?:\.0{1,9})?)$`)
	// containerForm matches the container names that Kubernetes allows.
	containerForm = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$`)
)

// kaiMaxDevices is the maximum value of gpu-fraction-num-devices. No node has more than 64 GPUs.
const kaiMaxDevices = 64

// kaiAllocations parses gpu-fraction or gpu-memory (in MiB). Only one of these two annotations may
// be set. If gpu-fraction-num-devices is set to n, the pod has n shares of that size, each on a
// different device.
func kaiAllocations(annotations map[string]string, p *problems) []Allocation {
	fraction, hasFraction := annotations[kaiFraction]
	memory, hasMemory := annotations[kaiMemory]
	if !hasFraction && !hasMemory {
		return nil
	}
	if hasFraction && hasMemory {
		p.add("%s and %s exclude each other", kaiFraction, kaiMemory)
		return nil
	}
	a := Allocation{Family: KAI, Container: annotations[kaiContainer], Slot: -1, Minor: -1}
	if a.Container != "" && !containerForm.MatchString(a.Container) {
		p.add("%s: %s is not a container's name", kaiContainer, clip(a.Container))
		return nil
	}
	if hasFraction {
		f, err := strconv.ParseFloat(fraction, 64)
		if !fractionForm.MatchString(fraction) || err != nil || f <= 0 {
			p.add("%s: %s is not a number above 0 and up to 1", kaiFraction, clip(fraction))
			return nil
		}
		a.MemoryRatio, a.Core = f, f
	} else {
		mib, err := strconv.ParseUint(memory, 10, 32)
		if err != nil || mib == 0 {
			p.add("%s: %s is not a number of MiB", kaiMemory, clip(memory))
			return nil
		}
		a.MemoryBytes = int64(mib) * mebi
	}
	devices := uint64(1)
	if text, ok := annotations[kaiDevices]; ok {
		var err error
		devices, err = strconv.ParseUint(text, 10, 8)
		if err != nil || devices == 0 || devices > kaiMaxDevices {
			p.add("%s: %s is not a number of devices from 1 to %d", kaiDevices, clip(text), kaiMaxDevices)
			return nil
		}
	}
	return slices.Repeat([]Allocation{a}, int(devices))
}
