package gpushare

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSlotsAndDevicesOfANode(t *testing.T) {
	type row struct {
		units, physical, memory int64
	}
	const register = `[{"id":"GPU-1","count":10,"devmem":15360,"devcore":100,"type":"NVIDIA-Tesla T4","health":true},
		{"id":"GPU-2","count":10,"devmem":15360,"devcore":100,"type":"NVIDIA-Tesla T4"}]`
	for name, c := range map[string]struct {
		capacity    string
		labels      map[string]string
		annotations map[string]string
		want        map[string]row
		profile     string
	}{
		"no GPU":           {capacity: "cpu=8 memory=8Gi", want: map[string]row{}},
		"nothing labelled": {capacity: "nvidia=8", want: map[string]row{"nvidia.com/gpu": {8, 8, 0}}},
		"exclusive": {
			capacity: "nvidia=8",
			labels:   map[string]string{"nvidia.com/gpu.count": "8", "nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.memory": "81920"},
			want:     map[string]row{"nvidia.com/gpu": {8, 8, 80 << 30}},
		},
		"time slicing": {
			capacity: "nvidia=32",
			labels:   map[string]string{"nvidia.com/gpu.count": "8", "nvidia.com/gpu.replicas": "4"},
			want:     map[string]row{"nvidia.com/gpu": {32, 8, 0}},
		},
		"time slicing, half of the devices healthy": {
			capacity: "nvidia=16",
			labels:   map[string]string{"nvidia.com/gpu.count": "8", "nvidia.com/gpu.replicas": "4"},
			want:     map[string]row{"nvidia.com/gpu": {16, 4, 0}},
		},
		"time slicing, an older discovery without replicas": {
			capacity: "nvidia=32",
			labels:   map[string]string{"nvidia.com/gpu.count": "8"},
			want:     map[string]row{"nvidia.com/gpu": {32, 8, 0}},
		},
		"time slicing, renamed": {
			capacity: "nvidia=0 nvidia.com/gpu.shared=8",
			labels:   map[string]string{"nvidia.com/gpu.count": "2", "nvidia.com/gpu.replicas": "4"},
			want:     map[string]row{"nvidia.com/gpu": {0, 0, 0}, "nvidia.com/gpu.shared": {8, 2, 0}},
		},
		"time slicing of some devices, renamed": {
			capacity: "nvidia=6 nvidia.com/gpu.shared=8",
			labels:   map[string]string{"nvidia.com/gpu.replicas": "4"},
			want:     map[string]row{"nvidia.com/gpu": {6, 6, 0}, "nvidia.com/gpu.shared": {8, 2, 0}},
		},
		"renamed without labels: nobody can tell": {
			capacity: "nvidia.com/gpu.shared=8",
			want:     map[string]row{"nvidia.com/gpu.shared": {8, 0, 0}},
		},
		"labels that are no numbers": {
			capacity: "nvidia=8",
			labels:   map[string]string{"nvidia.com/gpu.count": "-1", "nvidia.com/gpu.replicas": "many", "nvidia.com/gpu.memory": "99999999999999999999"},
			want:     map[string]row{"nvidia.com/gpu": {8, 8, 0}},
		},
		"MIG, mixed strategy": {
			capacity: "nvidia.com/mig-1g.10gb=7 nvidia.com/mig-3g.40gb=1",
			labels:   map[string]string{"nvidia.com/mig-1g.10gb.replicas": "1", "nvidia.com/mig-1g.10gb.memory": "9856", "nvidia.com/gpu.count": "2"},
			want:     map[string]row{"nvidia.com/mig-1g.10gb": {7, 7, 9856 << 20}, "nvidia.com/mig-3g.40gb": {1, 1, 0}},
			profile:  "1g.10gb",
		},
		"MIG, sliced and renamed": {
			capacity: "nvidia.com/mig-1g.10gb.shared=28",
			labels:   map[string]string{"nvidia.com/mig-1g.10gb.replicas": "4"},
			want:     map[string]row{"nvidia.com/mig-1g.10gb.shared": {28, 7, 0}},
			profile:  "1g.10gb",
		},
		"MIG, single strategy: nvidia.com/gpu are instances": {
			capacity: "nvidia=14",
			labels: map[string]string{
				"nvidia.com/mig.strategy": "single", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED",
				"nvidia.com/gpu.replicas": "2", "nvidia.com/gpu.memory": "4864",
			},
			want:    map[string]row{"nvidia.com/gpu": {14, 7, 4864 << 20}},
			profile: "1g.5gb",
		},
		"HAMi: GPUs × split": {
			capacity: "nvidia=20", annotations: map[string]string{hamiRegister: register},
			want: map[string]row{"nvidia.com/gpu": {20, 2, 15 << 30}},
		},
		"HAMi: allocatable without the unhealthy GPU": {
			capacity: "nvidia=10", annotations: map[string]string{hamiRegister: register},
			want: map[string]row{"nvidia.com/gpu": {10, 1, 15 << 30}},
		},
		"HAMi: the documented text": {
			capacity: "nvidia=20", annotations: map[string]string{hamiRegister: "GPU-1,10,15360,100,NVIDIA-Tesla T4,0,true:GPU-2,10,15360,100,NVIDIA-Tesla T4,0,true:"},
			want: map[string]row{"nvidia.com/gpu": {20, 2, 15 << 30}},
		},
		"HAMi: the later text, GPUs of two sizes": {
			capacity: "nvidia=20", annotations: map[string]string{hamiRegister: "GPU-1,10,15360,100,NVIDIA-Tesla T4,0,true,0,hami-core:GPU-2,10,81920,100,NVIDIA-A100,0,true,1,mig:"},
			want: map[string]row{"nvidia.com/gpu": {20, 2, 0}},
		},
		"HAMi: plugin gone": {
			capacity: "nvidia=0", annotations: map[string]string{hamiRegister: register},
			want: map[string]row{"nvidia.com/gpu": {0, 0, 15 << 30}},
		},
		// 3.4: 8 GPUs → gpu-core 800, ratio 800, gpu.shared 800.
		"Koordinator: percent points": {
			capacity: "gpu=800 core=800 ratio=800 shared=800 mem=640Gi",
			want: map[string]row{
				koordGPU: {800, 8, 80 << 30}, koordCore: {800, 8, 80 << 30}, koordRatio: {800, 8, 80 << 30},
				koordShared: {800, 8, 80 << 30}, koordMemory: {640 << 30, 0, 0},
			},
		},
		"AMD partitions, Intel, Hygon": {
			capacity: "amd.com/cpx_nps4=64 gpu.intel.com/i915=2 dcu=4",
			want:     map[string]row{"amd.com/cpx_nps4": {64, 64, 0}, "gpu.intel.com/i915": {2, 2, 0}, "dcu.com/gpu": {4, 4, 0}},
		},
		"Aliyun, Tencent": {
			capacity: "aliyun.com/gpu-mem=32 tencent.com/vcuda-core=200 tencent.com/vcuda-memory=128",
			want:     map[string]row{"aliyun.com/gpu-mem": {32, 0, 0}, "tencent.com/vcuda-core": {200, 2, 0}, "tencent.com/vcuda-memory": {128, 0, 0}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := NodeDevices(requests(c.capacity), c.labels, c.annotations)
			require.NoError(t, err)
			rows := map[string]row{}
			for i, n := range got {
				rows[n.Name] = row{n.Units, n.Physical, n.MemoryBytes}
				if i > 0 {
					assert.Less(t, got[i-1].Name, n.Name)
				}
			}
			assert.Equal(t, c.want, rows)
			if len(got) > 0 {
				assert.Equal(t, c.profile, got[0].Profile)
			}
		})
	}
}

