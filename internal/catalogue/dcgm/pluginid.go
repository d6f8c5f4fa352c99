package dcgm

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// pluginIDForm matches the device IDs of device plugins after the optional suffix ::N has been
// removed. NVIDIA's plugin uses one form for GPUs and two forms for MIG devices, one of which is
// for drivers before R470. GKE's plugin uses different forms for GPUs, for MIG devices, and for
// shares of a GPU or a MIG device.
var pluginIDForm = func() *regexp.Regexp {
	const uuid = `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`
	return regexp.MustCompile(`^(?:(GPU-` + uuid + `)|(MIG-` + uuid + `)|MIG-(GPU-` + uuid + `)/(\d{1,4})/\d{1,4}` +
		`|(nvidia(?:0|[1-9]\d{0,3}))(?:/gi(\d{1,4}))?(/vgpu\d{1,4})?)$`)
}()

// PluginID parses the device ID of a device plugin. If the form of the ID is unknown, PluginID sets
// only Raw, because a wrong device is worse than none.
func PluginID(id string) catalogue.PluginID {
	out := catalogue.PluginID{Raw: id}
	base, slot, shared := strings.Cut(id, "::")
	if _, err := strconv.ParseUint(slot, 10, 16); shared && err != nil {
		return out
	}
	if m := pluginIDForm.FindStringSubmatch(base); m != nil {
		out.UUID, out.MIGUUID, out.Name, out.GPUInstance = m[1]+m[3], m[2], m[5], m[4]+m[6]
		out.Replica = shared || m[7] != ""
	}
	return out
}
