package dcgm

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// labels holds every spelling: the current one, --use-old-namespace
// (uuid, pod_name, …), LINK rows (gpu_uuid, model_name, hostname) and 4.8.3
// (hostname).
var labels = map[string]catalogue.Role{
	"UUID": catalogue.RoleUUID, "uuid": catalogue.RoleUUID, "gpu_uuid": catalogue.RoleUUID,
	"device":    catalogue.RoleDevice,
	"modelName": catalogue.RoleModel, "model_name": catalogue.RoleModel,
	"GPU_I_ID": catalogue.RoleInstanceID, "GPU_I_PROFILE": catalogue.RoleInstanceProfile,
	"Hostname": catalogue.RoleHost, "hostname": catalogue.RoleHost,
	"pod": catalogue.RolePod, "pod_name": catalogue.RolePod,
	"namespace": catalogue.RoleNamespace, "pod_namespace": catalogue.RoleNamespace,
	"container": catalogue.RoleContainer, "container_name": catalogue.RoleContainer,
	"pod_uid": catalogue.RolePodUID, "uid": catalogue.RolePodUID,
	"exported_pod": catalogue.RoleRelayedPod, "exported_pod_name": catalogue.RoleRelayedPod,
	"exported_namespace": catalogue.RoleRelayedNamespace, "exported_pod_namespace": catalogue.RoleRelayedNamespace,
	"exported_container": catalogue.RoleRelayedContainer, "exported_container_name": catalogue.RoleRelayedContainer,
	"exported_pod_uid": catalogue.RoleRelayedPodUID, "exported_uid": catalogue.RoleRelayedPodUID,
	"hpc_job":                       catalogue.RoleJob,
	"DCGM_FI_DRIVER_VERSION":        catalogue.RoleDriverVersion,
	"DCGM_FI_SYSTEM_DRIVER_VERSION": catalogue.RoleDriverVersion,
	"DCGM_FI_DEV_SERIAL":            catalogue.RoleSerial,
	"DCGM_FI_DEV_BOARD_SERIAL":      catalogue.RoleSerial,

	"vgpu":   catalogue.RoleVGPU,
	"xid":    catalogue.RoleXID,
	"nvlink": catalogue.RoleLink, "nvswitch": catalogue.RoleSwitch,
	"cpu": catalogue.RoleCPU, "cpucore": catalogue.RoleCPU,
	"dra_claim_name": catalogue.RoleClaim, "dra_driver_name": catalogue.RoleDRADriver, "dra_pool_name": catalogue.RoleDRAPool,
	"dra_device_name": catalogue.RoleDRADevice, "dra_mig_device_uuid": catalogue.RoleMIGUUID,
}

// identify returns which device a row is about. The exporter's UUID is the board's, also on
// the row of a MIG instance.
func identify(r *catalogue.Row) (catalogue.Identity, catalogue.Refusal) {
	switch {
	case r.Get(catalogue.RoleLink) != "", r.Get(catalogue.RoleSwitch) != "", r.Get(catalogue.RoleCPU) != "":
		return catalogue.Identity{}, catalogue.OtherEntity
	case r.Get(catalogue.RoleUUID) == "":
		return catalogue.Identity{}, catalogue.NoDevice
	case !isNVIDIA(r):
		return catalogue.Identity{}, catalogue.OtherVendor
	}
	is := catalogue.Identity{Board: BoardID(r.Get(catalogue.RoleUUID)), Instance: r.Get(catalogue.RoleInstanceID)}
	if n, err := strconv.Atoi(is.Instance); err == nil {
		is.Number = n
	}
	return is, catalogue.Accepted
}

// isNVIDIA reports whether the row's labels look like NVIDIA's: other vendors'
// exporters use DCGM's metric names too. A UUID begins with GPU- or MIG-; where it
// does not, the model has to be one of NVIDIA's.
func isNVIDIA(r *catalogue.Row) bool {
	model := catalogue.FoldModel(r.Get(catalogue.RoleModel))
	uuid := r.Get(catalogue.RoleUUID)
	switch {
	case hasWord(model, otherVendors):
		return false
	case IsBoardUUID(uuid), IsMIGUUID(uuid):
		return true
	}
	_, migs := ModelSlices(model)
	return migs || LookupModel(model) != (catalogue.Model{}) || hasWord(model, brands)
}

// otherVendors are words of the names of boards that are not NVIDIA's, brands of
// those that are.
var (
	otherVendors = []string{"mtt", "moore", "amd", "instinct", "radeon", "intel", "ascend", "metax", "hygon", "iluvatar"}
	brands       = []string{"nvidia", "tesla", "quadro", "geforce", "rtx", "gtx", "titan", "grid"}
)

// hasWord reports whether one of the words stands in the text as whole words.
func hasWord(text string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(" "+text+" ", " "+w+" ") })
}

// CalledExporter reports whether a container has the name of an exporter's. Scrape
// configurations attach the exporter's own pod to rows of GPUs that nobody holds; where nothing
// says which pod was scraped, its name decides. The container names are those of the static
// manifests and of the operator. The Helm chart's, exporter, is too general alone.
func CalledExporter(h catalogue.Holder) bool {
	container := cmp.Or(h.Container, h.Name)
	switch container {
	case "dcgm-exporter", "nvidia-dcgm-exporter":
		return true
	}
	return strings.Contains(h.Pod, "dcgm-exporter") || h.Pod == "" && strings.Contains(container, "dcgm-exporter")
}
