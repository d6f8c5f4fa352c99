package dcgm

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// The exporter uses labels with the following roles only in rows without a UUID label.
const (
	// roleLink is the number of an NVLink.
	roleLink = catalogue.RoleOwn + iota
	// roleLinkGPU is the UUID of a link's GPU.
	roleLinkGPU
	// roleSwitch is the number of an NVSwitch.
	roleSwitch
	// roleCPU is the number of a CPU or a CPU core.
	roleCPU
)

// labels maps each role to the exporter's names for the label. The label that contains the node's
// name is Hostname through exporter version 4.8.2, and hostname in later versions. If the exporter
// runs with --use-old-namespace, it exposes the uuid, pod_name, pod_namespace, and container_name
// labels. NVLink rows have the gpu_uuid and model_name labels. The uid label is not listed, because
// every version uses pod_uid for the pod's UID.
var labels = map[catalogue.Role][]string{
	catalogue.RoleUUID: {"UUID", "uuid"}, roleLinkGPU: {"gpu_uuid"},
	catalogue.RoleDevice: {"device"}, catalogue.RoleModel: {"modelName", "model_name"},
	catalogue.RoleInstanceID: {"GPU_I_ID"}, catalogue.RoleInstanceProfile: {"GPU_I_PROFILE"},
	catalogue.RoleHost: {"Hostname", "hostname"},

	catalogue.RolePod: {"pod"}, catalogue.RoleNamespace: {"namespace"}, catalogue.RoleContainer: {"container"}, catalogue.RolePodUID: {"pod_uid"},
	catalogue.RoleOldPod: {"pod_name"}, catalogue.RoleOldNamespace: {"pod_namespace"}, catalogue.RoleOldContainer: {"container_name"},

	catalogue.RoleRelayedPod:       {"exported_pod", "exported_pod_name"},
	catalogue.RoleRelayedNamespace: {"exported_namespace", "exported_pod_namespace"},
	catalogue.RoleRelayedContainer: {"exported_container", "exported_container_name"},
	catalogue.RoleRelayedPodUID:    {"exported_pod_uid"},

	catalogue.RoleJob:           {"hpc_job"},
	catalogue.RoleDriverVersion: {"DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION"},
	catalogue.RoleSerial:        {"DCGM_FI_DEV_SERIAL", "DCGM_FI_DEV_BOARD_SERIAL"},

	catalogue.RoleVGPU: {"vgpu"}, catalogue.RoleXID: {"xid"},
	roleLink: {"nvlink"}, roleSwitch: {"nvswitch"}, roleCPU: {"cpu", "cpucore"},
	catalogue.RoleClaim: {"dra_claim_name"}, catalogue.RoleDRADriver: {"dra_driver_name"}, catalogue.RoleDRAPool: {"dra_pool_name"},
	catalogue.RoleDRADevice: {"dra_device_name"}, catalogue.RoleMIGUUID: {"dra_mig_device_uuid"},
}

// identify returns the device that a row describes. The exporter's UUID identifies the board, even
// in a MIG instance's row. A row without a UUID may describe a link, a switch, or a CPU. If a row
// without a UUID has only the gpu_uuid label, the row describes that GPU. In a row with a UUID,
// labels that have the same names as link, switch, or CPU labels are pod labels.
func identify(r *catalogue.Row) (catalogue.Identity, catalogue.Refusal) {
	uuid := r.Get(catalogue.RoleUUID)
	switch {
	case uuid != "":
	case r.Get(roleLink) != "", r.Get(roleSwitch) != "", r.Get(roleCPU) != "":
		return catalogue.Identity{}, catalogue.OtherEntity
	default:
		uuid = r.Get(roleLinkGPU)
	}
	switch {
	case uuid == "":
		return catalogue.Identity{}, catalogue.NoDevice
	case !isNVIDIA(uuid, r.Get(catalogue.RoleModel)):
		return catalogue.Identity{}, catalogue.OtherVendor
	}
	is := catalogue.Identity{Board: BoardID(uuid)}
	if id := r.Get(catalogue.RoleInstanceID); id != "" && !isPodsInstance(r) {
		if n, err := strconv.ParseUint(id, 10, 31); err == nil { // a value that is not a number comes from a pod label
			is.Instance, is.Number = id, int(n)
		}
	}
	return is, catalogue.Accepted
}

