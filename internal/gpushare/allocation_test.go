package gpushare

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// The lines function splits an error's text into lines.
func lines(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

func TestKoordinatorAllocations(t *testing.T) {
	whole := func(id string, minor int) Allocation {
		return Allocation{Family: Koordinator, Slot: -1, UUID: id, Minor: minor, MemoryBytes: 16 << 30, MemoryRatio: 1, Core: 1}
	}
	for name, c := range map[string]struct {
		annotation string
		want       []Allocation
		errs       []string
	}{
		"the documented example": {
			`{"gpu":[{"minor":3,"resources":{"koordinator.sh/gpu-core":"50","koordinator.sh/gpu-memory":"23034Mi","koordinator.sh/gpu-memory-ratio":"50"},"id":"GPU-1"}]}`,
			[]Allocation{{Family: Koordinator, Slot: -1, UUID: "GPU-1", Minor: 3, MemoryBytes: 23034 << 20, MemoryRatio: 0.5, Core: 0.5}},
			nil,
		},
		"quantities as numbers": {
			`{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":100,"koordinator.sh/gpu-memory":17179869184,"koordinator.sh/gpu-memory-ratio":100},"id":"GPU-1"}]}`,
			[]Allocation{whole("GPU-1", 0)},
			nil,
		},
		"an older release without ids": {
			`{"gpu":[{"minor":1,"resources":{"koordinator.sh/gpu-core":"100","koordinator.sh/gpu-memory":"16Gi","koordinator.sh/gpu-memory-ratio":"100"}}]}`,
			[]Allocation{whole("", 1)},
			nil,
		},
		"an id without a minor": {
			`{"gpu":[{"id":"GPU-1"}]}`,
			[]Allocation{{Family: Koordinator, Slot: -1, UUID: "GPU-1", Minor: -1}},
			nil,
		},
		"two GPUs and other devices": {
			`{"gpu":[{"minor":0,"id":"GPU-1","resources":{}},{"minor":1,"id":"GPU-2"}],"rdma":[{"minor":"odd"}],"fpga":7}`,
			[]Allocation{
				{Family: Koordinator, Slot: -1, UUID: "GPU-1"},
				{Family: Koordinator, Slot: -1, UUID: "GPU-2", Minor: 1},
			},
			nil,
		},
		"the extension and unknown resources are ignored": {
			`{"gpu":[{"minor":0,"id":"GPU-1","resources":{"example.com/x":"what"},"extension":{"vfs":[{"minor":1,"busID":"0000:01:00.2"}]}}]}`,
			[]Allocation{{Family: Koordinator, Slot: -1, UUID: "GPU-1"}},
			nil,
		},
		"nothing allocated": {`{}`, nil, nil},
		"null":              {`null`, nil, nil},
		"an invalid entry does not affect valid ones": {
			`{"gpu":[{"minor":0,"id":"GPU-1","resources":{"koordinator.sh/gpu-memory":"lots"}},7,{"minor":1,"id":"GPU-2"},{},{"minor":-1},{"id":"a b"}]}`,
			[]Allocation{{Family: Koordinator, Slot: -1, UUID: "GPU-2", Minor: 1}},
			[]string{
				`scheduling.koordinator.sh/device-allocated: gpu[0]: koordinator.sh/gpu-memory: "lots" is not a quantity`,
				`scheduling.koordinator.sh/device-allocated: gpu[1]: "7" is not a device`,
				`scheduling.koordinator.sh/device-allocated: gpu[3]: neither id nor minor`,
				`scheduling.koordinator.sh/device-allocated: gpu[4]: neither id nor minor`,
				`scheduling.koordinator.sh/device-allocated: gpu[5]: id "a b" is not a device id`,
			},
		},
		"not JSON": {`gpu`, nil, []string{`scheduling.koordinator.sh/device-allocated: "gpu" is not a list of devices by type`}},
		"a list":   {`[]`, nil, []string{`scheduling.koordinator.sh/device-allocated: "[]" is not a list of devices by type`}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Allocations(map[string]string{koordAllocated: c.annotation})
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.errs, lines(err))
		})
	}
}

