package gpushare

import corev1 "k8s.io/api/core/v1"

// BudgetSource names where a memory budget was declared, as gpu.memory.budget.source spells it.
type BudgetSource string

// The sources, best first: what a scheduler assigned on a device, what was requested of a
// scheduler, declarations that no scheduler reads, and the size of the hardware where nothing was
// declared. [Budgets] knows those that a pod declares.
const (
	// BudgetKoordinatorAllocation is Koordinator's device-allocated annotation.
	BudgetKoordinatorAllocation BudgetSource = "koordinator_allocation"
	// BudgetHAMiAllocation is HAMi's vgpu-devices-allocated annotation.
	BudgetHAMiAllocation BudgetSource = "hami_allocation"
	// BudgetDRA is what allocated claims consume of a device.
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
	// BudgetExporter is a budget that another exporter tells.
	BudgetExporter BudgetSource = "exporter"
	// BudgetMPS is what each client of an MPS daemon may use.
	BudgetMPS BudgetSource = "mps"
	// BudgetMIG and BudgetWholeGPU are the size of a device that one container has alone.
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

// BudgetOptions are the sources that a user configures.
type BudgetOptions struct {
	// Resources are extended resources that declare memory, and the bytes of
	// one unit of each: 1<<20 for a resource in MiB.
	Resources map[string]int64
	// Annotation is the key of an annotation that holds a quantity of bytes
	// (5Gi) for the pod, and with .<container> behind it for one container.
	// Empty: none.
	Annotation string
}

// Budget is the memory that was declared for a container or pod.
type Budget struct {
	// Source tells where.
	Source BudgetSource
	// Container is the container's name, empty where the declaration is for the pod.
	Container string
	// UUID is the device's, empty where the declaration names none.
	UUID string
	// Minor is the device's minor number, -1 where the declaration names none.
	Minor int
	// Devices is the number of devices that each have the budget. 0 where the
	// declaration does not say: then the budget is for all devices of the
	// container together.
	Devices int64
	// MemoryBytes is the budget, 0 where only the ratio is declared.
	MemoryBytes int64
	// MemoryRatio is the share of the device's memory, 0 where bytes alone are
	// declared. MemoryOf makes bytes of it.
	MemoryRatio float64
}

// Budgets returns every memory budget that a pod declares, best source first
// and within a source in the order of [Containers]. A whole GPU, a MIG
// instance, an MPS limit and DRA's consumed capacity are budgets too, but not
// the pod's to declare: they are known where the device is.
//
// The error lists what could not be read; the rest is returned beside it.
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
				// The budget is the instance's own memory, whatever was asked.
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
		read := func(key, container string) {
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
			read(o.Annotation+"."+c.Name, c.Name)
		}
		read(o.Annotation, "")
	}

	var out []Budget
	for _, s := range BudgetSources() {
		out = append(out, bySource[s]...)
	}
	return out, p.err()
}
