package dratest

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// Pods returns the pods in the API server that are on the given node. If node is empty, Pods
// returns the pods on all nodes.
func (w *World) Pods(node string) (out []*corev1.Pod) {
	for _, p := range w.pods {
		if node == "" || p.node == node && !p.unbound {
			out = append(out, p.object())
		}
	}
	return out
}

func (p *pod) object() *corev1.Pod {
	o := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.name, UID: types.UID(p.uid), CreationTimestamp: metav1.NewTime(p.created)},
		Spec:       corev1.PodSpec{NodeName: p.node},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	switch {
	case p.ended:
		o.Status.Phase = corev1.PodSucceeded
	case p.unbound:
		o.Spec.NodeName, o.Status.Phase = "", corev1.PodPending
	case p.stranger:
		o.Status.Phase = corev1.PodPending
	}
	for i, c := range p.claims {
		name := fmt.Sprint("entry-", i)
		switch {
		case c.extended:
			o.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: c.name}
			for _, of := range p.containers {
				for _, u := range of.uses {
					o.Status.ExtendedResourceClaimStatus.RequestMappings = append(o.Status.ExtendedResourceClaimStatus.RequestMappings,
						corev1.ContainerExtendedResourceRequest{ContainerName: of.name, ResourceName: "nvidia.com/gpu", RequestName: u.request})
				}
			}
			continue
		case c.template || c.group && !p.stranger:
			o.Spec.ResourceClaims = append(o.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimTemplateName: new("template")})
			o.Status.ResourceClaimStatuses = append(o.Status.ResourceClaimStatuses, corev1.PodResourceClaimStatus{Name: name, ResourceClaimName: &c.name})
			if c.group {
				o.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new(c.groupName())}
			}
		default:
			o.Spec.ResourceClaims = append(o.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimName: &c.name})
		}
	}
	for _, of := range p.containers {
		c := corev1.Container{Name: of.name}
		for _, u := range of.uses {
			for i := range p.claims {
				if p.claims[i] == u.claim && !u.claim.extended {
					c.Resources.Claims = append(c.Resources.Claims, corev1.ResourceClaim{Name: fmt.Sprint("entry-", i), Request: u.request})
				}
			}
		}
		if of.init {
			o.Spec.InitContainers = append(o.Spec.InitContainers, c)
		} else {
			o.Spec.Containers = append(o.Spec.Containers, c)
		}
	}
	return o
}

// ResourceClaims returns all claims in the API server.
func (w *World) ResourceClaims() (out []*resourcev1.ResourceClaim) {
	for _, c := range w.claims {
		o := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: c.name, UID: types.UID(c.uid)}}
		if c.extended {
			o.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
		}
		if c.group {
			owner := metav1.NewControllerRef(&metav1.ObjectMeta{Name: c.groupName(), UID: types.UID("group-" + c.uid)}, groupOwner)
			o.OwnerReferences = []metav1.OwnerReference{*owner}
		}
		o.Status.Allocation = &resourcev1.AllocationResult{}
		for _, r := range c.results {
			o.Spec.Devices.Requests = append(o.Spec.Devices.Requests, resourcev1.DeviceRequest{
				Name: r.request, Exactly: &resourcev1.ExactDeviceRequest{
					DeviceClassName: r.device.class(), Count: 1, AdminAccess: &r.admin, Tolerations: c.tolerations,
				},
			})
			given := resourcev1.DeviceRequestAllocationResult{
				Request: r.request, Driver: r.device.driver, Pool: r.device.pool, Device: r.device.name, AdminAccess: &r.admin,
				Tolerations: c.tolerations,
			}
			if r.binds() {
				given.BindingConditions, given.BindingFailureConditions = []string{attached}, []string{broken}
			}
			if r.share != "" {
				given.ShareID = new(types.UID(r.share))
			}
			o.Status.Allocation.Devices.Results = append(o.Status.Allocation.Devices.Results, given)
			if conditions := slices.Clone(*r.reported); len(conditions) > 0 {
				status := resourcev1.AllocatedDeviceStatus{Driver: given.Driver, Pool: given.Pool, Device: given.Device, Conditions: conditions}
				if r.share != "" {
					status.ShareID = &r.share
				}
				o.Status.Devices = append(o.Status.Devices, status)
			}
		}
		for _, p := range c.pods {
			if !c.group {
				o.Status.ReservedFor = append(o.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{
					Resource: "pods", Name: p.name, UID: types.UID(p.uid),
				})
			}
		}
		if c.group && len(c.pods) > 0 {
			o.Status.ReservedFor = append(o.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{
				APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: c.groupName(), UID: types.UID("group-" + c.uid),
			})
		}
		if c.gone {
			o.Status.ReservedFor = append(o.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{
				Resource: "pods", Name: "gone", UID: types.UID("gone-" + c.uid),
			})
		}
		out = append(out, o)
	}
	for _, c := range w.waiting {
		o := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: c.name, UID: types.UID(c.uid)}}
		o.Spec.Devices.Requests = []resourcev1.DeviceRequest{{
			Name: "r0", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: NVIDIA, Count: int64(c.wants)},
		}}
		out = append(out, o)
	}
	return out
}

