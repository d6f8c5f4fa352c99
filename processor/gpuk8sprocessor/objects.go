package gpuk8sprocessor

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/attribution"
)

// nodePods contains the pods on the node. The reservedPods method finds the pods for which a claim
// is reserved.
type nodePods struct {
	podsKnown bool
	uids      map[types.UID]bool
	byClaim   map[claimKey][]groupedPod
}

// groupedPod is a pod together with the name of the pod's PodGroup. If the pod has no PodGroup, the
// group name is empty.
type groupedPod struct {
	gpudata.Holder
	group string
}

type claimKey struct{ namespace, name string }

func (n *nodePods) add(p *corev1.Pod) {
	n.uids[p.UID] = true
	claims := map[string]bool{}
	for _, name := range kube.ClaimNames(p) {
		claims[name] = true
	}
	if e := p.Status.ExtendedResourceClaimStatus; e != nil {
		claims[e.ResourceClaimName] = true
	}
	for name := range claims {
		k := claimKey{p.Namespace, name}
		n.byClaim[k] = append(n.byClaim[k], groupedPod{gpudata.Holder{Namespace: p.Namespace, Pod: p.Name, UID: string(p.UID)}, gpushare.PodGroup(p)})
	}
}

// reservedPods returns the pods that a claim is reserved for. If the claim is reserved for a
// PodGroup, the result contains the pods in the PodGroup that reference the claim. The others
// result is true if the claim is also reserved for unknown pods. The onThisNode result is true if a
// pod on this node uses the claim, or if it is unknown which pods use the claim. Claims can belong
// to other nodes, because the processor reads the claims of the entire cluster.
func (n *nodePods) reservedPods(c *resourcev1.ResourceClaim) (pods []gpudata.Holder, others, onThisNode bool) {
	onThisNode = !n.podsKnown
	for i := range c.Status.ReservedFor {
		switch r := &c.Status.ReservedFor[i]; gpushare.ConsumerOf(r) {
		case gpushare.PodConsumer:
			onThisNode = onThisNode || n.uids[r.UID]
			pods = append(pods, gpudata.Holder{Namespace: c.Namespace, Pod: r.Name, UID: string(r.UID)})
		case gpushare.PodGroupConsumer:
			others = others || !n.podsKnown
			for _, p := range n.byClaim[claimKey{c.Namespace, c.Name}] {
				if p.group == r.Name && !slices.Contains(pods, p.Holder) {
					onThisNode = true
					pods = append(pods, p.Holder)
				}
			}
		case gpushare.OtherConsumer:
			others, onThisNode = true, true
		}
	}
	return pods, others, onThisNode
}

// readNode copies the sharing strategy, the instance type, and the wanted labels from the Node
// object to the given attribution.Sources.
func readNode(n *corev1.Node, wanted []string, a *attribution.Sources) {
	a.Sharing = sharing(n.Labels[sharingStrategyLabel])
	a.HostType = n.Labels[corev1.LabelInstanceTypeStable]
	a.NodeLabels = choose(n.Labels, wanted)
}

// choose returns only the labels that have one of the wanted keys and a nonempty value. If no label
// qualifies, choose returns nil.
func choose(labels map[string]string, wanted []string) (chosen map[string]string) {
	for _, key := range wanted {
		if value := labels[key]; value != "" {
			if chosen == nil {
				chosen = map[string]string{}
			}
			chosen[key] = value
		}
	}
	return chosen
}

// sharingStrategyLabel is a node label that gpu-feature-discovery sets. The label's value is none,
// mps, or time-slicing.
const sharingStrategyLabel = "nvidia.com/gpu.sharing-strategy"

// sharing converts a value of sharingStrategyLabel to a value of gpu.sharing.strategy.
func sharing(label string) string {
	switch label {
	case "time-slicing":
		return signal.SharingTimeSlicing
	case "mps":
		return signal.SharingMPS
	}
	return ""
}

// readContainers returns the containers in the kubelet's response, with the device IDs that might
// belong to GPUs. A device ID that has the format of a GPU ID is kept regardless of the resource
// name.
func readContainers(all []kube.ContainerResources, cfg *Config) []attribution.ContainerResources {
	var containers []attribution.ContainerResources
	for i := range all {
		c := &all[i]
		r := attribution.ContainerResources{Namespace: c.Namespace, Pod: c.Pod, Container: c.Container}
		for _, d := range c.Devices {
			id := exporters.PluginID(d.ID)
			id.Resource = d.Resource
			likely := gpushare.LikelyOf(d.Resource)
			switch {
			case id.IsKnown(), cfg.ResourceNames.Has(d.Resource):
				r.Devices = append(r.Devices, id)
			case cfg.OtherResourceNames.Has(d.Resource):
			case likely == gpushare.LikelyGPU:
				r.Devices = append(r.Devices, id)
			case likely == gpushare.LikelyOtherVendor:
				r.Others = append(r.Others, id)
			}
		}
		if cfg.Sources.DRA.Enabled {
			for _, d := range c.Claims {
				r.Claimed = append(r.Claimed, attribution.ClaimedDevice{
					Namespace:  d.Namespace,
					Allocation: gpudata.Allocation{Claim: d.Claim, Driver: d.Driver, Pool: d.Pool, Device: d.Device, ShareID: d.ShareID},
				})
			}
		}
		if len(r.Devices)+len(r.Others)+len(r.Claimed) > 0 {
			containers = append(containers, r)
		}
	}
	return containers
}

