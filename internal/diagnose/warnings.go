package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
)

// Warning explains why users might misinterpret numbers in the output.
type Warning struct {
	// Code identifies the warning in scripts.
	Code string `json:"code"`
	// Text is the description for users.
	Text string `json:"text"`
}

func (e *Exposition) warnings() []Warning {
	out := []Warning{}
	warn := func(when bool, code, format string, args ...any) {
		if when {
			out = append(out, Warning{code, fmt.Sprintf(format, args...)})
		}
	}
	t := &e.counts
	of := e.scrape.exporter()
	warn(of.Experimental != "", "experimental", "The table of %s is experimental: %s", of.Name, of.Experimental)
	warn(len(e.microseconds) > 0, "nanoseconds",
		"HELP gives microseconds as the unit of %s. DCGM counts nanoseconds: keep violation_unit: ns, and divide by 1e9 in recording rules.", short(e.microseconds))
	warn(len(e.typedCounter) > 0, "rates_typed_counter",
		"TYPE declares %s as counters. They are rates in bytes per second: rate() of them in a dashboard is wrong.", short(e.typedCounter))
	if copied := e.copied(); len(copied) > 0 {
		warn(true, "repeated_rows",
			"%s: rows of several pods repeat the device's value. Adding them up counts it more than once; the collector counts it once.", list(copied))
	}
	stopped, pcie := e.falseZeros()
	warn(len(stopped) > 0, "false_zeros",
		"%s: every profiling activity is 0 although GPU_UTIL is %d%% or more. Likely stale: restart the exporter, or the hostengine.", list(stopped), int(100*dcgm.BusyUtilization))
	warn(len(pcie) > 0, "false_zeros_pcie",
		"%s: PCIe rates are 0 in both directions although the GPU is active. Likely broken in the exporter (dcgm-exporter issue 721).", list(pcie))
	warn(t.blanks > 0, "no_values",
		"%s without a value (sentinels, NaN, or impossible numbers). Dashboards on raw metrics show them; the collector drops and counts them.", rows(t.blanks))
	warn(t.second != "", "two_exporters",
		"This text also has rows of %s, which this report ignores. Run gpudoctor on that exporter alone.", t.second)
	warn(t.relayed, "relayed",
		"Labels such as exported_pod show that a Prometheus without honor_labels scraped the exporter. The collector reads these labels, but it is better to scrape the exporter directly.")
	warn(t.ownPod, "exporter_as_holder",
		"Rows name the exporter's own pod, which happens when a Prometheus scrapes without honor_labels. The exporter is never a holder. "+
			"If no other row names a holder, the holders are unknown%s.", onHosts(t.ownPodHosts))
	warn(t.reservation, "reservation_as_holder",
		"Rows name reservation pods of KAI Scheduler or Run:ai, not the pods that share the GPU. Reservation pods are never holders: gpu_k8s finds the pods of their group through the kubelet and the API server.")
	warn(t.boardDRA, "claim_on_board",
		"Rows of a board have the claim of a MIG device, which is a bug of exporters up to 4.5.3-4.8.2. The collector does not use it as the board's claim.")
	warn(t.podAsHost, "host_is_a_pod",
		"The host label is the exporter's pod. Set NODE_NAME for the exporter from spec.nodeName, or node_name in gpu_synthesizer.")
	warn(t.containerAsHost, "host_is_a_container",
		"The host label is the id of a container, which changes with each start: the exporter runs in Docker without --hostname. "+
			"Run it with --hostname $(hostname), or set node_name in gpu_synthesizer.")
	warn(t.localhost, "host_is_localhost",
		"The host label is localhost, as with a remote hostengine: set node_name in gpu_synthesizer.")
	warn(t.noHost, "no_host",
		"Rows have no host label: set node_name in gpu_synthesizer, or NODE_NAME for the collector.")
	twice := e.exposedTwice()
	warn(len(twice) > 0, "two_exporters",
		"%s: exposed under two hosts or targets. Likely two exporters monitor the same GPU. They compete for DCGM's profiling module, and every series exists twice.", list(twice))
	warn(t.duplicates > 0, "duplicate_series",
		"%s with the name and labels of an earlier row. Likely the text contains the output of two exporters or of two scrapes.", rows(t.duplicates))
	warn(t.withoutUUID > 0, "no_uuid",
		"%s of DCGM metrics without a GPU's UUID: they cannot be distinguished and are dropped.", rows(t.withoutUUID))
	warn(t.otherVendor > 0, "other_vendor",
		"%s of DCGM metrics about GPUs that are not from NVIDIA, according to UUID and model: they are dropped.", rows(t.otherVendor))
	warn(t.unresolved > 0, "ambiguous_device",
		"%s do not identify a device, not even together with the other rows of the scrape: they are dropped.", rows(t.unresolved))
	warn(t.memoryUtil, "memory_util_is_bandwidth",
		"%s is the time in which memory was read or written (MEM_COPY_UTIL before 4.9), not how full it is: use hw.gpu.memory.utilization for occupancy.", memoryUtilRatio)
	return out
}

