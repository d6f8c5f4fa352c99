package gpushare

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
)

func TestCheckOfOneContainer(t *testing.T) {
	for name, c := range map[string]struct {
		requests string
		want     []Rule
	}{
		// Test cases for the four rules in the proposal.
		"proposal 1: vendor with share":          {"nvidia=1 mem=4Gi shared=1", []Rule{VendorWithShare}},
		"proposal 1: dcu with share":             {"dcu=1 ratio=50 shared=1", []Rule{VendorWithShare}},
		"proposal 1: MIG is also a vendor's GPU": {"nvidia.com/mig-1g.10gb=1 ratio=50 shared=1", []Rule{VendorWithShare}},
		"proposal 1: only vendor":                {"nvidia=1 amd=1", nil},
		"proposal 1: zero vendor GPUs":           {"nvidia=0 mem=4Gi shared=1", nil},
		"proposal 2: memory with ratio":          {"mem=4Gi ratio=50 shared=1", []Rule{MemoryWithRatio}},
		"proposal 3: only core":                  {"core=100", []Rule{CoreWithoutMemory}},
		"proposal 4: memory without shared":      {"mem=4Gi", []Rule{MemoryWithoutShared}},
		"proposal 4: ratio without shared":       {"ratio=50", []Rule{MemoryWithoutShared}},
		"proposal: the recommended request":      {"mem=4Gi core=50 shared=1", nil},
		"proposal: gpu is still supported":       {"gpu=100", nil},
		"no GPU":                                 {"cpu=4", nil},
		"empty":                                  {"", nil},

		// Test cases for the rules of the validating webhook, including the cases in Koordinator's
		// own test.
		"webhook: gpu and shared":             {"gpu=100 shared=1", []Rule{GPUWithShared}},
		"webhook: gpu zero":                   {"gpu=0", []Rule{GPUZero}},
		"webhook: gpu below zero":             {"gpu=-1", []Rule{GPUZero}},
		"webhook: gpu not a multiple of 100":  {"gpu=101", []Rule{GPUNotMultipleOf100}},
		"webhook: shared zero":                {"shared=0 mem=4000", []Rule{SharedZero}},
		"webhook: gpu200 ok":                  {"gpu=200", nil},
		"webhook: gpu70 ok":                   {"gpu=70", nil},
		"webhook: {mem4000,ratio100,shared1}": {"mem=4000 ratio=100 shared=1", []Rule{MemoryWithRatio}},
		"webhook: {shared2}":                  {"shared=2", []Rule{SharedWithoutMemory}},
		"webhook: {core101,ratio100,shared2}": {"core=101 ratio=100 shared=2", []Rule{CoreNotMultipleOfShared}},
		"webhook: {ratio101,shared2}":         {"ratio=101 shared=2", []Rule{RatioNotMultipleOfShared}},
		"webhook: {npu-core8,shared1} stops there; the scheduler refuses it": {"npu=8 shared=1", []Rule{UnknownCombination}},
		"webhook: core and shared, no memory":                                {"core=100 shared=1", []Rule{CoreWithoutMemory, SharedWithoutMemory}},

		// Invalid requests from Koordinator's TestValidateDeviceRequest.
		"scheduler refuses core101":                                   {"core=101", []Rule{CoreNotMultipleOf100, CoreWithoutMemory}},
		"scheduler refuses {nvidia2,gpu200,core200,mem32Gi,ratio200}": {"nvidia=2 gpu=200 core=200 mem=32Gi ratio=200", []Rule{MemoryWithRatio, VendorWithShare}},
		"scheduler refuses gpu101":                                    {"gpu=101", []Rule{GPUNotMultipleOf100}},
		"scheduler refuses {core100,ratio101}":                        {"core=100 ratio=101", []Rule{MemoryWithoutShared, RatioNotMultipleOf100}},
		"scheduler refuses {ratio101,shared1}":                        {"ratio=101 shared=1", []Rule{RatioOverDevice}},
		"scheduler refuses {ratio101,shared2}":                        {"ratio=101 shared=2", []Rule{RatioNotMultipleOfShared}},
		"scheduler refuses {core101,mem64Gi,shared1}":                 {"core=101 mem=64Gi shared=1", []Rule{CoreOverDevice}},
		"scheduler refuses {core101,mem64Gi,shared2}":                 {"core=101 mem=64Gi shared=2", []Rule{CoreNotMultipleOfShared}},
		"scheduler refuses {npu40,mem128Gi}":                          {"npu=40 mem=128Gi", []Rule{UnknownCombination}},
		"scheduler refuses {shared2,npu20,cpu6,dvpp200,mem32Gi}":      {"shared=2 npu=20 cpu=6 dvpp=200 mem=32Gi", []Rule{NPUOverDevice}},
		"scheduler refuses {shared1,npu10,mem16Gi}":                   {"shared=1 npu=10 mem=16Gi", []Rule{UnknownCombination}},
		"scheduler refuses fpga201, no rule of GPUs":                  {"fpga=201", nil},
		"scheduler refuses rdma201, no rule of GPUs":                  {"rdma=201", nil},

		// Valid requests from Koordinator's TestValidateDeviceRequest. Some of these requests do
		// not contain gpu.shared, although the proposal requires it.
		"scheduler accepts nvidia2":                              {"nvidia=2", nil},
		"scheduler accepts dcu2":                                 {"dcu=2", nil},
		"scheduler accepts gpu200":                               {"gpu=200", nil},
		"scheduler accepts {core200,mem64Gi}":                    {"core=200 mem=64Gi", []Rule{MemoryWithoutShared}},
		"scheduler accepts {core200,ratio200}":                   {"core=200 ratio=200", []Rule{MemoryWithoutShared}},
		"scheduler accepts ratio200":                             {"ratio=200", []Rule{MemoryWithoutShared}},
		"scheduler accepts mem64Gi":                              {"mem=64Gi", []Rule{MemoryWithoutShared}},
		"scheduler accepts {ratio200,shared2}":                   {"ratio=200 shared=2", nil},
		"scheduler accepts {ratio100,shared2}":                   {"ratio=100 shared=2", nil},
		"scheduler accepts {core100,mem64Gi,shared1}":            {"core=100 mem=64Gi shared=1", nil},
		"scheduler accepts {core100,mem64Gi,shared2}":            {"core=100 mem=64Gi shared=2", nil},
		"scheduler accepts {npu40,ratio200}":                     {"npu=40 ratio=200", nil},
		"scheduler accepts {shared1,npu10,cpu3,mem16Gi}":         {"shared=1 npu=10 cpu=3 mem=16Gi", nil},
		"scheduler accepts {shared1,npu10,cpu3,dvpp100,mem16Gi}": {"shared=1 npu=10 cpu=3 dvpp=100 mem=16Gi", nil},
		"scheduler accepts fpga50":                               {"fpga=50", nil},
		"scheduler accepts rdma50":                               {"rdma=50", nil},

		"gpu with ratio, which breaks no other rule": {"gpu=100 ratio=100", []Rule{UnknownCombination}},
		"quantities that are too large":              {"ratio=1e30 shared=1", []Rule{RatioOverDevice}},
	} {
		t.Run(name, func(t *testing.T) {
			r := requests(c.requests)
			assert.Equal(t, c.want, builtin.Check([]Requests{r}, r))
		})
	}
}