// isPodsInstance reports whether a row's instance number comes from a pod label. The exporter
// exposes the instance number only together with the instance's profile. If DCGM does not know the
// profile, the exporter exposes a text such as <<<NULL>>>, which no pod label can have. For rows
// without a model name, isPodsInstance returns false. The exporter always exposes the model name, so
// if the model name is missing, another program has removed labels from the row.
func isPodsInstance(r *catalogue.Row) bool {
	if r.Get(catalogue.RoleInstanceProfile) != "" || r.Blank(catalogue.RoleInstanceProfile) || r.Get(catalogue.RoleModel) == "" {
		return false
	}
	h, _ := r.Named()
	return h.Pod != "" && h.Namespace != ""
}

// blankText reports whether a label value is invalid for the role. Some invalid values come from
// pod labels.
func blankText(role catalogue.Role, text string) bool {
	switch role { //nolint:exhaustive // the values of the other roles have no fixed format
	case catalogue.RoleDriverVersion:
		return !driverVersion.MatchString(text)
	case catalogue.RoleSerial:
		return !serialNumber.MatchString(text)
	case catalogue.RoleInstanceProfile:
		return !instanceProfile.MatchString(text)
	}
	return strings.HasPrefix(text, "<<<") && strings.HasSuffix(text, ">>>")
}

var (
	// driverVersion matches versions of NVIDIA's driver, such as 580.105.08.
	driverVersion = regexp.MustCompile(`^[1-9]\d{1,3}(\.\d{1,4}){0,3}$`)
	// instanceProfile matches MIG profiles, including profiles that are not known yet.
	instanceProfile = regexp.MustCompile(`^(\d+c\.)?\d+g\.\d+gb`)
	// serialNumber matches the serial numbers of boards. All known serial numbers consist of
	// digits.
	serialNumber = regexp.MustCompile(`^(\d{1,20}|[0-9A-Z]{10,20})$`)
)

// IsDriverVersion reports whether text has the form of an NVIDIA driver version.
func IsDriverVersion(text string) bool { return driverVersion.MatchString(text) }

// isNVIDIA reports whether a row's labels describe an NVIDIA device: the model must not be another
// vendor's model. In addition, either the UUID must start with GPU- or MIG-, or the model must be
// an NVIDIA model. The metric names are not sufficient, because exporters from other vendors also
// use DCGM's metric names.
func isNVIDIA(uuid, model string) bool {
	uuid, model = properUUID(uuid), catalogue.FoldModel(model)
	switch {
	case hasWord(model, otherVendors):
		return false
	case IsBoardUUID(uuid), IsMIGUUID(uuid):
		return true
	}
	_, migs := ModelSlices(model)
	return migs || LookupModel(model) != (Model{}) || hasWord(model, brands)
}

// otherVendors contains words that occur in the names of other vendors' boards, and brands contains
// words that occur in the names of NVIDIA's boards.
var (
	otherVendors = []string{"mtt", "moore", "amd", "instinct", "radeon", "intel", "ascend", "metax", "hygon", "iluvatar"}
	brands       = []string{"nvidia", "tesla", "quadro", "geforce", "rtx", "gtx", "titan", "grid"}
)

func hasWord(text string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(" "+text+" ", " "+w+" ") })
}

// IsExporter reports whether a container has the name of an exporter. The container's name is used
// if no other label identifies the scraped pod. Scrape configurations add the labels of the
// exporter's own pod to the rows of GPUs without a holder. IsExporter recognizes the container
// names from the static manifests and from the operator. The container name in the Helm chart,
// "exporter", is too general to be recognized without the pod's name.
func IsExporter(h catalogue.Holder) bool {
	container := cmp.Or(h.Container, h.Name)
	switch container {
	case "dcgm-exporter", "nvidia-dcgm-exporter":
		return true
	}
	return strings.Contains(h.Pod, "dcgm-exporter") || h.Pod == "" && strings.Contains(container, "dcgm-exporter")
}
