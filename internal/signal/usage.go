package signal

import (
	"regexp"
	"sync"
)

// IdleShare is the minimum unused fraction of the observed time in a time span at which a device or
// a holder is idle. The used fraction of a device in one window is its mean utilization. The used
// fraction of a holder is the active part of the holder's allocated time. If the utilization is not
// observed, nothing is idle.
const IdleShare = 0.95

// Usage: the time of boards by holder. The unit is the time of one entire board.
var (
	// K8sContainerGPUAllocatedTime is how long a holder had the device or a share of it.
	K8sContainerGPUAllocatedTime = add(Metric{
		Name: "k8s.container.gpu.allocated.time", Unit: "s", Kind: Counter, Stage: StageWorkload,
		Description: "Share of the device that the container held, times observed time, in board equivalents.",
		Source:      "gpu.device.holder over the sample times, gpu.mig.profile, declared compute",
		Attributes:  []string{UsageEstimated},
	})
	// K8sContainerGPUActiveTime is the part of the allocated time during which the device was busy.
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
	// GPUUnallocatedTime is time without a holder.
	GPUUnallocatedTime = add(Metric{
		Name: "gpu.unallocated.time", Unit: "s", Kind: Counter, Stage: StageWorkload,
		Description: "Time of the board that nobody held, in board equivalents.",
		Source:      "gpu.sharing.clients, gpu.device.holder over the sample times",
	})
	// GPUUnobservedTime is time without samples, or with unknown holders.
	GPUUnobservedTime = add(Metric{
		Name: "gpu.unobserved.time", Unit: "s", Kind: Counter, Stage: StageWorkload,
		Description: "Time of the board in gaps, or while its holders were not known, in board equivalents.",
		Source:      "the sample times",
	})
	// K8sContainerGPUCost is the cost of allocated time.
	K8sContainerGPUCost = add(Metric{
		Name: "k8s.container.gpu.cost", Unit: UnitCurrency, Kind: Counter, Stage: StageWorkload,
		Description: "Allocated time at the price of the board.",
		Source:      "k8s.container.gpu.allocated.time, price list",
		Attributes:  []string{UsageEstimated, CostCurrency},
	})
	// K8sContainerGPUCostIdle is the cost of idle time.
	K8sContainerGPUCostIdle = add(Metric{
		Name: "k8s.container.gpu.cost.idle", Unit: UnitCurrency, Kind: Counter, Stage: StageWorkload,
		Description: "Idle time at the price of the board. It is a part of k8s.container.gpu.cost.",
		Source:      "k8s.container.gpu.idle.time, price list",
		Attributes:  []string{UsageEstimated, CostCurrency},
	})
	// GPUUnallocatedCost is the cost of unallocated time.
	GPUUnallocatedCost = add(Metric{
		Name: "gpu.unallocated.cost", Unit: UnitCurrency, Kind: Counter, Stage: StageWorkload,
		Description: "Unallocated time at the price of the board.",
		Source:      "gpu.unallocated.time, price list",
		Attributes:  []string{CostCurrency},
	})
)

// UnitCurrency is the unit of amounts of money in the table. [InCurrency] replaces it with the
// currency of the data points.
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

// InCurrency returns the metric with the unit of a currency, such as {USD} for the ISO 4217 code
// USD. If the metric is not an amount of money or the code is invalid, it returns the metric
// unchanged.
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
