package amd

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// rolePartitioning is the role of the label that contains the board's partitioning mode.
const rolePartitioning = catalogue.RoleOwn

// labels maps each role to the label names that releases of the exporter have used. The first
// release had no labels for partitions or pods.
var labels = map[catalogue.Role][]string{
	catalogue.RoleUUID: {"gpu_uuid"}, catalogue.RoleSerial: {"serial_number"}, catalogue.RoleIndex: {"gpu_id"},
	catalogue.RolePartition: {"gpu_partition_id"}, rolePartitioning: {"gpu_compute_partition_type"},
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

// blankText reports whether a label value means "no value". For example, the partition label of an
// unpartitioned board and the UUID label in a virtual machine can have values that mean "no value".
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

// placeholders lists the strings that the exporter exposes instead of a UUID or a serial number.
var placeholders = []string{"na", "none", "null", "unknown"}

// blankValue reports whether v is the maximum of an integer type, which the driver returns for
// unknown values. Release 1.4 and later omit unknown values. The value 255 does not count as
// unknown, because it is a valid power in watts.
func blankValue(v float64) bool {
	switch v {
	case 1<<16 - 1, 1<<31 - 1, 1<<32 - 1, 1<<64 - 1:
		return true
	}
	return false
}

// ownsName reports whether a metric name has the form of the exporter's metric names. Other
// exporters' metric names can have the same form, so a row belongs to this exporter only if the
// claims function also returns true.
func ownsName(name string) bool {
	name = strings.TrimPrefix(name, prefix)
	return strings.HasPrefix(name, "gpu_") || strings.HasPrefix(name, "pcie_")
}

// claims reports whether a row's labels identify it as a row of this exporter. Every row of the
// exporter has the device's index and at least one label that no other exporter uses.
func claims(r *catalogue.Row) bool {
	if vendor := r.Get(catalogue.RoleVendor); vendor != "" && !isAMD(vendor) {
		return false
	}
	return r.Get(catalogue.RoleIndex) != "" && cmp.Or(
		r.Get(catalogue.RoleVendor), r.Get(catalogue.RoleSeries), r.Get(catalogue.RoleModel),
		r.Get(catalogue.RolePartition), r.Get(rolePartitioning)) != ""
}

// pciVendor is AMD's PCI vendor ID, which some releases expose instead of AMD's name.
const pciVendor = 0x1002

// isAMD reports whether vendor is AMD's name or PCI vendor ID.
func isAMD(vendor string) bool {
	vendor = strings.ToUpper(strings.TrimSpace(vendor))
	number, err := strconv.ParseUint(strings.TrimPrefix(vendor, "0X"), 16, 16)
	return err == nil && number == pciVendor || strings.Contains(vendor, "AMD") || strings.Contains(vendor, "ADVANCED MICRO")
}

// partitions maps each partitioning mode to its number of partitions. In cpx mode, each die is a
// partition.
var partitions = map[string]int{"dpx": 2, "tpx": 3, "qpx": 4, "cpx": 0}

// unpartitioned lists the partitioning modes of boards without partitions.
var unpartitioned = []string{"", "spx", "none", "unknown"}

// dies lists how many dies each model has. A model is identified by a substring of its name, which
// is the series or the part number.
var dies = []struct {
	model string
	n     int
}{{"MI300A", 6}, {"MI300X", 8}, {"102-G30211", 8}, {"MI325X", 8}, {"MI350X", 8}, {"MI355X", 8}}

// count returns the number of partitions of a board, or 0 if the number is unknown.
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

// equalParts returns the number of partitions of a board. If the partitions' rows do not contain
// the number of partitions, equalParts returns the largest number of partitions seen so far.
func equalParts(reported string, seen int) int {
	if parts, err := strconv.Atoi(reported); err == nil && parts > 0 {
		return parts
	}
	return seen
}

// identify returns the device that a row describes. The device's ID is the UUID. If the row has no
// UUID, the ID is the board's serial number, followed by the partition if the board is partitioned.
// If the serial number or the partition is missing, the ID is composed of the host and the index.
// If the row of a partition has no serial number, the partition's board is unknown.
func identify(r *catalogue.Row) (catalogue.Identity, catalogue.Refusal) {
	serial, partition := text(r, catalogue.RoleSerial), text(r, catalogue.RolePartition)
	way := strings.ToLower(text(r, rolePartitioning))
	_, cut := partitions[way]
	cut = cut || partition != "" && !slices.Contains(unpartitioned, way)
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
	d := &detail{index: text(r, catalogue.RoleIndex)}
	is.Of, is.Detail = count(r, way), d
	if serial != "" && partition != "" {
		d.bySerial = &catalogue.Identity{Board: serial, Instance: serial + "/p" + partition, Number: number, Detail: d}
	}
	return is, catalogue.Accepted
}

// text returns the value of the label with the given role, without leading and trailing spaces.
func text(r *catalogue.Row, role catalogue.Role) string { return strings.TrimSpace(r.Get(role)) }
