package amd

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// labels are those of all releases. The first had neither partitions nor pods.
var labels = map[catalogue.Role][]string{
	catalogue.RoleUUID: {"gpu_uuid"}, catalogue.RoleSerial: {"serial_number"}, catalogue.RoleIndex: {"gpu_id"},
	catalogue.RolePartition: {"gpu_partition_id"}, catalogue.RolePartitioning: {"gpu_compute_partition_type"},
	catalogue.RoleModel: {"card_model"}, catalogue.RoleSeries: {"card_series"}, catalogue.RoleVendor: {"card_vendor"},
	catalogue.RoleDriverVersion: {"driver_version"},
	catalogue.RoleHost:          {"hostname"},

	catalogue.RolePod: {"pod"}, catalogue.RoleNamespace: {"namespace"}, catalogue.RoleContainer: {"container"}, catalogue.RolePodUID: {"pod_uuid"},
	catalogue.RoleRelayedPod: {"exported_pod"}, catalogue.RoleRelayedNamespace: {"exported_namespace"},
	catalogue.RoleRelayedContainer: {"exported_container"}, catalogue.RoleRelayedPodUID: {"exported_pod_uuid"},
	catalogue.RoleJob: {"job_id"}, catalogue.RoleJobUser: {"job_user"}, catalogue.RoleJobPartition: {"job_partition"},

	catalogue.RoleCut:  {"clock_type"},
	catalogue.RolePart: {"xcc_index", "link_index"},
}

// blankText reports texts that stand for "no value": of a partition that a board without
// partitions has, of a UUID that virtual machines do not get, and of a serial number.
func blankText(role catalogue.Role, s string) bool {
	switch s = strings.TrimSpace(s); s {
	case "NA", "4294967295":
		return true
	}
	if role != catalogue.RoleUUID && role != catalogue.RoleSerial {
		return false
	}
	return strings.Trim(s, "0-") == "" || slices.Contains(placeholders, strings.ToLower(s))
}

// placeholders stand in place of a UUID or a serial number.
var placeholders = []string{"na", "none", "null", "unknown"}

// blankValue reports the highest numbers of each width, which the driver gives for what it
// does not know and the exporter leaves out since release 1.4. 255 may be a power.
func blankValue(v float64) bool {
	switch v {
	case 1<<16 - 1, 1<<31 - 1, 1<<32 - 1, 1<<64 - 1:
		return true
	}
	return false
}

// ownsName reports names with which the exporter's begin. Others' begin so too: claims
// decides.
func ownsName(name string) bool {
	name = strings.TrimPrefix(name, prefix)
	return strings.HasPrefix(name, "gpu_") || strings.HasPrefix(name, "pcie_")
}

// claims reports whether the labels are the exporter's: every row has the device's index,
// and one of the labels that no other exporter has.
func claims(r *catalogue.Row) bool {
	if vendor := r.Get(catalogue.RoleVendor); vendor != "" && !isAMD(vendor) {
		return false
	}
	return r.Get(catalogue.RoleIndex) != "" && cmp.Or(
		r.Get(catalogue.RoleVendor), r.Get(catalogue.RoleSeries), r.Get(catalogue.RoleModel),
		r.Get(catalogue.RolePartition), r.Get(catalogue.RolePartitioning)) != ""
}

// pciVendor is AMD's number among vendors on PCI, which some releases give in place of the name.
const pciVendor = 0x1002

// isAMD reports whether a vendor is AMD, by its name or its number.
func isAMD(vendor string) bool {
	vendor = strings.ToUpper(strings.TrimSpace(vendor))
	number, err := strconv.ParseUint(strings.TrimPrefix(vendor, "0X"), 16, 16)
	return err == nil && number == pciVendor || strings.Contains(vendor, "AMD") || strings.Contains(vendor, "ADVANCED MICRO")
}

// partitions are the numbers of partitions by the way to cut a board; cpx makes one of each die.
var partitions = map[string]int{"dpx": 2, "tpx": 3, "qpx": 4, "cpx": 0}

// whole are the ways not to cut a board.
var whole = []string{"", "spx", "none", "unknown"}

// dies are the numbers of dies by a part of the model's name, its series or its part number.
var dies = []struct {
	model string
	n     int
}{{"MI300A", 6}, {"MI300X", 8}, {"102-G30211", 8}, {"MI325X", 8}, {"MI350X", 8}, {"MI355X", 8}}

// count returns into how many partitions a board is cut, 0 where that is not known.
func count(r *catalogue.Row, way string) int {
	if way != "cpx" {
		return partitions[way]
	}
	name := strings.ToUpper(r.Get(catalogue.RoleModel) + " " + r.Get(catalogue.RoleSeries))
	for _, d := range dies {
		if strings.Contains(name, d.model) {
			return d.n
		}
	}
	return 0
}

// identify returns which device a row is about: by its UUID, else by the board's serial
// number and the partition, else by host and index. The board of partitions is its serial
// number; without one it is not known. Some releases give several devices one UUID, or do not
// say that a board is cut: then the partition tells them apart.
func identify(r *catalogue.Row) (catalogue.Identity, catalogue.Refusal) {
	serial, partition := text(r, catalogue.RoleSerial), text(r, catalogue.RolePartition)
	way := strings.ToLower(text(r, catalogue.RolePartitioning))
	_, cut := partitions[way]
	cut = cut || partition != "" && !slices.Contains(whole, way)
	id := text(r, catalogue.RoleUUID)
	switch {
	case id != "":
	case serial != "" && !cut:
		id = serial
	case serial != "" && partition != "":
		id = serial + "/p" + partition
	case r.Get(catalogue.RoleHost) != "":
		id = r.Get(catalogue.RoleHost) + "/gpu" + text(r, catalogue.RoleIndex)
	default:
		return catalogue.Identity{}, catalogue.NoDevice
	}
	number, err := strconv.Atoi(partition)
	if err != nil {
		number = -1
	}
	is := catalogue.Identity{Board: id}
	if cut && serial != "" {
		is = catalogue.Identity{Board: serial, Instance: id, Number: number}
	}
	is.Index, is.Of = text(r, catalogue.RoleIndex), count(r, way)
	if serial != "" && partition != "" {
		is.Apart = &catalogue.Identity{Board: serial, Instance: serial + "/p" + partition, Number: number}
	}
	return is, catalogue.Accepted
}

// text returns the text of a role without blanks around it.
func text(r *catalogue.Row, role catalogue.Role) string { return strings.TrimSpace(r.Get(role)) }
