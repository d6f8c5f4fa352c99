package exporters

import (
	"slices"
	"strconv"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
)

// The functions below answer what other packages ask about any vendor's device. Where they take
// no vendor, NVIDIA's ids alone say more than that they differ.

// IsBoard reports whether an id is the driver's name of a board.
func IsBoard(id string) bool { return dcgm.IsBoardUUID(id) }

// IsInstance reports whether an id is the driver's own name of an instance.
func IsInstance(id string) bool { return dcgm.IsMIGUUID(id) }

// BoardID returns the hw.id of a board by its UUID, whose prefix some tools cut off.
func BoardID(uuid string) string { return dcgm.BoardID(uuid) }

// BoardOf returns the hw.id of an instance's board, empty where the instance's does not tell it.
func BoardOf(id string) string { return dcgm.BoardOf(id) }

// InstanceID returns the hw.id of an instance by its number on a board.
func InstanceID(board, instance string) string { return dcgm.InstanceID(board, instance) }

// usualSlices are the compute slices of boards of which nothing else is known.
const usualSlices = 7

// PluginID reads the id by which a device plugin gave a device to a container.
func PluginID(id string) catalogue.PluginID { return dcgm.PluginID(id) }

// Slices returns how many compute slices an instance of a vendor's board has by its profile, 0
// where that is not known.
func Slices(vendor, profile string) int {
	if EqualParts(vendor) {
		return 1
	}
	return dcgm.ProfileSlices(profile)
}

// BoardSlices returns how many compute slices a board has. One of equal parts has as many as its
// instances tell, and where they do not tell it, as the most that were seen.
func BoardSlices(vendor, model, told string, seen int) int {
	if EqualParts(vendor) {
		if parts, err := strconv.Atoi(told); err == nil && parts > 0 {
			return parts
		}
		return seen
	}
	if known, ok := dcgm.ModelSlices(model); ok {
		return known
	}
	return usualSlices
}

// EqualParts reports whether all instances of a vendor's boards are of one size, and together the
// board: one that is not listed is there all the same.
func EqualParts(vendor string) bool {
	return slices.ContainsFunc(All, func(x *catalogue.Exporter) bool { return x.EqualParts && strings.EqualFold(x.Vendor, vendor) })
}

// Called reports whether a container is called as an exporter is.
func Called(h catalogue.Holder) bool {
	return slices.ContainsFunc(All, func(x *catalogue.Exporter) bool { return x.CalledExporter(h) })
}

// agents are the names of monitoring agents other than exporters: DCGM itself, and agents that read
// NVML.
var agents = []string{
	"nvidia-dcgm", "dcgm", "nv-hostengine", "datadog-agent", "gpu-health-monitor", "gpud", "kepler", "nvidia-gpu-exporter", "nvidia-smi-exporter",
	"otelcol-gpu", "koordlet",
}

// Observes reports whether a container has the name of an exporter or another monitoring agent.
// Such a container has access to every device and holds none.
func Observes(h catalogue.Holder) bool {
	return Called(h) || slices.ContainsFunc(agents, func(agent string) bool {
		return h.Container == agent || h.Name == agent || h.Pod == agent || strings.HasPrefix(h.Pod, agent+"-")
	})
}

// XIDCatalogueDate is the day of the last change of what XID knows.
const XIDCatalogueDate = dcgm.XIDCatalogueDate

// XID returns what NVIDIA says of an error code, and false where it says nothing.
func XID(code int) (dcgm.XID, bool) { return dcgm.XIDByCode(code) }