func readPod(p *corev1.Pod, labels []string, job findJob) attribution.Pod {
	pod := attribution.Pod{
		Namespace: p.Namespace, Name: p.Name, UID: string(p.UID),
		Created: p.CreationTimestamp.UnixNano(),
		Ended:   p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
		// For a static pod, the kubelet uses a hash of the pod's manifest as the UID.
		StaticUID: p.Annotations[corev1.MirrorPodAnnotationKey],
		Owner:     readOwner(p, labels, job),
		Claims:    kube.ContainerClaims(p),
		Groups:    gpushare.Groups(p),
	}
	if len(pod.Groups) > 0 {
		pod.GroupContainer = gpushare.GroupContainer(p)
		pod.Reserved = exporters.PluginID(gpushare.ReservedDevice(p))
		pod.Reservation = gpushare.IsReservation(p)
	}
	assigned, annotated, err := gpushare.Assigned(p)
	pod.Annotated, pod.Unread = annotated, err != nil
	for i := range assigned {
		pod.Assigned = append(pod.Assigned, readAssigned(&assigned[i]))
	}
	for _, statuses := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range statuses {
			if _, id, ok := strings.Cut(statuses[i].ContainerID, "://"); ok && id != "" {
				pod.Containers = append(pod.Containers, attribution.PodContainer{Name: statuses[i].Name, ID: id})
			}
		}
	}
	return pod
}

// readAssigned returns the device of an allocation. If the allocation is a share of a device, the
// returned device is a replica.
func readAssigned(a *gpushare.Allocation) attribution.Assigned {
	id := catalogue.PluginID{Raw: a.UUID}
	switch {
	case a.MIG != nil && a.MIG.GPUInstance >= 0 && a.UUID != "":
		id = catalogue.PluginID{Raw: a.UUID + "/" + strconv.Itoa(a.MIG.GPUInstance), UUID: a.UUID, GPUInstance: strconv.Itoa(a.MIG.GPUInstance)}
	case a.MIG != nil && a.MIG.UUID != "":
		id = catalogue.PluginID{Raw: a.MIG.UUID, MIGUUID: a.MIG.UUID}
	case a.MIG != nil: // The instance is unknown.
		id.Raw += "/?"
	case a.UUID != "":
		id = exporters.PluginID(a.UUID)
		id.Replica = !a.IsEntireDevice()
	case a.Minor >= 0:
		id.Raw = "nvidia" + strconv.Itoa(a.Minor)
		id.Name, id.Replica = id.Raw, !a.IsEntireDevice()
	}
	return attribution.Assigned{PluginID: id, Container: a.Container}
}

// readInstances returns the MIG devices that a scheduler recorded in the pod's annotations.
// readInstances ignores unreadable annotations, because the attribution package reports them.
func readInstances(p *corev1.Pod) []attribution.Instance {
	if len(p.Annotations) == 0 {
		return nil
	}
	allocations, _ := gpushare.Allocations(p.Annotations)
	var instances []attribution.Instance
	for i := range allocations {
		if m := allocations[i].MIG; m != nil && m.GPUInstance >= 0 {
			instances = append(instances, attribution.Instance{
				MIGUUID: m.UUID, UUID: allocations[i].UUID, GPUInstance: strconv.Itoa(m.GPUInstance),
			})
		}
	}
	return instances
}

// readSlices returns the devices of all complete pools. For the given drivers, the result contains
// all devices. For other drivers whose names may refer to NVIDIA GPUs, the result contains only
// devices that have the UUID of a GPU. The complete result is true if all pools of the given
// drivers are complete.
func readSlices(all []*resourcev1.ResourceSlice, drivers []string) (devices map[attribution.DRADevice]attribution.SliceDevice, complete bool) {
	type pool struct{ driver, name string }
	pools := map[pool][]*resourcev1.ResourceSlice{}
	for _, s := range all {
		key := pool{s.Spec.Driver, s.Spec.Pool.Name}
		pools[key] = append(pools[key], s)
	}
	devices, complete = map[attribution.DRADevice]attribution.SliceDevice{}, true
	for key, all := range pools {
		newest := gpushare.CurrentSlices(all)
		listed := slices.Contains(drivers, key.driver)
		complete = complete && (newest != nil || !listed)
		for _, s := range newest {
			for i := range s.Spec.Devices {
				d := &s.Spec.Devices[i]
				text := func(name string) string {
					value, _ := gpushare.DeviceText(key.driver, d, name)
					return value
				}
				uuid := text("uuid")
				if !listed && (gpushare.LikelyOf(key.driver) != gpushare.LikelyGPU || !exporters.IsBoard(uuid) && !exporters.IsInstance(uuid)) {
					continue
				}
				devices[attribution.DRADevice{Driver: key.driver, Pool: key.name, Device: d.Name}] = attribution.SliceDevice{
					Kind: text("type"), UUID: uuid, Parent: text("parentUUID"), Profile: text("profile"),
					Shared: ptr.Deref(d.AllowMultipleAllocations, false),
				}
			}
		}
	}
	return devices, complete
}

// readClaim returns the devices that are allocated to a claim, together with the pods for which the
// claim is reserved.
func readClaim(c *resourcev1.ResourceClaim, pods []gpudata.Holder, others bool) (devices []attribution.ClaimedDevice) {
	for _, r := range c.Status.Allocation.Devices.Results {
		devices = append(devices, attribution.ClaimedDevice{
			Namespace: c.Namespace, Admin: ptr.Deref(r.AdminAccess, false), ReservedFor: pods, ForOthers: others,
			Allocation: gpudata.Allocation{
				Claim: c.Name, ClaimUID: string(c.UID), Class: gpushare.ClassOf(c, r.Request), Request: r.Request,
				Driver: r.Driver, Pool: r.Pool, Device: r.Device, ShareID: string(ptr.Deref(r.ShareID, "")),
			},
		})
	}
	return devices
}