func TestQuantitiesInAnnotations(t *testing.T) {
	for text, want := range map[string]int64{
		`0`: 0, `5`: 5, `"5k"`: 5000, `5e3`: 5000, `"1m"`: 1, `"1.5Gi"`: 3 << 29, `"4Ti"`: 4 << 40, `+7`: 7, `1E3`: 1000, `"1E3"`: 1000,
	} {
		got, err := parseQuantity([]byte(text))
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for text, message := range map[string]string{
		``: "not a quantity", `""`: "not a quantity", `null`: "not a quantity", `true`: "not a quantity", `[]`: "not a quantity",
		`{}`: "not a quantity", `"`: "not a quantity", `"1 Gi"`: "not a quantity", `"1Gb"`: "not a quantity", `"."`: "not a quantity", `"1.2.3"`: "not a quantity",
		`NaN`: "not a quantity", `Inf`: "not a quantity", `0x10`: "not a quantity", `"1e-9999999"`: "not a quantity", `1e9999999`: "not a quantity",
		`-1`: "negative", `"-1Gi"`: "negative", `1e30`: "too large", `1e999`: "too large", `"1Pi"`: "too large",
		strings.Repeat("9", 1000): "not a quantity",
	} {
		_, err := parseQuantity([]byte(text))
		assert.ErrorContains(t, err, message, text)
	}
	for _, share := range []string{"gpu-core", "gpu-memory-ratio"} {
		_, err := Allocations(map[string]string{koordAllocated: `{"gpu":[{"id":"GPU-1","resources":{"koordinator.sh/` + share + `":101}}]}`})
		assert.ErrorContains(t, err, "101 is more than a device has")
	}
}

func TestHAMiAllocations(t *testing.T) {
	hami := func(slot int, uuid string, mib int64, core float64) Allocation {
		return Allocation{Family: HAMi, Slot: slot, UUID: uuid, Minor: -1, MemoryBytes: mib << 20, Core: core}
	}
	with := func(a Allocation, m MIGInstance) Allocation {
		a.MIG = &m
		return a
	}
	unmade := MIGInstance{GPUInstance: -1}
	made := MIGInstance{UUID: "MIG-1", GPUInstance: 2}
	for name, c := range map[string]struct {
		annotations map[string]string
		want        []Allocation
		errs        []string
	}{
		"one container, one device": {
			map[string]string{hamiAllocated: "GPU-1,NVIDIA,3000,30:;"},
			[]Allocation{hami(0, "GPU-1", 3000, 0.3)},
			nil,
		},
		"empty slots keep their index": {
			map[string]string{hamiAllocated: ";GPU-1,NVIDIA,3000,30:GPU-2,NVIDIA,3000,30:;;GPU-3,NVIDIA,100,0:;"},
			[]Allocation{hami(1, "GPU-1", 3000, 0.3), hami(1, "GPU-2", 3000, 0.3), hami(3, "GPU-3", 100, 0)},
			nil,
		},
		"without a result, the request is used": {
			map[string]string{hamiToAllocate: "GPU-1,NVIDIA,3000,30:;"},
			[]Allocation{hami(0, "GPU-1", 3000, 0.3)},
			nil,
		},
		"the result has precedence over the request": {
			map[string]string{hamiAllocated: "GPU-1,NVIDIA,3000,30:;", hamiToAllocate: ";"},
			[]Allocation{hami(0, "GPU-1", 3000, 0.3)},
			nil,
		},
		"additional fields are ignored": {
			map[string]string{hamiAllocated: "GPU-1,NVIDIA,3000,30,more:;"},
			[]Allocation{hami(0, "GPU-1", 3000, 0.3)},
			nil,
		},
		"empty": {map[string]string{hamiAllocated: ""}, nil, nil},
		"an empty slot may contain zeros": {
			map[string]string{hamiAllocated: ",,0,0:;GPU-1,NVIDIA,3000,30:;;,,0,0:;"},
			[]Allocation{hami(1, "GPU-1", 3000, 0.3)},
			nil,
		},
		"invalid entries do not affect valid ones": {
			map[string]string{hamiAllocated: "junk:GPU-1,NVIDIA,3000,30:;GPU-2,NVIDIA,5k,30:,NVIDIA,1,1:GPU-3,NVIDIA,-1,1:GPU-4,NVIDIA,1,101:GPU-5,NVIDIA,99999999999,1:;"},
			[]Allocation{hami(0, "GPU-1", 3000, 0.3)},
			[]string{
				`hami.io/vgpu-devices-allocated: slot 0: "junk" is not UUID,TYPE,MiB,cores`,
				`hami.io/vgpu-devices-allocated: slot 1: memory "5k" of "GPU-2" is not a number of MiB`,
				`hami.io/vgpu-devices-allocated: slot 1: ",NVIDIA,1,1" does not start with a device's UUID`,
				`hami.io/vgpu-devices-allocated: slot 1: memory "-1" of "GPU-3" is not a number of MiB`,
				`hami.io/vgpu-devices-allocated: slot 1: cores "101" of "GPU-4" are not a percentage`,
				`hami.io/vgpu-devices-allocated: slot 1: memory "99999999999" of "GPU-5" is not a number of MiB`,
			},
		},
		"older MIG format: the template's slot follows the UUID": {
			map[string]string{hamiAllocated: "GPU-1[0-1],NVIDIA,10240,0:;"},
			[]Allocation{with(hami(0, "GPU-1", 10240, 0), MIGInstance{GPUInstance: -1})},
			nil,
		},
		"a MIG device with its own UUID": {
			map[string]string{hamiAllocated: "MIG-1,NVIDIA,10240,0:;"},
			[]Allocation{with(hami(0, "", 10240, 0), MIGInstance{UUID: "MIG-1", GPUInstance: -1})},
			nil,
		},
		"MIG instances are matched by container and device": {
			map[string]string{
				hamiAllocated: "GPU-1,NVIDIA,10240,0:GPU-1,NVIDIA,40960,0:;",
				hamiMIG: `[{"containerIndex":0,"deviceIndex":0,"gpuUUID":"GPU-1","profile":"1g.10gb","placement":{"start":0,"size":1}},
					{"containerIndex":0,"deviceIndex":1,"gpuUUID":"GPU-1","profile":"3g.40gb","placement":{"start":4,"size":4},"migUUID":"MIG-1","gpuInstanceID":2,"computeInstanceID":0}]`,
			},
			[]Allocation{with(hami(0, "GPU-1", 10240, 0), unmade), with(hami(0, "GPU-1", 40960, 0), made)},
			nil,
		},
		"the placement with Go's field names": {
			map[string]string{hamiMIG: `[{"containerIndex":0,"deviceIndex":0,"gpuUUID":"GPU-1","profile":"1g.10gb","placement":{"Start":0,"Size":1}}]`},
			[]Allocation{with(hami(0, "GPU-1", 0, 0), unmade)},
			nil,
		},
		"an invalid device does not change the index of the next one": {
			map[string]string{
				hamiAllocated: "GPU-1,NVIDIA,what,0:GPU-2,NVIDIA,10240,0:;",
				hamiMIG:       `[{"containerIndex":0,"deviceIndex":1,"gpuUUID":"GPU-2","profile":"1g.10gb","placement":{"start":0,"size":1}}]`,
			},
			[]Allocation{with(hami(0, "GPU-2", 10240, 0), unmade)},
			[]string{`hami.io/vgpu-devices-allocated: slot 0: memory "what" of "GPU-1" is not a number of MiB`},
		},
		"invalid instances do not affect valid ones": {
			map[string]string{
				hamiAllocated: "GPU-1,NVIDIA,10240,0:;",
				hamiMIG: `[7,{"containerIndex":0,"deviceIndex":0},
					{"containerIndex":0,"deviceIndex":0,"gpuUUID":"GPU-9","profile":"1g.10gb","placement":{"size":1}},
					{"containerIndex":0,"deviceIndex":0,"gpuUUID":"GPU-1","profile":"1g.10gb","placement":{"size":1},"migUUID":"MIG-1"},
					{"containerIndex":-1,"deviceIndex":0},
					{"containerIndex":0,"deviceIndex":0,"gpuUUID":"GPU-1","profile":"1g.10gb","placement":{"start":0,"size":1}},
					{"containerIndex":0,"deviceIndex":0,"gpuUUID":"GPU-1","profile":"1g.10gb","placement":{"start":1,"size":1}}]`,
			},
			[]Allocation{with(hami(0, "GPU-1", 10240, 0), unmade)},
			[]string{
				`hami.io/vgpu-mig-allocations: [0]: "7" is not a MIG allocation`,
				`hami.io/vgpu-mig-allocations: [1]: "{\"containerIndex\":0,\"deviceIndex\":0}" is incomplete`,
				`hami.io/vgpu-mig-allocations: [2]: slot 0, device 0 is "GPU-1" in hami.io/vgpu-devices-allocated`,
				`hami.io/vgpu-mig-allocations: [3]: "{\"containerIndex\":0,\"deviceIndex\":0,\"gpuUUID\":\"G…" has only some of its ids`,
				`hami.io/vgpu-mig-allocations: [4]: "{\"containerIndex\":-1,\"deviceIndex\":0}" is not a MIG allocation`,
				`hami.io/vgpu-mig-allocations: [6]: slot 0, device 0 is listed twice`,
			},
		},
		"instances that are not a list": {
			map[string]string{hamiMIG: `{}`}, nil, []string{`hami.io/vgpu-mig-allocations: "{}" is not a list`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Allocations(c.annotations)
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.errs, lines(err))
		})
	}
}

