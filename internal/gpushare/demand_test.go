package gpushare

import (
	"maps"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
)

func TestDemands(t *testing.T) {
	koord := func(devices, bytes int64, ratio, core float64) []Demand {
		return []Demand{{Koordinator, devices, bytes, ratio, core}}
	}
	for name, c := range map[string]struct {
		requests string
		want     []Demand
	}{
		"nothing":                       {"", nil},
		"no GPU":                        {"cpu=4 memory=8Gi nvidia.com/priority=1", nil},
		"zeros":                         {"nvidia=0 gpu=0 core=0 mem=0 ratio=0 shared=0 gpumem=0", nil},
		"below zero":                    {"nvidia=-1 core=-100 gpumem=-5", nil},
		"whole devices are not a share": {"nvidia=2 dcu=2 amd=3 nvidia.com/gpu.shared=2 nvidia.com/mig-1g.10gb=3", nil},
		"a fraction is rounded up":      {"mem=1m", koord(1, 1, 0, 0)},
		"canonical thousands":           {"mem=5k", koord(1, 5000, 0, 0)},
		"more devices than exist":       {"mem=1e30", koord(1, 1<<50, 0, 0)},
		"more than a float64 can store": {"mem=1e9999", koord(1, 1<<50, 0, 0)},
		"a quintillion, which fits into an int64": {"mem=1E", koord(1, 1<<50, 0, 0)},

		// Test cases from the tests of Koordinator's mutating webhook.
		"webhook: {core100,mem4000,ratio50} gets shared 1":             {"core=100 mem=4000 ratio=50", koord(1, 0, 0.5, 1)},
		"webhook: {core100,mem8000,ratio200} gets shared 2":            {"core=100 mem=8000 ratio=200", koord(2, 0, 1, 0.5)},
		"webhook: {gpu200} becomes core, ratio, shared":                {"gpu=200", koord(2, 0, 1, 1)},
		"webhook: a mutated request has the same demand":               {"core=200 ratio=200 shared=2", koord(2, 0, 1, 1)},
		"webhook: without a ratio, core above 100 is used":             {"core=200 mem=64Gi", koord(2, 32<<30, 0, 1)},
		"webhook: a ratio that is not a multiple of 100 gets shared 1": {"ratio=150", koord(1, 0, 1.5, 0)},
		"webhook: gpu has precedence over core and ratio":              {"gpu=100 core=30 ratio=30", koord(1, 0, 1, 1)},
		"proposal: ratio 100 gets shared 1":                            {"ratio=100", koord(1, 0, 1, 0)},
		"proposal: ratio 300 gets shared 3":                            {"ratio=300", koord(3, 0, 1, 0)},

		// Test cases from Koordinator's tests of how the scheduler divides requests among devices.
		"split: {shared2,core100,ratio100}":            {"shared=2 core=100 ratio=100", koord(2, 0, 0.5, 0.5)},
		"split: {core200,ratio200}":                    {"core=200 ratio=200", koord(2, 0, 1, 1)},
		"split: {mem1024,core100}":                     {"mem=1024 core=100", koord(1, 1024, 0, 1)},
		"split: seed example":                          {"mem=4Gi core=100 shared=2", koord(2, 2<<30, 0, 0.5)},
		"split: bytes are rounded down":                {"mem=1000 shared=3", koord(3, 333, 0, 0)},
		"split: bytes are ignored if there is a ratio": {"mem=4Gi ratio=50 shared=1", koord(1, 0, 0.5, 0)},
		"split: only shared":                           {"shared=2", koord(2, 0, 0, 0)},
		"split: half a gpu":                            {"gpu=50", koord(1, 0, 0.5, 0.5)},
		"an NPU's memory is not GPU memory":            {"npu=40 ratio=200", nil},

		"hami: only the count means whole GPUs":       {"nvidia=2", nil},
		"hami: memory of each vGPU":                   {"nvidia=2 gpumem=3000 gpucores=30", []Demand{{HAMi, 2, 3000 << 20, 0, 0.3}}},
		"hami: 5k MiB":                                {"nvidia=1 gpumem=5k", []Demand{{HAMi, 1, 5000 << 20, 0, 0}}},
		"hami: percentage":                            {"nvidia=1 gpumem%=25", []Demand{{HAMi, 1, 0, 0.25, 0}}},
		"hami: 100% is the whole GPU":                 {"nvidia=1 gpumem%=100", []Demand{{HAMi, 1, 0, 1, 1}}},
		"hami: a percentage above 100 is 100":         {"nvidia=1 gpumem%=400", []Demand{{HAMi, 1, 0, 1, 1}}},
		"hami: memory has precedence over percentage": {"nvidia=1 gpumem=100 gpumem%=50", []Demand{{HAMi, 1, 100 << 20, 0, 0}}},
		"hami: cores without memory means all memory": {"nvidia=1 gpucores=30", []Demand{{HAMi, 1, 0, 1, 0.3}}},
		"hami: cores 100 is the whole GPU":            {"nvidia=1 gpumem=100 gpucores=100", []Demand{{HAMi, 1, 100 << 20, 0, 1}}},
		"hami: no count means one":                    {"gpumem=3000", []Demand{{HAMi, 1, 3000 << 20, 0, 0}}},
		"hami: memory that is too large":              {"nvidia=1 gpumem=1e30", []Demand{{HAMi, 1, 1 << 50, 0, 0}}},
		"hami: amd":                                   {"amd=1 amd.com/gpumem=16384 amd.com/gpucores=25", []Demand{{HAMi, 1, 16 << 30, 0, 0.25}}},
		"hami: hygon":                                 {"hygon.com/dcunum=1 hygon.com/dcumem=2000 hygon.com/dcucores=60", []Demand{{HAMi, 1, 2000 << 20, 0, 0.6}}},

		"both families": {"nvidia=1 gpumem=3000 gpu=100", []Demand{{HAMi, 1, 3000 << 20, 0, 0}, {Koordinator, 1, 0, 1, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, Demands(requests(c.requests)))
		})
	}
}

