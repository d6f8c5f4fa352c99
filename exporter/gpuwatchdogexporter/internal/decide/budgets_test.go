package decide

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
)

// HAMi's limit does not include CUDA contexts, but the memory usage that NVML reports includes them
// (HAMi#952).
func TestPodAtItsHardLimitWithThreeProcessesIsNotEvicted(t *testing.T) {
	sample := func(source gpushare.BudgetSource, processes int) *Sample {
		h := holder("a", 11350, 10000) // the overshoot consists of three CUDA contexts of 450 MiB each
		h.Source = source
		s := card(t0, 454*mib, h)
		if processes > 0 {
			s.Processes = map[string]int{"uid-a": processes}
		}
		return s
	}
	sources := func(all ...gpushare.BudgetSource) Policy { return policy(func(p *Policy) { p.BudgetSources = all }) }
	for name, tc := range map[string]struct {
		sample *Sample
		policy Policy
		want   Reason
	}{
		"a user's budget with three processes": {sample(gpushare.BudgetResource, 3), policy(), BelowMinOvershoot},
		"of two":                               {sample(gpushare.BudgetResource, 2), policy(), Evicted},
		"a user's budget with an unknown number of processes": {sample(gpushare.BudgetResource, 0), policy(), Evicted},
		"HAMi's limit":                                         {sample(gpushare.BudgetHAMiAllocation, 1), policy(), EnforcedBudget},
		"HAMi's limit, within the contexts":                    {sample(gpushare.BudgetHAMiAllocation, 3), policy(), WithinBudget},
		"HAMi's request if it is configured":                   {sample(gpushare.BudgetHAMi, 1), sources(gpushare.BudgetHAMi), Evicted},
		"HAMi's request with three processes":                  {sample(gpushare.BudgetHAMi, 3), sources(gpushare.BudgetHAMi), BelowMinOvershoot},
		"a budget with an unknown source":                      {sample("", 1), policy(), EnforcedBudget},
		"the limit in HAMi's monitor":                          {sample(gpushare.BudgetExporter, 1), policy(), EnforcedBudget},
		"Koordinator's allocation":                             {sample(gpushare.BudgetKoordinatorAllocation, 1), policy(), EnforcedBudget},
		"the limit of the MPS daemon":                          {sample(gpushare.BudgetMPS, 1), policy(), EnforcedBudget},
		"an entire device, whose size is not a declared limit": {sample(gpushare.BudgetWholeGPU, 1), policy(), EnforcedBudget},
	} {
		t.Run(name, func(t *testing.T) {
			_, d := Evaluate(State{}, Input{device, tc.sample, everyone}, tc.policy, t0)
			assert.Equal(t, tc.want, d.Reason)
			assert.True(t, d.Reason.Complete())
			assert.Equal(t, tc.want == Evicted, d.Action != nil)
			assert.Zero(t, d.Unbudgeted, "the pod has a budget")
		})
	}
}

// Without a process list, the minimum overshoot is multiplied by the number of containers that use
// memory.
func TestEachContainerThatUsesMemoryCountsAsAProcess(t *testing.T) {
	a, b, idle := holder("a", 2000, 1500), holder("a", 2000, 1500), holder("a", 0, 0)
	b.Container, idle.Container = "second", "third"
	_, d := Evaluate(State{}, Input{device, card(t0, gib, a, b, idle), everyone}, policy(), t0)
	assert.Equal(t, BelowMinOvershoot, d.Reason)
	assert.Equal(t, 2, d.Victim.Processes)
}

