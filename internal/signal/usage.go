package signal

import (
	"regexp"
	"sync"
)

// IdleShare is the minimum fraction of the observed time for which an idle device or an idle holder
// is unused. The used fraction of a device in one window is the device's mean utilization. The used
// fraction of a holder is the active fraction of the holder's allocated time. If the utilization is
// not observed, neither the device nor its holders are considered idle.
const IdleShare = 0.95

// These metrics report how much of a board each holder used, and for how long. Time is measured in
// board equivalents: using half of a board for one hour counts as half an hour.
var (
	// K8sContainerGPUAllocatedTime is the time for which a holder held the device or a share of the
	// device.
	K8sContainerGPUAllocatedTime = add(Metric{
		Name: "k8s.container.gpu.allocated.time", Unit: "s", Kind: Counter, Stage: StageWorkload,
		Description: "Share of the device that the container held, times observed time, in board equivalents.",
		Source:      "gpu.device.holder over the sample times, gpu.mig.profile, declared compute",
		Attributes:  []string{UsageEstimated},
	})
	// K8sContainerGPUActiveTime is the part of the allocated time that was used.
	K8sContainerGPUActiveTime = add(Metric{
		Name: "k8s.container.gpu.active.time", Unit: "s", Kind: Counter, Stage: StageWorkload,
		Description: "Allocated time that was used. Intervals without an observed utilization do not count.",
		Source:      "process.gpu.utilization of the container, otherwise hw.gpu.utilization",
		Attributes:  []string{UsageEstimated},
	})
	// K8sContainerGPUIdleTime is the part of the allocated time that was not used.
	K8sContainerGPUIdleTime = add(Metric{
		Name: "k8s.container.gpu.idle.time", Unit: "s", Kind: Counter, Stage: StageWorkload,
		Description: "Allocated time that was not used. Intervals without an observed utilization do not count.",
		Source:      "k8s.container.gpu.allocated.time - k8s.container.gpu.active.time",
		Attributes:  []string{UsageEstimated},
	})
	// GPUUnallocatedTime is the time for which the board, or a part of it, had no holder.
	GPUUnallocatedTime = add(Metric{
		Name: "gpu.unallocated.time", Unit: "s", Kind: Counter, Stage: StageWorkload,
		Description: "Time of the board that nobody held, in board equivalents.",
		Source:      "gpu.sharing.clients, gpu.device.holder over the sample times",
	})
	// GPUUnobservedTime is the time for which the board, or a part of it, had no samples or unknown
	// holders.
	GPUUnobservedTime = add(Metric{
		Name: "gpu.unobserved.time", Unit: "s", Kind: Counter, Stage: StageWorkload,
		Description: "Time of the board in gaps, or while its holders were not known, in board equivalents.",
		Source:      "the sample times",
	})
	// K8sContainerGPUCost is the cost of the allocated time.
	K8sContainerGPUCost = add(Metric{
		Name: "k8s.container.gpu.cost", Unit: UnitCurrency, Kind: Counter, Stage: StageWorkload,
		Description: "Allocated time at the price of the board.",
		Source:      "k8s.container.gpu.allocated.time, price list",
		Attributes:  []string{UsageEstimated, CostCurrency},
	})
	// K8sContainerGPUCostIdle is the cost of the idle time.
	K8sContainerGPUCostIdle = add(Metric{
		Name: "k8s.container.gpu.cost.idle", Unit: UnitCurrency, Kind: Counter, Stage: StageWorkload,
		Description: "Idle time at the price of the board. It is a part of k8s.container.gpu.cost.",
		Source:      "k8s.container.gpu.idle.time, price list",
		Attributes:  []string{UsageEstimated, CostCurrency},
	})
	// GPUUnallocatedCost is the cost of the unallocated time.
	GPUUnallocatedCost = add(Metric{
		Name: "gpu.unallocated.cost", Unit: UnitCurrency, Kind: Counter, Stage: StageWorkload,
		Description: "Unallocated time at the price of the board.",
		Source:      "gpu.unallocated.time, price list",
		Attributes:  []string{CostCurrency},
	})
)

// UnitCurrency is the placeholder unit of cost metrics in the table. [InCurrency] replaces this
// placeholder with the actual currency.
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

// InCurrency returns a copy of a cost metric with a currency as the unit, such as {USD} for the ISO
// 4217 code USD. If the metric is not a cost metric or the code is invalid, InCurrency returns the
// metric unchanged.
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
