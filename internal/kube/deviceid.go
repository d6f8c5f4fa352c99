package kube

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// The vendors of [DeviceID].
const (
	VendorNVIDIA = "nvidia"
	VendorAMD    = "amd"
)

// DeviceID is the meaning of a device plugin's id. Empty is unknown.
type DeviceID struct {
	Vendor      string
	UUID        string // of the board, GPU-<uuid>
	MIGUUID     string // of the MIG device, MIG-<uuid>
	Index       int    // of the board: N of nvidiaN and of /dev/nvidiaN; -1 unknown
	GPUInstance string // id of the MIG GPU instance on the board
	Replica     string // number of the slot on a time-sliced or MPS device; empty: not shared so
	PCIAddress  string // AMD: domain:bus:device.function
	Partition   string // AMD: N of amdgpu_xcp_N
}

const uuidPattern = `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`

// deviceIDForms are the forms of ids that device plugins give out, each with the
// fields that its groups are. A suffix ::N is cut off before.
var deviceIDForms = []struct {
	vendor  string
	pattern *regexp.Regexp
	fields  func(d *DeviceID, groups []string)
}{
	// NVIDIA's plugin: a whole GPU.
	{
		VendorNVIDIA, regexp.MustCompile(`^(GPU-` + uuidPattern + `)$`),
		func(d *DeviceID, g []string) { d.UUID = g[1] },
	},
	// NVIDIA's plugin: a MIG device, with drivers from R470 on.
	{
		VendorNVIDIA, regexp.MustCompile(`^(MIG-` + uuidPattern + `)$`),
		func(d *DeviceID, g []string) { d.MIGUUID = g[1] },
	},
	// NVIDIA's plugin: a MIG device, with older drivers.
	{
		VendorNVIDIA, regexp.MustCompile(`^MIG-(GPU-` + uuidPattern + `)/(\d{1,4})/\d{1,4}$`),
		func(d *DeviceID, g []string) { d.UUID, d.GPUInstance = g[1], g[2] },
	},
	// GKE's plugin: a whole GPU, a MIG device, and slots on either.
	{
		VendorNVIDIA, regexp.MustCompile(`^nvidia(\d{1,4})(?:/gi(\d{1,4}))?(?:/vgpu(\d{1,4}))?$`),
		func(d *DeviceID, g []string) {
			d.Index, _ = strconv.Atoi(g[1]) // four digits at most
			d.GPUInstance = g[2]
			if g[3] != "" {
				d.Replica = g[3]
			}
		},
	},
	// AMD's plugin: a partition, a whole GPU.
	{
		VendorAMD, regexp.MustCompile(`^amdgpu_xcp_(\d{1,4})$`),
		func(d *DeviceID, g []string) { d.Partition = g[1] },
	},
	{
		VendorAMD, regexp.MustCompile(`^([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])$`),
		func(d *DeviceID, g []string) { d.PCIAddress = g[1] },
	},
}

// replicaMark separates the id of a shared device from the number of the slot.
const replicaMark = "::"

// ParseDeviceID reads the id of a device as the kubelet gives it for an extended
// resource. It is strict: what is none of the known forms is an error, because
// the wrong device would be worse than none. A PCI address belongs to a vendor
// only by the resource's name, which must begin with amd.com/.
func ParseDeviceID(resource, id string) (DeviceID, error) {
	base, replica, shared := strings.Cut(id, replicaMark)
	if shared && !isNumber(replica) {
		return DeviceID{}, fmt.Errorf("device id %q of %s: %q is not the number of a slot", id, resource, replica)
	}
	for _, form := range deviceIDForms {
		groups := form.pattern.FindStringSubmatch(base)
		if groups == nil || form.vendor == VendorAMD && !strings.HasPrefix(resource, "amd.com/") {
			continue
		}
		d := DeviceID{Vendor: form.vendor, Index: -1, Replica: replica}
		form.fields(&d, groups)
		return d, nil
	}
	return DeviceID{}, fmt.Errorf("device id %q of %s: unknown form", id, resource)
}

func isNumber(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}