// The test cases are from Koordinator's tests of fillGPUTotalMem, with 8 GiB and with an odd memory
// size.
func TestMemoryOf(t *testing.T) {
	for name, c := range map[string]struct {
		bytes int64
		ratio float64
		total int64
		want  int64
	}{
		"bytes stay":                        {1 << 30, 0.9, 8 << 30, 1 << 30},
		"proposal: 50 of 8Gi is 4Gi":        {0, 0.5, 8 << 30, 4 << 30},
		"the whole":                         {0, 1, 8 << 30, 8 << 30},
		"bytes are rounded down":            {0, 0.33, 1001, 330},
		"7% is exact although 0.07 is not":  {0, 0.07, 100, 7},
		"29% is exact although 0.29 is not": {0, 0.29, 100, 29},
		"a third":                           {0, 1.0 / 3, 900, 300},
		"neither":                           {0, 0, 8 << 30, 0},
		"no total":                          {5, 0, 0, 5},
		"total below zero":                  {0, 0.5, -1, 0},
		"no overflow":                       {0, math.MaxFloat64, math.MaxInt64, 1 << 50},
		"no overflow of percent points":     {0, 1 << 43, math.MaxInt64, 1 << 50},
		"a total that is too large":         {0, 1, math.MaxInt64, 1 << 50},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, MemoryOf(c.bytes, c.ratio, c.total))
		})
	}
}

