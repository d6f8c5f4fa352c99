package dcgm

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// pluginIDForm has the forms of ids that device plugins give out, without a suffix ::N: NVIDIA's
// of a GPU, of a MIG device, and of one with drivers before R470; GKE's of a GPU, of a MIG device,
// and of slots on either.
var pluginIDForm = func() *regexp.Regexp {
	const uuid = `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`
	return regexp.MustCompile(`^(?:(GPU-` + uuid + `)|(MIG-` + uuid + `)|MIG-(GPU-` + uuid + `)/(\d{1,4})/\d{1,4}` +
		`|(nvidia(?:0|[1-9]\d{0,3}))(?:/gi(\d{1,4}))?(/vgpu\d{1,4})?)$`)
}()

// PluginID reads the id of a device as a device plugin gives it to the kubelet. It is strict: of
// an id in none of the known forms nothing but the id is known, because the wrong device would be
// worse than none.
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