// The user raised the value of the annotation after the telemetry was collected, or the telemetry
// is based on an old state of the pod.
func TestPodIsNotEvictedForARemovedBudget(t *testing.T) {
	declares := func(source gpushare.BudgetSource, container string, mibs int64) gpushare.Budget {
		return gpushare.Budget{Source: source, Container: container, Minor: -1, MemoryBytes: mibs * mib}
	}
	const annotation, kai, hami = gpushare.BudgetAnnotation, gpushare.BudgetKAI, gpushare.BudgetHAMiAllocation
	for name, tc := range map[string]struct {
		source    gpushare.BudgetSource
		annotated int64 // the sum over all devices in MiB, or 0 if the pod uses only this device
		now       []gpushare.Budget
		unknown   bool // the annotation's key is unknown
		want      Reason
	}{
		"a resource cannot be changed":                    {gpushare.BudgetResource, 0, nil, false, Evicted},
		"the annotation is unchanged":                     {annotation, 0, []gpushare.Budget{declares(annotation, "", 3000)}, false, Evicted},
		"the annotation was raised":                       {annotation, 0, []gpushare.Budget{declares(annotation, "", 9000)}, false, BudgetChanged},
		"the annotation was lowered":                      {annotation, 0, []gpushare.Budget{declares(annotation, "", 1000)}, false, Evicted},
		"the annotation was removed":                      {annotation, 0, nil, false, BudgetChanged},
		"the annotation is not configured":                {annotation, 0, nil, true, Evicted},
		"half of the pod's budget is on another device":   {annotation, 6000, []gpushare.Budget{declares(annotation, "", 6000)}, false, Evicted},
		"the container's annotation is unchanged":         {annotation, 0, []gpushare.Budget{declares(annotation, "main", 3000), declares(annotation, "x", 9000)}, false, Evicted},
		"the container's annotation was raised":           {annotation, 0, []gpushare.Budget{declares(annotation, "main", 9000)}, false, BudgetChanged},
		"KAI's annotation applies to each of two devices": {kai, 0, []gpushare.Budget{declares(kai, "main", 3000), declares(kai, "main", 3000)}, false, Evicted},
		"KAI's annotation was raised":                     {kai, 0, []gpushare.Budget{declares(kai, "main", 5000)}, false, BudgetChanged},
		"KAI's share of the device was raised":            {kai, 0, []gpushare.Budget{{Source: kai, Container: "main", MemoryRatio: 0.5}}, false, BudgetChanged},
		"HAMi's allocation of another container":          {hami, 0, []gpushare.Budget{declares(hami, "main", 3000), declares(hami, "x", 9000)}, false, Evicted},
		"HAMi's allocation is larger than in telemetry":   {hami, 0, []gpushare.Budget{declares(hami, "main", 9500)}, false, BudgetChanged},
	} {
		t.Run(name, func(t *testing.T) {
			h := holder("a", 9000, 3000)
			h.Source = tc.source
			s := card(t0, gib, h)
			s.Annotated = map[string]int64{"uid-a": max(tc.annotated, 3000) * mib}
			pod := running("a")
			pod.Budgets = tc.now
			p := policy(func(p *Policy) {
				p.BudgetSources, p.Annotation = []gpushare.BudgetSource{annotation, kai, hami, gpushare.BudgetResource}, !tc.unknown
			})
			_, d := Evaluate(State{}, Input{device, s, map[string]Pod{"uid-a": pod}}, p, t0)
			assert.Equal(t, tc.want, d.Reason)
			assert.Equal(t, tc.want == Evicted, d.Reason.Complete(), "telemetry that contradicts the pod is not complete")
		})
	}
}

func TestNamespaceWithoutPermissionIsSkipped(t *testing.T) {
	denied := policy(func(p *Policy) { p.Denied, p.Namespaces = []string{"ai"}, []string{"ai", "web"} })
	h := holder("b", 4000, 3000)
	h.Namespace = "web"
	_, d := Evaluate(State{}, Input{device, card(t0, gib, holder("a", 6000, 3000), h), everyone}, denied, t0)
	assert.Equal(t, Evicted, d.Reason)
	assert.Equal(t, "b", victim(d))
	_, d = Evaluate(State{}, Input{device, card(t0, gib, holder("a", 6000, 3000)), everyone}, denied, t0.Add(time.Minute))
	assert.Equal(t, NoPermission, d.Reason)
	assert.Equal(t, "a", victim(d))
}