func quantity() *rapid.Generator[resource.Quantity] {
	return rapid.Custom(func(t *rapid.T) resource.Quantity {
		text := rapid.OneOf(
			rapid.SampledFrom([]string{
				"0", "1", "2", "50", "100", "101", "150", "200", "300", "-1", "1m", "1500m", "5k", "1e30", "1e9999", "-1e30",
				"64Gi", "4000", "9223372036854775807", "9223372036854775806", "92233720368547758080", "1E", "1n",
			}),
			rapid.StringMatching(`-?[0-9]{1,30}(m|k|Mi|Gi|E)?`),
		).Draw(t, "quantity")
		return resource.MustParse(text)
	})
}

func drawRequests(t *rapid.T, names ...string) Requests {
	return Requests(rapid.MapOfN(rapid.SampledFrom(names), quantity(), 0, 6).Draw(t, "requests"))
}

func allNames() []string {
	var names []string
	for name := range familyByName {
		names = append(names, name)
	}
	return append(names, npuCore, npuCPU, npuDVPP, "cpu",
		"nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb.shared", "amd.com/cpx_nps4")
}

func TestDemandsAreNeverNegativeAndSplitTheRequest(t *testing.T) {
	names := allNames()
	rapid.Check(t, func(t *rapid.T) {
		r := drawRequests(t, names...)
		for _, d := range Demands(r) {
			if d.Devices < 1 || d.Devices > limit ||
				d.MemoryBytes < 0 || d.MemoryBytes > limit || d.MemoryRatio < 0 || d.Core < 0 {
				t.Fatalf("out of range: %+v", d)
			}
			if d.MemoryBytes > 0 && d.MemoryRatio > 0 {
				t.Fatalf("bytes and ratio: %+v", d)
			}
			if d.Family != Koordinator {
				continue
			}
			n := float64(d.Devices)
			if points, ratio := float64(max(Units(r[koordGPU]), Units(r[koordRatio]))), d.MemoryRatio*n*100; Units(r[koordGPU]) == 0 && math.Abs(ratio-points) > points*1e-12 {
				t.Fatalf("ratio × devices is %v of %v: %+v", ratio, points, d)
			}
			if d.MemoryBytes > 0 {
				if lost := Units(r[koordMemory]) - d.MemoryBytes*d.Devices; lost < 0 || lost >= d.Devices {
					t.Fatalf("bytes × devices lose %d: %+v", lost, d)
				}
			}
			if core := d.Core * n * 100; Units(r[koordGPU]) == 0 && math.Abs(core-float64(Units(r[koordCore]))) > core*1e-12 {
				t.Fatalf("core × devices is %v: %+v", core, d)
			}
		}
	})
}

// The webhook is on by default, but it mutates only pods that are created after it was installed.
// Therefore, a cluster can contain both mutated and unmutated pods.
func TestMutatedAndStoredRequestsHaveTheSameDemand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Requests{}
		for _, name := range []string{koordGPU, koordCore, koordMemory, koordRatio, koordShared} {
			if rapid.Bool().Draw(t, name) {
				r[name] = *resource.NewQuantity(rapid.SampledFrom([]int64{1, 50, 100, 101, 200, 400}).Draw(t, "n"), resource.DecimalSI)
			}
		}
		before := Demands(r)
		if len(before) == 0 {
			return
		}
		mutated := Requests{}
		maps.Copy(mutated, r)
		if gpu, ok := mutated[koordGPU]; ok {
			mutated[koordCore], mutated[koordRatio] = gpu, gpu
			delete(mutated, koordGPU)
		}
		if _, ok := mutated[koordShared]; !ok {
			mutated[koordShared] = *resource.NewQuantity(before[0].Devices, resource.DecimalSI)
		}
		after := Demands(mutated)
		if len(after) != 1 {
			t.Fatalf("%d demands", len(after))
		}
		if before[0] != after[0] {
			t.Fatalf("stored %+v, mutated %+v", before[0], after[0])
		}
	})
}

func BenchmarkDemands(b *testing.B) {
	r := requests("cpu=4 memory=8Gi core=100 mem=64Gi shared=2")
	b.ReportAllocs()
	for b.Loop() {
		Demands(r)
	}
}
