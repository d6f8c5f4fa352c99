package gpuclusterreceiver

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/otelcol-gpu/otelcol-gpu/receiver/gpuclusterreceiver/internal/demand"
)

// maxConditions is the maximum number of conditions that are emitted per node.
const maxConditions = 32

// defaultConditions returns patterns that match the GPU conditions of three components. GPU plugins
// for node-problem-detector set XidCriticalError, GPUMissing, NVLinkStatusInactive, and
// UnhealthyNvidiaDevicePlugin. The EKS node monitoring agent sets AcceleratedHardwareReady.
// NVSentinel sets GpuMemWatch, SysLogsXIDError, NVSwitchDown, DCGMError, FabricManagerDown, and
// NVCRECertFailed, and its analyzer sets MultipleRemediations.
func defaultConditions() []string {
	return []string{
		"AcceleratedHardwareReady", "*GPU*", "*Gpu*", "*XID*", "*Xid*", "*NVLink*", "*Nvlink*", "*NVSwitch*", "*Nvidia*", "*DCGM*", "*Dcgm*",
		"FabricManager*", "NVCRE*", "MultipleRemediations",
	}
}

// conditionPattern matches the valid elements of the node_conditions setting.
var conditionPattern = regexp.MustCompile(`^[A-Za-z0-9*._/-]+$`)

// compileConditions returns a regular expression that matches the condition types to emit.
func compileConditions(patterns []string) (*regexp.Regexp, error) {
	alternatives := make([]string, len(patterns))
	for i, p := range patterns {
		if !conditionPattern.MatchString(p) {
			return nil, fmt.Errorf("node_conditions[%d] is %q: must be a condition type that consists of letters, digits, '-', '_', '.', and '/'; "+
				"a '*' matches any characters", i, p)
		}
		alternatives[i] = strings.ReplaceAll(regexp.QuoteMeta(p), `\*`, ".*")
	}
	return regexp.Compile("^(?:" + strings.Join(alternatives, "|") + ")$")
}

// convertConditions returns the conditions to emit, sorted by type, and the number of matching
// conditions that were dropped. If several conditions have the same type, convertConditions returns
// only the first one.
func convertConditions(all []corev1.NodeCondition, emitted *regexp.Regexp) (_ []demand.Condition, dropped int64) {
	var out []demand.Condition
	for _, c := range all {
		switch {
		case c.Type == "" || !emitted.MatchString(string(c.Type)):
		case len(c.Type) > maxValue:
			dropped++
		default:
			out = append(out, demand.Condition{Type: string(c.Type), Status: demand.ConditionStatus(c.Status)})
		}
	}
	slices.SortStableFunc(out, func(a, b demand.Condition) int { return cmp.Compare(a.Type, b.Type) })
	out = slices.CompactFunc(out, func(a, b demand.Condition) bool { return a.Type == b.Type })
	kept := min(len(out), maxConditions)
	return slices.Clip(out[:kept]), dropped + int64(len(out)-kept)
}
