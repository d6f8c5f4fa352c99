package demand

import (
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// MaxValue is the maximum length of an attribute value in bytes. If another component sets a longer
// value, the value is dropped.
const MaxValue = 256

// These are the values of dra.condition.role.
const (
	roleBinding        = "binding"
	roleBindingFailure = "binding_failure"
)

// addClaimConditions appends one point for each condition of an allocated device to the out slice.
// The last argument is a point whose attributes describe the device. As in Kubernetes, the status
// of a binding condition is unknown until the condition is reported, because the scheduler is still
// waiting for the condition.
func (e *emission) addClaimConditions(out []Point, c *resourcev1.ResourceClaim, r *resourcev1.DeviceRequestAllocationResult, on Point) []Point {
	var conditions []metav1.Condition
	for i := range c.Status.Devices {
		if s := &c.Status.Devices[i]; statusOf(s, r) {
			conditions = slices.Clip(s.Conditions)
		}
	}
	for _, awaited := range r.BindingConditions {
		if !slices.ContainsFunc(conditions, func(c metav1.Condition) bool { return c.Type == awaited }) {
			conditions = append(conditions, metav1.Condition{Type: awaited})
		}
	}
	for _, condition := range conditions {
		if len(condition.Type) > MaxValue {
			e.stats.ClaimConditionsDropped++
			e.stats.ConditionsClaim = c.Namespace + "/" + c.Name
			continue
		}
		attrs := append(slices.Clip(on.Attributes),
			Attribute{signal.DRAConditionType, condition.Type}, Attribute{signal.DRAConditionStatus, ConditionStatus(condition.Status)})
		switch {
		case slices.Contains(r.BindingConditions, condition.Type):
			attrs = append(attrs, Attribute{signal.DRAConditionRole, roleBinding})
		case slices.Contains(r.BindingFailureConditions, condition.Type):
			attrs = append(attrs, Attribute{signal.DRAConditionRole, roleBindingFailure})
		}
		out = append(out, Point{
			Metric: signal.K8sResourceClaimDeviceCondition, Place: Place{Node: on.Place.Node, Namespace: c.Namespace}, Attributes: attrs, Int: 1,
		})
	}
	return out
}

// statusOf reports whether a device status belongs to an allocated device.
func statusOf(s *resourcev1.AllocatedDeviceStatus, r *resourcev1.DeviceRequestAllocationResult) bool {
	return s.Driver == r.Driver && s.Pool == r.Pool && s.Device == r.Device && ptr.Deref(s.ShareID, "") == string(ptr.Deref(r.ShareID, ""))
}

// ConditionStatus returns the status of a condition as true, false, or unknown.
func ConditionStatus[S ~string](s S) string {
	if status := string(s); status == string(metav1.ConditionTrue) || status == string(metav1.ConditionFalse) {
		return strings.ToLower(status)
	}
	return "unknown"
}