func TestCheckOfPods(t *testing.T) {
	for name, c := range map[string]struct {
		containers []string
		pod        string
		want       []Rule
	}{
		"vendor in one container, share in the other": {
			[]string{"nvidia=1", "ratio=50 shared=1"}, "nvidia=1 ratio=50 shared=1", []Rule{VendorWithShare},
		},
		"vendor in an init container": {
			[]string{"ratio=50 shared=1"}, "nvidia=1 ratio=50 shared=1", []Rule{VendorWithShare},
		},
		"memory and ratio in different containers": {
			[]string{"mem=4Gi shared=1", "ratio=50 shared=1"}, "mem=4Gi ratio=50 shared=2", []Rule{MemoryWithRatio},
		},
		"core in one container, memory in the other": {
			[]string{"core=50 shared=1", "mem=4Gi shared=1"}, "core=50 mem=4Gi shared=2", []Rule{CoreWithoutMemory, SharedWithoutMemory},
		},
		"equal parts are added": {
			[]string{"ratio=50 shared=1", "ratio=50 shared=1"}, "ratio=100 shared=2", nil,
		},
		"the scheduler divides the sum": {
			[]string{"ratio=30 shared=1", "ratio=31 shared=1"}, "ratio=61 shared=2", []Rule{RatioNotMultipleOfShared},
		},
		"two containers break one rule once": {
			[]string{"core=100", "core=100"}, "core=200", []Rule{CoreWithoutMemory},
		},
		"parts of gpu that do not add up to a multiple of 100": {
			[]string{"gpu=50", "gpu=60"}, "gpu=110", []Rule{GPUNotMultipleOf100},
		},
		"cores that add up to a multiple of 100": {
			[]string{"core=150 mem=1Gi", "core=50 mem=1Gi"}, "core=200 mem=2Gi", []Rule{MemoryWithoutShared},
		},
		"without effective requests": {
			[]string{"nvidia=1", "ratio=101 shared=2"}, "", []Rule{RatioNotMultipleOfShared, VendorWithShare},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var containers []Requests
			for _, text := range c.containers {
				containers = append(containers, requests(text))
			}
			var pod Requests
			if c.pod != "" {
				pod = requests(c.pod)
			}
			assert.Equal(t, c.want, builtin.Check(containers, pod))
		})
	}
}

