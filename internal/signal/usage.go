package signal

import (
	"regexp"
	"sync"
)

// Usage: the time of boards, in board equivalents, by who held them.
var (
	// K8sContainerGPUAllocatedTime is the time for which a holder had the device or its share.
	K8sContainerGPUAllocatedTime = add(Metric{
		Name: "k8s.container.gpu.allocated.time", Unit: "s", Kind: Counter, Stage: StageWorkload,
		Description: "Share of the device that the container held, times observed time, in board equivalents.",
		Source:      "gpu.device.holder over the sample times, gpu.mig.profile, declared compute",
		Attributes:  []string{UsageEstimated},
	})
	// K8sContainerGPUActiveTime is the used part of it.
	K8sContainerGPUActiveTime = add(Metric{
		Name: "k8s.container.gpu.active.time", Unit: "s", Kind: Counter, Stage: StageWorkload,
		Description: "Allocated time that was used; intervals without an observed utilization are left out.",
		Source:      "process.gpu.utilization of the container, else hw.gpu.utilization",
		Attributes:  []string{UsageEstimated},
	})
	// K8sContainerGPUIdleTime is the rest.
	K8sContainerGPUIdleTime = add(Metric{
		Name: "k8s.container.gpu.idle.time", Unit: "s", Kind: Counter, Stage: StageWorkload,
		Description: "Allocated time that was not used; intervals without an observed utilization are left out.",
		Source:      "k8s.container.gpu.allocated.time - k8s.container.gpu.active.time",
		Attributes:  []string{UsageEstimated},
	})
	// GPUUnallocatedTime is time without a holder.
	GPUUnallocatedTime = add(Metric{
		Name: "gpu.unallocated.time", Unit: "s", Kind: Counter, Stage: StageWorkload,
		Description: "Time of the board that nobody held, in board equivalents.",
		Source:      "gpu.sharing.clients, gpu.device.holder over the sample times",
	})
	// GPUUnobservedTime is time without samples or with unknown holders.
	GPUUnobservedTime = add(Metric{
		Name: "gpu.unobserved.time", Unit: "s", Kind: Counter, Stage: StageWorkload,
		Description: "Time of the board in gaps, or while its holders were not known, in board equivalents.",
		Source:      "the sample times",
	})
	// K8sContainerGPUCost is what allocated time costs.
	K8sContainerGPUCost = add(Metric{
		Name: "k8s.container.gpu.cost", Unit: UnitCurrency, Kind: Counter, Stage: StageWorkload,
		Description: "Allocated time at the price of the board.",
		Source:      "k8s.container.gpu.allocated.time, price list",
		Attributes:  []string{UsageEstimated, CostCurrency},
	})
	// K8sContainerGPUCostIdle is what idle time costs.
	K8sContainerGPUCostIdle = add(Metric{
		Name: "k8s.container.gpu.cost.idle", Unit: UnitCurrency, Kind: Counter, Stage: StageWorkload,
		Description: "Idle time at the price of the board: a part of k8s.container.gpu.cost.",
		Source:      "k8s.container.gpu.idle.time, price list",
		Attributes:  []string{UsageEstimated, CostCurrency},
	})
	// GPUUnallocatedCost is what unallocated time costs.
	GPUUnallocatedCost = add(Metric{
		Name: "gpu.unallocated.cost", Unit: UnitCurrency, Kind: Counter, Stage: StageWorkload,
		Description: "Unallocated time at the price of the board.",
		Source:      "gpu.unallocated.time, price list",
		Attributes:  []string{CostCurrency},
	})
)

// UnitCurrency is the unit of amounts of money in the table. Their points are in a currency,
// which [InCurrency] puts in its place.
const UnitCurrency = "{currency}"

var (
	currencyForm = regexp.MustCompile(`^[A-Z]{3}$`)
	inCurrency   = struct {
		sync.Mutex
		metrics map[amount]*Metric
	}{metrics: map[amount]*Metric{}}
)

type amount struct {
	metric *Metric
	code   string
}

// InCurrency returns a metric with the unit of a currency: {USD} for the ISO 4217 code USD. A
// metric that is no amount of money, or an invalid code, returns the metric unchanged.
func InCurrency(m *Metric, code string) *Metric {
	if m.Unit != UnitCurrency || !currencyForm.MatchString(code) {
		return m
	}
	inCurrency.Lock()
	defer inCurrency.Unlock()
	of := inCurrency.metrics[amount{m, code}]
	if of == nil {
		copied := *m
		of = &copied
		of.Unit = "{" + code + "}"
		inCurrency.metrics[amount{m, code}] = of
	}
	return of
}
