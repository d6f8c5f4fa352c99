package pdatagpu

import (
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// field is a string field of gpudata and the attribute that contains its value.
type field struct {
	key  string
	text *string
}

func descriptionFields(d *gpudata.Description) [10]field {
	return [...]field{
		{signal.HardwareParent, &d.Parent},
		{signal.HardwareName, &d.Name},
		{signal.HardwareModel, &d.Model},
		{signal.HardwareVendor, &d.Vendor},
		{signal.HardwareSerialNumber, &d.Serial},
		{signal.HardwareDriverVersion, &d.Driver},
		{signal.MIGProfile, &d.Profile},
		{signal.MIGInstanceID, &d.Instance},
		{signal.MIGUUID, &d.MIGUUID},
		{signal.PartitionCount, &d.Partitions},
	}
}

func allocationFields(a *gpudata.Allocation) [8]field {
	return [...]field{
		{signal.DRADriver, &a.Driver},
		{signal.DRAPool, &a.Pool},
		{signal.DRADevice, &a.Device},
		{signal.ResourceClaimName, &a.Claim},
		{signal.ResourceClaimUID, &a.ClaimUID},
		{signal.DeviceClassName, &a.Class},
		{signal.DRARequest, &a.Request},
		{signal.DRAShareID, &a.ShareID},
	}
}

func ownerFields(o *gpudata.Ownership) [10]field {
	return [...]field{
		{signal.K8sDeploymentName, &o.Deployment},
		{signal.K8sStatefulSetName, &o.StatefulSet},
		{signal.K8sDaemonSetName, &o.DaemonSet},
		{signal.K8sJobName, &o.Job},
		{signal.K8sCronJobName, &o.CronJob},
		{signal.K8sWorkloadKind, &o.WorkloadKind},
		{signal.K8sWorkloadName, &o.Workload},
		{signal.KueueWorkloadName, &o.KueueWorkload},
		{signal.HPCJobUser, &o.JobUser},
		{signal.HPCJobPartition, &o.JobPartition},
	}
}

// ownerOf returns the owner that a Resource's attributes describe.
func ownerOf(attrs pcommon.Map) gpudata.Owner {
	var o gpudata.Ownership
	fields := ownerFields(&o)
	take(attrs, fields[:])
	o.Labels = podLabels(attrs)
	return gpudata.NewOwner(o)
}

// podLabels returns the pod labels in a Resource's attributes.
func podLabels(attrs pcommon.Map) gpudata.Labels {
	return gpudata.NewLabels(withPrefix(attrs, signal.K8sPodLabelPrefix))
}

// withPrefix returns the attributes whose keys have the prefix, or nil if there are none. The
// prefix is removed from the keys.
func withPrefix(attrs pcommon.Map, prefix string) (found map[string]string) {
	for k, v := range attrs.All() {
		if key, ok := strings.CutPrefix(k, prefix); ok {
			if found == nil {
				found = map[string]string{}
			}
			found[key] = v.AsString()
		}
	}
	return found
}

func descriptionOf(attrs pcommon.Map) (d gpudata.Description) {
	fields := descriptionFields(&d)
	take(attrs, fields[:])
	d.Allocation = allocationOf(attrs)
	return d
}

func allocationOf(attrs pcommon.Map) (a gpudata.Allocation) {
	fields := allocationFields(&a)
	take(attrs, fields[:])
	return a
}

// take sets each field to the value of its attribute.
func take(attrs pcommon.Map, fields []field) {
	for i := range fields {
		*fields[i].text = Text(attrs, fields[i].key)
	}
}

// eventSources maps each source of error counts to the attribute that names the source.
var eventSources = map[string][]gpudata.Attr{
	signal.EventSourceCounter:  {{Key: signal.EventSource, Value: signal.EventSourceCounter}},
	signal.EventSourceLastCode: {{Key: signal.EventSource, Value: signal.EventSourceLastCode}},
}

// The more function returns the attributes of a user's data point that have no field in gpudata.
func more(s *signal.Metric, attrs pcommon.Map) (attributes []gpudata.Attr) {
	for k, v := range attrs.All() {
		if !modeled[k] && (len(s.Attributes) == 0 || k != s.Attributes[0]) {
			attributes = append(attributes, gpudata.Attr{Key: k, Value: v.AsRaw()})
		}
	}
	return attributes
}

// modeled contains the attributes that have a field in gpudata.
var modeled = func() map[string]bool {
	keys := map[string]bool{
		signal.HardwareID: true, signal.HardwareType: true, signal.SharingStrategy: true, signal.HolderSource: true,
	}
	for _, f := range descriptionFields(&gpudata.Description{}) {
		keys[f.key] = true
	}
	for _, f := range allocationFields(&gpudata.Allocation{}) {
		keys[f.key] = true
	}
	return keys
}()