func (c *claim) groupName() string { return "group-" + c.name }

func (d *device) class() string {
	if d.driver == NVIDIA && d.kind == "mig" {
		return "mig.nvidia.com"
	}
	return d.driver
}

// ResourceSlices returns the ResourceSlices of the given node. If node is empty, the result
// contains the ResourceSlices of all nodes.
func (w *World) ResourceSlices(node string) (out []*resourcev1.ResourceSlice) {
	type pool struct{ driver, name string }
	pools := map[pool][]*device{}
	var order []pool
	for _, d := range w.devices {
		if d.removed || node != "" && d.pool != node {
			continue
		}
		of := pool{d.driver, d.pool}
		if pools[of] == nil {
			order = append(order, of)
		}
		pools[of] = append(pools[of], d)
	}
	for _, of := range order {
		parts := 1
		if of.driver == NVIDIA && of.name == w.Node {
			parts = w.parts
		}
		for part := range parts {
			if part > 0 && w.hidden {
				break
			}
			s := &resourcev1.ResourceSlice{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s-%d-%d", of.name, of.driver, w.generation, part)},
				Spec: resourcev1.ResourceSliceSpec{
					Driver: of.driver, NodeName: &of.name,
					Pool: resourcev1.ResourcePool{Name: of.name, Generation: w.generation, ResourceSliceCount: int64(parts)},
				},
			}
			for i, d := range pools[of] {
				if i%parts == part {
					s.Spec.Devices = append(s.Spec.Devices, d.object())
				}
			}
			out = append(out, s)
			if w.generation > 1 { // the slices of the previous generation have not been deleted yet
				old := s.DeepCopy()
				old.Name += "-old"
				old.Spec.Pool.Generation--
				for i := range old.Spec.Devices {
					old.Spec.Devices[i].Attributes["uuid"] = text("GPU-99999999-0000-0000-0000-000000000000")
				}
				out = append(out, old)
			}
		}
	}
	return out
}

func text(s string) resourcev1.DeviceAttribute { return resourcev1.DeviceAttribute{StringValue: &s} }

