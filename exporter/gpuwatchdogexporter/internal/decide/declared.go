package decide

import (
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
)

// declaresNoMore reports whether the pod, as just read from the API server, declares no more than
// the budgets in telemetry. The budgets in telemetry are based on an earlier state of the pod. Only
// annotations are compared, because resource requests and claim allocations cannot change while a
// pod is running. If a budget in telemetry comes from an annotation that the pod no longer has,
// declaresNoMore returns false.
func declaresNoMore(s *Sample, v *Victim, pod Pod, p Policy) bool {
	containers, before := map[gpushare.BudgetSource]map[string]bool{}, map[gpushare.BudgetSource]int64{}
	for i := range s.Holders {
		h := &s.Holders[i]
		budget, ok := current(h.Budget, s)
		if h.UID != v.UID || !ok || budget == 0 {
			continue
		}
		if containers[h.Source] == nil {
			containers[h.Source] = map[string]bool{}
		}
		containers[h.Source][h.Container] = true
		before[h.Source] += budget
	}
	for source, named := range containers {
		var now int64
		switch source {
		case gpushare.BudgetKAI, gpushare.BudgetHAMiAllocation, gpushare.BudgetKoordinatorAllocation:
			now = deviceBudget(pod.Budgets, source, named, s.Limit)
		case gpushare.BudgetAnnotation:
			if !p.Annotation {
				continue
			}
			now, before[source] = podBudget(pod.Budgets, source, named), s.Annotated[v.UID]
		default:
			continue
		}
		if now == 0 || now > before[source]+minBudget {
			return false
		}
	}
	return true
}

// The largest function returns the largest budget of the container from the given source, or 0 if
// there is none. If the container name is empty, the function returns the largest budget of the pod
// as a whole. The size parameter is the total memory of the device.
func largest(budgets []gpushare.Budget, source gpushare.BudgetSource, container string, size int64) (bytes int64) {
	for i := range budgets {
		if b := &budgets[i]; b.Source == source && b.Container == container {
			bytes = max(bytes, gpushare.MemoryOf(b.MemoryBytes, b.MemoryRatio, size))
		}
	}
	return bytes
}

// deviceBudget returns the sum of the containers' budgets on one device, as declared in the
// annotation of a scheduler.
func deviceBudget(budgets []gpushare.Budget, source gpushare.BudgetSource, containers map[string]bool, size int64) int64 {
	sum := largest(budgets, source, "", size)
	for container := range containers {
		if container != "" {
			sum += largest(budgets, source, container, size)
		}
	}
	return sum
}

// podBudget returns the sum of the containers' budgets on all devices, as declared in the user's
// annotations. If a container has its own annotation, that annotation declares the container's
// budget. The other containers share what remains of the budget in the pod's annotation.
func podBudget(budgets []gpushare.Budget, source gpushare.BudgetSource, containers map[string]bool) int64 {
	var sum int64
	shared := false
	for container := range containers {
		ownBudget := int64(0)
		if container != "" {
			ownBudget = largest(budgets, source, container, 0)
		}
		sum += ownBudget
		shared = shared || ownBudget == 0
	}
	if !shared {
		return sum
	}
	pod := largest(budgets, source, "", 0)
	if pod == 0 {
		return 0 // the annotation was removed after the telemetry was read
	}
	return max(pod, sum)
}