func TestUnreadableRegisterEntriesLeaveTheOthers(t *testing.T) {
	for annotation, messages := range map[string][]string{
		"GPU-1,10,15360,100,T4,0,true:GPU-2,ten,15360,100,T4,0,true:GPU-3,10,x,100,T4,0,true:GPU-4,10,1,100,T4,0,maybe:short:,1,1,1,T4,0,true:": {
			`"GPU-2,ten,15360,100,T4,0,true" is no GPU: split "ten" is no number`, `memory "x" is no number of MiB`,
			`health "maybe" is neither true nor false`, "1 fields, not 7 or 9", "id, count or memory is impossible",
		},
		`[{"id":"GPU-1","count":10},7,{"id":"GPU-2"},{"id":"GPU-3","count":1,"devmem":-5}]`: {
			`"7" is no GPU`, `"{\"id\":\"GPU-2\"}" is no GPU: id, count or memory is impossible`, `GPU-3`,
		},
	} {
		got, err := NodeDevices(requests("nvidia=10"), nil, map[string]string{hamiRegister: annotation})
		require.Len(t, got, 1)
		assert.Equal(t, int64(1), got[0].Physical)
		require.Len(t, lines(err), len(messages))
		for i, m := range messages {
			assert.Contains(t, lines(err)[i], m)
		}
	}
	for _, annotation := range []string{"[", "junk", strings.Repeat(":", maxAnnotation+1)} {
		got, err := NodeDevices(requests("nvidia=10"), nil, map[string]string{hamiRegister: annotation})
		assert.Error(t, err)
		require.Len(t, got, 1)
		assert.Equal(t, int64(10), got[0].Physical, "as if it were not there")
	}
}

func FuzzNodeDevices(f *testing.F) {
	f.Add("GPU-1,10,15360,100,NVIDIA-Tesla T4,0,true:", "4", "8", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED")
	f.Add(`[{"id":"GPU-1","count":10,"devmem":15360,"health":true}]`, "", "", "")
	f.Add(`[{"id":"GPU-1","count":2147483647},{"id":"GPU-2","count":2147483647}]`, "-1", "99999999999999999999", "-MIG-")
	f.Fuzz(func(t *testing.T, register, replicas, memory, product string) {
		got, _ := NodeDevices(requests("nvidia=32 nvidia.com/mig-1g.5gb=7"), map[string]string{
			"nvidia.com/gpu.replicas": replicas, "nvidia.com/gpu.count": memory, "nvidia.com/gpu.memory": memory,
			"nvidia.com/gpu.product": product, "nvidia.com/mig.strategy": "single",
			"nvidia.com/mig-1g.5gb.replicas": replicas, "nvidia.com/mig-1g.5gb.memory": memory,
		}, map[string]string{hamiRegister: register})
		if len(got) != 2 {
			t.Fatalf("%d resources", len(got))
		}
		for _, n := range got {
			if n.Physical < 0 || n.Physical > n.Units || n.MemoryBytes < 0 || n.MemoryBytes > limit {
				t.Fatalf("out of range: %+v", n)
			}
		}
	})
}