func TestAddedVendorsCountAsVendors(t *testing.T) {
	f, err := NewFamilies([]string{"example.com/gpu"}, nil)
	assert.NoError(t, err)
	r := requests("example.com/gpu=1 ratio=50 shared=1")
	assert.Equal(t, []Rule{VendorWithShare}, f.Check([]Requests{r}, r))
	assert.Empty(t, builtin.Check([]Requests{r}, r))
}

func TestRulesAreSortedAndEachCanBeBroken(t *testing.T) {
	assert.True(t, slices.IsSorted(Rules()))
	seen := map[Rule]bool{}
	for _, text := range []string{
		"nvidia=1 ratio=50 shared=1", "mem=1 ratio=1 shared=1", "core=101", "mem=1", "gpu=1 shared=1", "gpu=0", "gpu=101",
		"shared=0", "core=1 ratio=1 shared=2", "ratio=101", "core=101 ratio=101 shared=1",
		"shared=2 npu=1 cpu=1 mem=1", "npu=1 mem=1",
	} {
		r := requests(text)
		for _, rule := range builtin.Check([]Requests{r}, r) {
			seen[rule] = true
		}
	}
	for _, rule := range Rules() {
		assert.True(t, seen[rule], rule)
	}
	assert.Len(t, seen, len(Rules()))
}

func TestTheOrderOfContainersDoesNotMatter(t *testing.T) {
	names := allNames()
	rapid.Check(t, func(t *rapid.T) {
		var containers []Requests
		for range rapid.IntRange(0, 4).Draw(t, "containers") {
			containers = append(containers, drawRequests(t, names...))
		}
		pod := drawRequests(t, names...)
		want := builtin.Check(containers, pod)
		if !slices.IsSorted(want) || len(slices.Compact(slices.Clone(want))) != len(want) {
			t.Fatalf("not sorted or not unique: %v", want)
		}
		for _, rule := range want {
			if !slices.Contains(Rules(), rule) {
				t.Fatalf("%s is not a rule", rule)
			}
		}
		if got := builtin.Check(rapid.Permutation(containers).Draw(t, "order"), pod); !slices.Equal(got, want) {
			t.Fatalf("got %v, with the containers in another order %v", want, got)
		}
	})
}

// schedulerAccepts is an independent implementation of the scheduler's check, based on the
// scheduler's table of combinations.
func schedulerAccepts(pod map[string]int64) bool {
	has := func(names ...string) bool {
		for _, name := range names {
			if pod[short[name]] == 0 {
				return false
			}
		}
		return len(pod) == len(names)
	}
	if gpu := pod[koordGPU]; gpu > 100 && gpu%100 != 0 {
		return false
	}
	core, ratio, shared := pod[koordCore], pod[koordRatio], pod[koordShared]
	percentage := (core <= 100 || core%100 == 0) && (ratio <= 100 || ratio%100 == 0)
	switch {
	case has("nvidia"), has("amd"), has("dcu"), has("gpu"):
		return true
	case has("mem"), has("ratio"), has("core", "mem"), has("core", "ratio"), has("npu", "ratio"):
		return percentage
	case has("shared", "mem"), has("shared", "ratio"), has("shared", "core", "mem"), has("shared", "core", "ratio"):
		return core%shared == 0 && core/shared <= 100 && ratio%shared == 0 && ratio/shared <= 100
	case has("shared", "npu", "cpu", "mem"), has("shared", "npu", "cpu", "dvpp", "mem"):
		return shared <= 1 && pod[npuDVPP] <= 100
	}
	return false
}

// If the scheduler rejects a request, the request also breaks one of the rules in this package.
func TestRequestsThatTheSchedulerRejectsBreakARule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod, r := map[string]int64{}, Requests{}
		var share bool
		for _, name := range []string{"nvidia", "amd", "dcu", "gpu", "shared", "core", "mem", "ratio", "npu", "cpu", "dvpp"} {
			if rapid.IntRange(0, 2).Draw(t, name) > 0 {
				continue
			}
			n := rapid.SampledFrom([]int64{1, 2, 3, 50, 100, 101, 200, 250, 400}).Draw(t, "n")
			pod[short[name]] = n
			r[short[name]] = *resource.NewQuantity(n, resource.DecimalSI)
			share = share || IsGPU(short[name]) && name != "nvidia" && name != "amd" && name != "dcu"
		}
		rules := builtin.Check([]Requests{r}, r)
		switch accepts := schedulerAccepts(pod); {
		case !share:
			if rules != nil {
				t.Fatalf("%v of requests that are no share", rules)
			}
		case !accepts && rules == nil:
			t.Fatalf("the scheduler rejects a pod that breaks no rule: %v", pod)
		case accepts && rules != nil && !slices.Equal(rules, []Rule{MemoryWithoutShared}):
			t.Fatalf("rules %v are broken by a pod that the scheduler accepts: %v", rules, pod)
		}
	})
}
