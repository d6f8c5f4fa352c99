package gpushare

import corev1 "k8s.io/api/core/v1"

// BudgetSource is where a memory budget is declared. It has the values of gpu.memory.budget.source.
type BudgetSource string

// The sources, in order of preference: allocations by a scheduler, requests to a scheduler,
// declarations that no scheduler reads, and the size of the hardware. [Budgets] returns only the
// sources that a pod declares.
const (
	// BudgetKoordinatorAllocation is Koordinator's device-allocated annotation.
	BudgetKoordinatorAllocation BudgetSource = "koordinator_allocation"
	// BudgetHAMiAllocation is HAMi's vgpu-devices-allocated annotation.
	BudgetHAMiAllocation BudgetSource = "hami_allocation"
	// BudgetDRA is the device capacity that allocated claims consume.
	BudgetDRA BudgetSource = "dra"
	// BudgetKoordinator are koordinator.sh/gpu, gpu-memory and gpu-memory-ratio.
	BudgetKoordinator BudgetSource = "koordinator"
	// BudgetHAMi are HAMi's gpumem and gpumem-percentage.
	BudgetHAMi BudgetSource = "hami"
	// BudgetKAI are KAI's gpu-memory and gpu-fraction annotations.
	BudgetKAI BudgetSource = "kai"
	// BudgetResource is an extended resource that the user configured.
	BudgetResource BudgetSource = "extended_resource"
	// BudgetAnnotation is an annotation that the user configured.
	BudgetAnnotation BudgetSource = "annotation"
	// BudgetExporter is a budget that another exporter reports.
	BudgetExporter BudgetSource = "exporter"
	// BudgetMPS is the per-client limit of an MPS daemon.
	BudgetMPS BudgetSource = "mps"
	// BudgetMIG and BudgetWholeGPU are the size of a device that is allocated to a single
	// container.
	BudgetMIG      BudgetSource = "mig"
	BudgetWholeGPU BudgetSource = "whole_gpu"
)

// BudgetSources returns every source, best first.
func BudgetSources() []BudgetSource {
	return []BudgetSource{
		BudgetKoordinatorAllocation, BudgetHAMiAllocation, BudgetDRA, BudgetKoordinator, BudgetHAMi, BudgetKAI,
		BudgetResource, BudgetAnnotation, BudgetExporter, BudgetMPS, BudgetMIG, BudgetWholeGPU,
	}
}

// BudgetOptions are the budget sources that a user configures.
type BudgetOptions struct {
	// Resources are extended resources that declare memory. The values are bytes per unit, such as
	// 1<<20 for a resource in MiB.
	Resources map[string]int64
	// Annotation is the key of an annotation with a quantity of bytes (5Gi) for the pod. With the
	// suffix .<container>, the annotation applies to one container. If Annotation is empty, none is
	// read.
	Annotation string
}

// Budget is a memory budget that is declared for a container or pod.
type Budget struct {
	// Source is where the budget is declared.
	Source BudgetSource
	// Container is the container's name, or empty if the budget is declared for the pod.
	Container string
	// UUID is the device's UUID, or empty if the declaration names no device.
	UUID string
	// Minor is the device's minor number, or -1 if the declaration has none.
	Minor int
	// Devices is the number of devices to which the budget applies individually. If it is 0, the
	// declaration contains no number, and the container's devices share the budget.
	Devices int64
	// MemoryBytes is the budget, or 0 if only the ratio is declared.
	MemoryBytes int64
	// MemoryRatio is the share of the device's memory, or 0 if only bytes are declared. MemoryOf
	// converts it to bytes.
	MemoryRatio float64
}

// Budgets returns all memory budgets that a pod declares, best source first. Budgets with the same
// source are in the order of [Containers]. An entire GPU, a MIG instance, an MPS limit, and DRA's
// consumed capacity are also budgets, but not declared by the pod.
//
// The error lists the declarations that could not be parsed; the others are returned.
func Budgets(pod *corev1.Pod, o BudgetOptions) ([]Budget, error) {
	var p problems
	containers := Containers(pod)
	bySource := map[BudgetSource][]Budget{}
	add := func(b Budget) {
		if b.MemoryBytes > 0 || b.MemoryRatio > 0 {
			bySource[b.Source] = append(bySource[b.Source], b)
		}
	}

	allocations, err := PodAllocations(pod)
	if err != nil {
		p.add("%w", err)
	}
	for _, a := range allocations {
		b := Budget{
			Container: a.Container, UUID: a.UUID, Minor: a.Minor, Devices: 1, MemoryBytes: a.MemoryBytes, MemoryRatio: a.MemoryRatio,
		}
		switch a.Family {
		case Koordinator:
			b.Source = BudgetKoordinatorAllocation
		case HAMi:
			b.Source = BudgetHAMiAllocation
			if a.MIG != nil {
				// The budget is the instance's own memory, regardless of the request.
				continue
			}
		case KAI:
			b.Source = BudgetKAI
		}
		add(b)
	}

	for _, c := range containers {
		requests := RequestsOf(c)
		for _, d := range Demands(requests) {
			b := Budget{
				Container: c.Name, Minor: -1, Devices: d.Devices, MemoryBytes: d.MemoryBytes, MemoryRatio: d.MemoryRatio,
			}
			if b.Source = BudgetHAMi; d.Family == Koordinator {
				b.Source = BudgetKoordinator
			}
			add(b)
		}
		var declared int64
		for name, bytes := range o.Resources {
			declared = min(declared+times(Units(requests[name]), max(bytes, 0)), limit)
		}
		add(Budget{Source: BudgetResource, Container: c.Name, Minor: -1, MemoryBytes: declared})
	}

	if o.Annotation != "" {
		addAnnotation := func(key, container string) {
			text, ok := pod.Annotations[key]
			if !ok {
				return
			}
			n, err := parseQuantity([]byte(text))
			if err != nil {
				p.add("%s: %w", key, err)
				return
			}
			add(Budget{Source: BudgetAnnotation, Container: container, Minor: -1, MemoryBytes: n})
		}
		for _, c := range containers {
			addAnnotation(o.Annotation+"."+c.Name, c.Name)
		}
		addAnnotation(o.Annotation, "")
	}

	var budgets []Budget
	for _, s := range BudgetSources() {
		budgets = append(budgets, bySource[s]...)
	}
	return budgets, p.err()
}
