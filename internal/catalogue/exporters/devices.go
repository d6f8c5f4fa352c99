package exporters

import (
	"slices"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
)

// Other packages use the functions below for devices of any vendor. Functions without a vendor
// argument recognize only NVIDIA's IDs.

// IsBoard reports whether id is the driver's UUID for a board.
func IsBoard(id string) bool { return dcgm.IsBoardUUID(id) }

// IsInstance reports whether id is the driver's UUID for an instance.
func IsInstance(id string) bool { return dcgm.IsMIGUUID(id) }

// BoardID returns the hw.id of the board with the given UUID. The UUID's prefix is optional,
// because some tools remove it.
func BoardID(uuid string) string { return dcgm.BoardID(uuid) }

// BoardName returns the name that the operating system uses for the board with the given number.
func BoardName(number string) string { return "nvidia" + number }

// BoardOf returns the hw.id of an instance's board, or "" if the instance's hw.id does not contain
// the board's hw.id.
func BoardOf(id string) string { return dcgm.BoardOf(id) }

// InstanceID returns the hw.id of the instance with the given number on the given board.
func InstanceID(board, instance string) string { return dcgm.InstanceID(board, instance) }

// usualSlices is the assumed number of compute slices of a board whose model is unknown.
const usualSlices = 7

// PluginID parses the device ID of a device plugin.
func PluginID(id string) catalogue.PluginID { return dcgm.PluginID(id) }

// Slices returns the number of compute slices of an instance with the given profile, or 0 if the
// number is unknown. If all instances of the vendor's boards have the same size, each instance
// counts as one slice.
func Slices(vendor, profile string) int {
	if EqualParts(vendor) {
		return 1
	}
	return dcgm.ProfileSlices(profile)
}

// BoardSlices returns the number of compute slices of a board. The reported argument is the number
// of instances that an instance's row contains, or "" if the row does not contain the number. The
// seen argument is the largest number of instances seen so far.
func BoardSlices(vendor, model, reported string, seen int) int {
	if x := equalParts(vendor); x != nil {
		return x.EqualParts(reported, seen)
	}
	if known, ok := dcgm.ModelSlices(model); ok {
		return known
	}
	return usualSlices
}

// EqualParts reports whether all instances of a vendor's boards have the same size and together
// make up the board. If EqualParts returns true, callers must also count instances that the
// exporter does not list.
func EqualParts(vendor string) bool { return equalParts(vendor) != nil }

// equalParts returns the vendor's exporter if EqualParts returns true for the vendor, and nil
// otherwise.
func equalParts(vendor string) *catalogue.Exporter {
	for _, x := range All {
		if x.EqualParts != nil && strings.EqualFold(x.Vendor, vendor) {
			return x
		}
	}
	return nil
}

// IsExporter reports whether a container has the name of an exporter.
func IsExporter(h catalogue.Holder) bool {
	return slices.ContainsFunc(All, func(x *catalogue.Exporter) bool { return x.IsExporter(h) })
}

// agents contains the names of monitoring agents that are not exporters, such as DCGM itself and
// agents that read NVML.
var agents = []string{
	"nvidia-dcgm", "dcgm", "nv-hostengine", "datadog-agent", "gpu-health-monitor", "gpud", "kepler", "nvidia-gpu-exporter", "nvidia-smi-exporter",
	"otelcol-gpu", "koordlet",
}

// IsMonitoringAgent reports whether a container has the name of an exporter or of another
// monitoring agent. A monitoring agent has access to every device but holds none.
func IsMonitoringAgent(h catalogue.Holder) bool {
	return IsExporter(h) || slices.ContainsFunc(agents, func(agent string) bool {
		return h.Container == agent || h.Name == agent || h.Pod == agent || strings.HasPrefix(h.Pod, agent+"-")
	})
}

// XIDCatalogueDate is the date of the last change to the XID catalog.
const XIDCatalogueDate = dcgm.XIDCatalogueDate

// XID returns the catalog entry for an XID code, or false if there is none.
func XID(code int) (dcgm.XID, bool) { return dcgm.XIDByCode(code) }