// The copied method returns each device for which the rows of several pods contain the same value.
func (e *Exposition) copied() []*device {
	type key struct {
		device *device
		field  catalogue.ID
	}
	var out []*device
	first := map[key]row{}
	for _, r := range e.rows {
		if !r.held || r.device.withoutHolder[r.spelling.Field.ID] != Unseen {
			continue
		}
		k := key{r.device, r.spelling.Field.ID}
		if f, ok := first[k]; !ok {
			first[k] = r
		} else if f.holder != r.holder && f.exposed == r.exposed {
			out = add(out, r.device)
		}
	}
	return out
}

// falseZeros returns the devices that are busy according to some fields although other fields are
// 0. The first result lists the devices whose profiler has stopped, or probably has stopped because
// all of their profiling activity fields are 0. The second result lists the devices whose profiler
// has not stopped and whose PCIe rates are 0 in both directions.
func (e *Exposition) falseZeros() (stopped, pcie []*device) {
	for _, d := range e.order {
		in := func(st State) func(catalogue.ID) bool {
			return func(id catalogue.ID) bool { return d.state(id) == st }
		}
		works := d.hasValue(gpuUtil) && d.value(gpuUtil) >= dcgm.BusyUtilization
		active := slices.ContainsFunc(kernelActivities, in(Positive)) || slices.ContainsFunc(unitActivities, in(Positive))
		if d.frozen || works && !active && slices.ContainsFunc(kernelActivities, in(Zero)) {
			stopped = append(stopped, d)
		}
		if !d.frozen && (works || active) && d.state(pcieTXRate) == Zero && d.state(pcieRXRate) == Zero {
			pcie = append(pcie, d)
		}
	}
	return stopped, pcie
}

// kernelActivities lists profiling fields that are positive while a kernel runs. unitActivities
// lists profiling fields of units that a kernel may not use. For example, many kernels use no
// tensor cores.
var (
	kernelActivities = []catalogue.ID{
		field("DCGM_FI_PROF_GR_ENGINE_ACTIVE"), field("DCGM_FI_PROF_SM_ACTIVE"), field("DCGM_FI_PROF_SM_OCCUPANCY"),
	}
	unitActivities = []catalogue.ID{field("DCGM_FI_PROF_DRAM_ACTIVE"), field("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE")}
)

// exposedTwice returns the boards that are exposed under two host names or by two scrape targets.
func (e *Exposition) exposedTwice() []*device {
	var out []*device
	boards := map[string]bool{}
	for _, d := range e.order {
		if d.Kind() == Instance {
			continue
		}
		if boards[d.key.board] || len(d.scrapeTargets) > 1 {
			out = append(out, d)
		}
		boards[d.key.board] = true
	}
	return out
}

// mostNames is the maximum number of names in one sentence.
const mostNames = 4

// The list function formats the names of devices for users.
func list(devices []*device) string {
	var names []string
	for _, d := range devices {
		name := d.name
		if name == "" {
			name = d.id()
		} else if d.key.instance != "" {
			name = dcgm.InstanceID(name, d.key.instance)
		}
		names = append(names, name)
	}
	return Some(names)
}

// The short function formats the names of DCGM fields without their common prefix.
func short(names []string) string {
	var out []string
	for _, n := range names {
		out = append(out, strings.TrimPrefix(strings.TrimPrefix(n, "DCGM_FI_DEV_"), "DCGM_FI_"))
	}
	return Some(out)
}

// Some joins the first few names with commas and, if there are more names, appends the number of
// remaining names.
func Some(names []string) string {
	if len(names) > mostNames {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:mostNames], ", "), len(names)-mostNames)
	}
	return strings.Join(names, ", ")
}

// onHosts puts host names in parentheses, ready to be appended to a sentence.
func onHosts(hosts []string) string {
	if len(hosts) == 0 {
		return ""
	}
	return " (" + Some(hosts) + ")"
}

func rows(n int) string {
	if n == 1 {
		return "1 row"
	}
	return fmt.Sprintf("%d rows", n)
}