func TestKAIAllocations(t *testing.T) {
	for name, c := range map[string]struct {
		annotations map[string]string
		want        []Allocation
		err         string
	}{
		"a fraction": {
			map[string]string{"gpu-fraction": "0.5"},
			[]Allocation{{Family: KAI, Slot: -1, Minor: -1, MemoryRatio: 0.5, Core: 0.5}},
			"",
		},
		"the whole": {
			map[string]string{"gpu-fraction": "1.0"},
			[]Allocation{{Family: KAI, Slot: -1, Minor: -1, MemoryRatio: 1, Core: 1}},
			"",
		},
		"memory in MiB for a named container": {
			map[string]string{"gpu-memory": "2000", "gpu-fraction-container-name": "worker"},
			[]Allocation{{Family: KAI, Container: "worker", Slot: -1, Minor: -1, MemoryBytes: 2000 << 20}},
			"",
		},
		"two devices": {
			map[string]string{"gpu-fraction": ".25", "gpu-fraction-num-devices": "2"},
			[]Allocation{
				{Family: KAI, Slot: -1, Minor: -1, MemoryRatio: 0.25, Core: 0.25},
				{Family: KAI, Slot: -1, Minor: -1, MemoryRatio: 0.25, Core: 0.25},
			},
			"",
		},
		"only a container's name":   {map[string]string{"gpu-fraction-container-name": "worker"}, nil, ""},
		"both":                      {map[string]string{"gpu-fraction": "0.5", "gpu-memory": "2000"}, nil, "gpu-fraction and gpu-memory exclude each other"},
		"fraction zero":             {map[string]string{"gpu-fraction": "0.0"}, nil, `gpu-fraction: "0.0" is not a number above 0 and up to 1`},
		"fraction below zero":       {map[string]string{"gpu-fraction": "-0.5"}, nil, `gpu-fraction: "-0.5"`},
		"fraction above 1":          {map[string]string{"gpu-fraction": "1.5"}, nil, `gpu-fraction: "1.5"`},
		"fraction NaN":              {map[string]string{"gpu-fraction": "NaN"}, nil, `gpu-fraction: "NaN"`},
		"fraction in hexadecimal":   {map[string]string{"gpu-fraction": "0x1p-1"}, nil, `gpu-fraction: "0x1p-1"`},
		"fraction empty":            {map[string]string{"gpu-fraction": ""}, nil, `gpu-fraction: ""`},
		"memory as a quantity":      {map[string]string{"gpu-memory": "5Gi"}, nil, `gpu-memory: "5Gi" is not a number of MiB`},
		"memory zero":               {map[string]string{"gpu-memory": "0"}, nil, `gpu-memory: "0"`},
		"memory too large":          {map[string]string{"gpu-memory": "4294967296"}, nil, `gpu-memory: "4294967296"`},
		"an invalid container name": {map[string]string{"gpu-fraction": "0.5", "gpu-fraction-container-name": "a b"}, nil, `gpu-fraction-container-name: "a b"`},
		"no devices":                {map[string]string{"gpu-fraction": "0.5", "gpu-fraction-num-devices": "0"}, nil, `gpu-fraction-num-devices: "0" is not a number of devices from 1 to 64`},
		"too many devices":          {map[string]string{"gpu-fraction": "0.5", "gpu-fraction-num-devices": "65"}, nil, `gpu-fraction-num-devices: "65"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Allocations(c.annotations)
			assert.Equal(t, c.want, got)
			if c.err == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, c.err)
		})
	}
}

func TestAPodWithoutAnnotationsHasNoAllocations(t *testing.T) {
	got, err := Allocations(nil)
	assert.NoError(t, err)
	assert.Empty(t, got)
	got, err = Allocations(map[string]string{"example.com/note": "{"})
	assert.NoError(t, err)
	assert.Empty(t, got)
}

func TestAnnotationsBeyond256KiBAreNotRead(t *testing.T) {
	device := "GPU-1,NVIDIA,1,1:"
	fits := strings.Repeat(device, maxAnnotation/len(device))
	got, err := Allocations(map[string]string{hamiAllocated: fits})
	require.NoError(t, err)
	assert.Len(t, got, maxAnnotation/len(device))

	for _, key := range []string{hamiAllocated, hamiToAllocate, hamiMIG, koordAllocated} {
		got, err = Allocations(map[string]string{key: strings.Repeat(" ", maxAnnotation+1)})
		assert.Empty(t, got)
		assert.EqualError(t, err, fmt.Sprintf("%s: %d bytes, at most %d are read", key, maxAnnotation+1, maxAnnotation))
	}
}

func TestAnErrorListsTheFirstEntriesAndTheNumberOfOthers(t *testing.T) {
	_, err := Allocations(map[string]string{hamiAllocated: strings.Repeat(strings.Repeat("x", 200)+":", 100)})
	assert.Len(t, lines(err), maxProblems+1)
	assert.ErrorContains(t, err, "and 84 more")
	assert.Less(t, len(err.Error()), 4096)
}

// The check method returns an error for an allocation that no annotation can produce.
func (a Allocation) check() error {
	switch {
	case a.Family != Koordinator && a.Family != HAMi && a.Family != KAI:
		return fmt.Errorf("family %q", a.Family)
	case a.MemoryBytes < 0 || a.MemoryBytes > limit || a.MemoryRatio < 0 || a.MemoryRatio > 1 || a.Core < 0 || a.Core > 1:
		return errors.New("share out of range")
	case a.Minor < -1 || a.Slot < -1:
		return errors.New("index out of range")
	case strings.ContainsAny(a.UUID+a.Container, " \n\"',;:[]{}"):
		return errors.New("separators in names")
	case a.Family == Koordinator && a.UUID == "" && a.Minor < 0, a.Family == HAMi && a.UUID == "" && (a.MIG == nil || a.MIG.UUID == ""):
		return errors.New("no device")
	}
	return nil
}

func fuzz(f *testing.F, key string, seeds ...string) {
	f.Helper()
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		annotations := map[string]string{key: value}
		got, err := Allocations(annotations)
		for _, a := range got {
			if err := a.check(); err != nil {
				t.Fatalf("%v: %+v", err, a)
			}
		}
		if err != nil && len(err.Error()) > 16<<10 {
			t.Fatalf("an error of %d bytes", len(err.Error()))
		}
		pod := podOf(annotations, container("b", nil))
		pod.Spec.InitContainers = []corev1.Container{container("a", nil)}
		if budgets, _ := Budgets(pod, BudgetOptions{Annotation: key}); len(budgets) > len(got)+1 {
			t.Fatalf("%d budgets of %d allocations", len(budgets), len(got))
		}
	})
}

func FuzzKoordinatorAllocations(f *testing.F) {
	fuzz(f, koordAllocated,
		`{"gpu":[{"minor":3,"resources":{"koordinator.sh/gpu-core":"50","koordinator.sh/gpu-memory":"23034Mi","koordinator.sh/gpu-memory-ratio":50},"id":"GPU-1"}]}`,
		`{"gpu":[{"minor":-1}],"rdma":[]}`, `{"gpu":[{"id":"GPU-1","resources":{"koordinator.sh/gpu-memory":1e30}}]}`, `null`)
}

func FuzzHAMiAllocations(f *testing.F) {
	fuzz(f, hamiAllocated, "GPU-1,NVIDIA,3000,30:GPU-2,NVIDIA,3000,30:;;GPU-3[0-1],NVIDIA,100,0:;", "MIG-1,NVIDIA,5k,1:", ",,,:;")
}

func FuzzHAMiMIGAllocations(f *testing.F) {
	fuzz(f, hamiMIG,
		`[{"containerIndex":0,"deviceIndex":1,"gpuUUID":"GPU-1","profile":"3g.40gb","placement":{"Start":4,"Size":4},"migUUID":"MIG-1","gpuInstanceID":2,"computeInstanceID":0}]`,
		`[{"containerIndex":0,"deviceIndex":0,"gpuUUID":"GPU-1","profile":"1g.10gb","placement":{"size":1}},7]`, `[]`)
}

func FuzzKAIAllocations(f *testing.F) {
	f.Add("0.5", "", "worker", "1")
	f.Add("", "2000", "", "")
	f.Add("NaN", "5Gi", "a b", "-1")
	f.Fuzz(func(t *testing.T, fraction, memory, container, devices string) {
		annotations := map[string]string{}
		for key, value := range map[string]string{kaiFraction: fraction, kaiMemory: memory, kaiContainer: container, kaiDevices: devices} {
			if value != "" {
				annotations[key] = value
			}
		}
		got, err := Allocations(annotations)
		for _, a := range got {
			if err := a.check(); err != nil {
				t.Fatalf("%v: %+v", err, a)
			}
		}
		if err != nil && len(got) > 0 {
			t.Fatalf("KAI's annotations are one declaration, got %+v and %v", got, err)
		}
	})
}
