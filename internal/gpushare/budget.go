package gpushare

import corev1 "k8s.io/api/core/v1"

// BudgetSource specifies where a memory budget is declared. The constants are the possible values
// of the gpu.memory.budget.source attribute.
type BudgetSource string

// Budget sources, in order of preference: allocations by a scheduler, requests to a scheduler,
// declarations that schedulers do not use, and the size of the hardware. [Budgets] returns only
// budgets that pods declare.
const (
	// BudgetKoordinatorAllocation means Koordinator's device-allocated annotation.
	BudgetKoordinatorAllocation BudgetSource = "koordinator_allocation"
	// BudgetHAMiAllocation means one of HAMi's annotations: vgpu-devices-allocated,
	// amd-devices-allocated, or vgpu-devices-to-allocate.
	BudgetHAMiAllocation BudgetSource = "hami_allocation"
	// BudgetDRA means the device capacity that the pod's allocated claims consume.
	BudgetDRA BudgetSource = "dra"
	// BudgetKoordinator means a request for koordinator.sh/gpu, gpu-memory, or gpu-memory-ratio.
	BudgetKoordinator BudgetSource = "koordinator"
	// BudgetHAMi means a request for HAMi's gpumem or gpumem-percentage.
	BudgetHAMi BudgetSource = "hami"
	// BudgetKAI means KAI's gpu-memory or gpu-fraction annotation.
	BudgetKAI BudgetSource = "kai"
	// BudgetResource means a request for an extended resource that the user configured.
	BudgetResource BudgetSource = "extended_resource"
	// BudgetAnnotation means an annotation that the user configured.
	BudgetAnnotation BudgetSource = "annotation"
	// BudgetExporter means that another exporter reports the budget.
	BudgetExporter BudgetSource = "exporter"
	// BudgetMPS means the memory limit that an MPS daemon applies to each client.
	BudgetMPS BudgetSource = "mps"
	// BudgetMIG and BudgetWholeGPU mean the memory size of a MIG instance or a GPU that is
	// allocated to a single container.
	BudgetMIG      BudgetSource = "mig"
	BudgetWholeGPU BudgetSource = "whole_gpu"
)

// BudgetSources returns every source, in order of preference.
func BudgetSources() []BudgetSource {
	return []BudgetSource{
		BudgetKoordinatorAllocation, BudgetHAMiAllocation, BudgetDRA, BudgetKoordinator, BudgetHAMi, BudgetKAI,
		BudgetResource, BudgetAnnotation, BudgetExporter, BudgetMPS, BudgetMIG, BudgetWholeGPU,
	}
}

// BudgetOptions contains the budget sources that users configure.
type BudgetOptions struct {
	// Resources contains extended resources that declare memory. The map contains the number of
	// bytes per unit for each resource name. For example, the value is 1<<20 if the resource's unit
	// is MiB.
	Resources map[string]int64
	// Annotation is the key of an annotation that contains the pod's budget as a quantity of bytes,
	// such as 5Gi. If the key has the suffix .<container>, the annotation applies to that
	// container. If Annotation is empty, [Budgets] does not read budgets from configured
	// annotations.
	Annotation string
}

// Budget is a memory budget that is declared for a container or a pod.
type Budget struct {
	// Source specifies where the budget is declared.
	Source BudgetSource
	// Container is the container's name. Container is "" if the budget is declared for the pod.
	Container string
	// UUID is the device's UUID. UUID is "" if the declaration does not name a device.
	UUID string
	// Minor is the device's minor number. Minor is -1 if the declaration does not specify a minor
	// number.
	Minor int
	// Devices is the number of devices. The budget applies to each device separately. If Devices is
	// 0, the declaration does not specify a number of devices, and all devices of the container
	// share the budget.
	Devices int64
	// MemoryBytes is the budget in bytes. MemoryBytes is 0 if only a ratio is declared.
	MemoryBytes int64
	// MemoryRatio is the budget as a fraction of the device's memory. MemoryRatio is 0 if only
	// bytes are declared. [MemoryOf] converts the ratio to bytes.
	MemoryRatio float64
}

// Budgets returns all memory budgets that a pod declares, in the order of [BudgetSources]. Budgets
// with the same source are sorted by container, in the order of [Containers]. An entire GPU, a MIG
// instance, an MPS limit, and the capacity that a DRA claim consumes are also budgets, but pods do
// not declare them.
//
// If some declarations cannot be parsed, the error lists these declarations, and Budgets returns
// the budgets from the others.
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
				// The budget of a MIG instance is its memory size, regardless of the request.
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
