package gpuclusterreceiver

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/gpuclusterreceiver/internal/demand"
)

// convertPod returns the fields of a pod that affect the demand for GPUs. convertPod uses the
// families argument to determine which rules of the GPU share API the pod violates.
func convertPod(p *corev1.Pod, families gpushare.Families) *demand.Pod {
	out := &demand.Pod{
		Namespace:   p.Namespace,
		Name:        p.Name,
		UID:         string(p.UID),
		Node:        p.Spec.NodeName,
		Phase:       p.Status.Phase,
		Created:     p.CreationTimestamp.Unix(),
		Terminating: p.DeletionTimestamp != nil,
		Gated:       len(p.Spec.SchedulingGates) > 0,
	}
	if out.Ended() {
		return out
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			out.Gated = out.Gated || c.Reason == corev1.PodReasonSchedulingGated
			out.Unschedulable = c.Reason == corev1.PodReasonUnschedulable || c.Reason == corev1.PodReasonSchedulerError
		}
	}
	for _, entry := range p.Spec.ResourceClaims {
		if entry.ResourceClaimTemplateName == nil {
			continue
		}
		out.TemplateClaims = append(out.TemplateClaims, demand.TemplateClaim{
			Name:     entry.Name,
			Template: *entry.ResourceClaimTemplateName,
			Made: slices.ContainsFunc(p.Status.ResourceClaimStatuses, func(s corev1.PodResourceClaimStatus) bool {
				return s.Name == entry.Name
			}),
		})
	}

	if len(p.Spec.ResourceClaims) > 0 {
		out.Claims = slices.Compact(slices.Sorted(maps.Values(kube.ClaimNames(p))))
		out.Group = gpushare.PodGroup(p)
	}
	out.Health, out.HealthDropped = convertHealth(p)

	if !requestsExtended(p) {
		return out
	}
	containers, podRequests := gpushare.PodRequests(p)
	regular := map[string]float64{}
	for _, requests := range containers[len(p.Spec.InitContainers):] {
		for name, q := range requests {
			regular[name] += q.AsApproximateFloat64()
		}
	}
	for name, q := range podRequests {
		out.Requests = append(out.Requests, demand.Request{Resource: name, Effective: gpushare.Units(q), Regular: regular[name]})
	}
	slices.SortFunc(out.Requests, func(a, b demand.Request) int { return cmp.Compare(a.Resource, b.Resource) })
	for _, rule := range families.Check(containers, podRequests) {
		out.BrokenRules = append(out.BrokenRules, string(rule))
	}
	return out
}

// requestsExtended reports whether a pod requests any extended resource. Most pods request none.
func requestsExtended(p *corev1.Pod) bool {
	lists := []corev1.ResourceList{p.Spec.Overhead}
	for _, c := range gpushare.Containers(p) {
		lists = append(lists, c.Resources.Limits, c.Resources.Requests)
	}
	return slices.ContainsFunc(lists, func(list corev1.ResourceList) bool {
		for name := range list {
			if gpushare.IsExtended(name) {
				return true
			}
		}
		return false
	})
}

// convertNode converts a node and selects the conditions to emit for the node.
func convertNode(n *corev1.Node, emitted *regexp.Regexp) *demand.Node {
	conditions, dropped := convertConditions(n.Status.Conditions, emitted)
	return &demand.Node{Node: n, Conditions: conditions, ConditionsDropped: dropped}
}

// convertSlice converts a ResourceSlice and its devices. The second result contains the names of
// the attributes that were dropped because a value is too long, or because there are several values
// for an attribute that must have only one. Each name is listed once per device and reason.
func convertSlice(s *resourcev1.ResourceSlice) (out *demand.Slice, dropped []string) {
	out = &demand.Slice{ResourceSlice: s, Devices: make([]demand.Device, 0, len(s.Spec.Devices))}
	for i := range s.Spec.Devices {
		device, tooLong := convertDevice(s.Spec.Driver, &s.Spec.Devices[i])
		out.Devices = append(out.Devices, device)
		dropped = append(dropped, tooLong...)
	}
	return out, dropped
}

// maxValue is the maximum length of an attribute value in bytes. The API limits a single value to
// 64 bytes, but a list of values may be longer.
const maxValue = demand.MaxValue

func convertDevice(driver string, d *resourcev1.Device) (out demand.Device, dropped []string) {
	text := func(name string) string {
		value, several := gpushare.DeviceText(driver, d, name)
		if several {
			dropped = append(dropped, name)
		}
		return value
	}
	out = demand.Device{
		Name:       d.Name,
		Type:       text("type"),
		UUID:       text("uuid"),
		ParentUUID: text("parentUUID"),
		Profile:    text("profile"),
		PCIAddress: text("pciAddr"), ParentPCIAddress: text("parentPciAddr"),
		Model:  text("productName"),
		Node:   ptr.Deref(d.NodeName, ""),
		Taints: convertTaints(d.Taints),
		Shared: ptr.Deref(d.AllowMultipleAllocations, false),
	}
	out.Attributes = make([]demand.Attribute, 0, len(d.Attributes))
	for name, a := range d.Attributes {
		value := attributeText(a)
		if len(value) > maxValue {
			dropped = append(dropped, string(name))
			continue
		}
		// Store each key only once in memory, because a cluster may have tens of thousands of
		// devices with the same keys.
		key := unique.Make(demand.AttributePrefix + shortName(driver, name)).Value()
		out.Attributes = append(out.Attributes, demand.Attribute{Key: key, Value: value})
	}
	slices.SortFunc(out.Attributes, func(a, b demand.Attribute) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value))
	})
	// A name without a domain is equivalent to the name that is qualified with the driver's domain.
	out.Attributes = slices.CompactFunc(out.Attributes, func(a, b demand.Attribute) bool { return a.Key == b.Key })
	for name, c := range d.Capacity {
		out.Capacity = append(out.Capacity, demand.Capacity{Name: shortName(driver, name), Value: c.Value.AsApproximateFloat64()})
	}
	slices.SortFunc(out.Capacity, func(a, b demand.Capacity) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Value, b.Value))
	})
	out.Capacity = slices.CompactFunc(out.Capacity, func(a, b demand.Capacity) bool { return a.Name == b.Name })
	for _, c := range d.ConsumesCounters {
		out.CounterSets = append(out.CounterSets, c.CounterSet)
	}
	return out, dropped
}

// shortName removes the driver's domain from a qualified name. Names without a domain implicitly
// belong to the driver's domain.
func shortName(driver string, name resourcev1.QualifiedName) string {
	return strings.TrimPrefix(string(name), driver+"/")
}

// attributeText formats an attribute value as a string. The elements of a list are separated by
// commas.
func attributeText(a resourcev1.DeviceAttribute) string {
	switch {
	case a.StringValue != nil:
		return *a.StringValue
	case a.IntValue != nil:
		return strconv.FormatInt(*a.IntValue, 10)
	case a.BoolValue != nil:
		return strconv.FormatBool(*a.BoolValue)
	case a.VersionValue != nil:
		return *a.VersionValue
	}
	list := slices.Concat(a.StringValues, a.VersionValues)
	for _, v := range a.IntValues {
		list = append(list, strconv.FormatInt(v, 10))
	}
	for _, v := range a.BoolValues {
		list = append(list, strconv.FormatBool(v))
	}
	return strings.Join(list, ",")
}

// convertTaints converts the taints of a device.
func convertTaints(taints []resourcev1.DeviceTaint) []demand.Taint {
	var out []demand.Taint
	for _, t := range taints {
		out = append(out, demand.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	return out
}