func (d *device) object() resourcev1.Device {
	o := resourcev1.Device{
		Name: d.published(), Taints: d.taints, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"type": text(d.kind)},
	}
	switch {
	case d.driver == AMD:
		o.Attributes["type"] = text("amdgpu")
		o.Attributes["pciAddr"] = text("0000:03:00.0")
		o.Attributes["cardIndex"] = resourcev1.DeviceAttribute{IntValue: new(int64)}
	case d.driver == Intel:
		o.Attributes["model"] = text("B60")
		o.Attributes["pciAddress"] = text("0000:04:00.0")
	case d.board == nil:
		o.Attributes["uuid"] = text("GPU-88888888-0000-0000-0000-000000000000")
	case d.kind == "mig":
		o.Attributes["parentUUID"] = text(d.board.uuid)
		o.Attributes["profile"] = text(d.profile)
		if d.uuid != "" {
			o.Attributes["uuid"] = text(d.uuid)
		}
	default:
		o.Attributes["uuid"] = text(d.board.uuid)
	}
	if d.board != nil {
		o.Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
			"memory": {Value: *resource.NewQuantity(int64(d.memory())<<30, resource.BinarySI)},
		}
	}
	if d.board != nil && d.board.kind == dynamic {
		o.ConsumesCounters = []resourcev1.DeviceCounterConsumption{{
			CounterSet: fmt.Sprintf("gpu-%d-counter-set", d.board.index),
			Counters:   map[string]resourcev1.Counter{"slices": {Value: *resource.NewQuantity(int64(d.slices()), resource.DecimalSI)}},
		}}
	}
	if d.board != nil && d.board.kind == shares {
		o.AllowMultipleAllocations = new(true)
	}
	if d.binds {
		o.BindingConditions, o.BindingFailureConditions = []string{attached}, []string{broken}
	}
	return o
}

// published returns the device's name in ResourceSlices.
func (d *device) published() string {
	if d.renamed {
		return d.name + "-new"
	}
	return d.name
}

// running reports whether the kubelet of the observed node lists the pod.
func (w *World) running(p *pod) bool {
	return p.node == w.Node && !p.unbound && !p.stranger && !p.preparing && (!p.ended || w.OldKubelet)
}

// Listing returns the kubelet's list of containers and their devices, including devices with
// administrative access.
func (w *World) Listing() (out []kube.ContainerResources) {
	for _, p := range w.pods {
		if !w.running(p) {
			continue
		}
		for _, of := range p.containers {
			r := kube.ContainerResources{Namespace: p.namespace, Pod: p.name, Container: of.name}
			for _, u := range of.uses {
				for _, given := range u.claim.results {
					if of.init || u.request != "" && u.request != given.request {
						continue
					}
					d := kube.ClaimDevice{
						Namespace: u.claim.namespace, Claim: u.claim.name, Driver: given.device.driver, Pool: given.device.pool, Device: given.device.name,
					}
					if !w.OldKubelet {
						d.ShareID = given.share
					}
					r.Claims = append(r.Claims, d)
				}
			}
			if len(r.Claims) > 0 {
				out = append(out, r)
			}
		}
	}
	return out
}

// Shown is a device that the telemetry shows.
type Shown struct {
	ID, Parent, Profile, Instance, MIGUUID, Vendor string
	// Driver, Pool, and Device are set only if the exporter provides these labels.
	Driver, Pool, Device string
}

// Telemetry returns the devices of the observed node that the telemetry shows.
func (w *World) Telemetry() (out []Shown) {
	for _, b := range w.boards {
		out = append(out, Shown{ID: b.uuid, Vendor: "NVIDIA"})
	}
	for _, d := range w.devices {
		if d.driver != NVIDIA && d.pool == w.Node {
			out = append(out, Shown{ID: otherID(d), Vendor: "AMD"})
		}
		if d.instance == nil {
			continue
		}
		s := Shown{ID: d.instance.id, Parent: d.board.uuid, Profile: d.profile, Instance: strconv.Itoa(d.instance.number), Vendor: "NVIDIA"}
		if w.MIGUUIDs {
			s.MIGUUID = d.uuid
		}
		if w.Labels {
			s.Driver, s.Pool, s.Device = d.driver, d.pool, d.name
		}
		out = append(out, s)
	}
	return out
}

// Boards returns the hw.id of each board on the observed node.
func (w *World) Boards() (out []string) {
	for _, s := range w.Telemetry() {
		if s.Parent == "" {
			out = append(out, s.ID)
		}
	}
	return out
}
