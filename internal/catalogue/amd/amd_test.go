package amd

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

func row(labels map[string]string) *catalogue.Row {
	r := catalogue.NewRow(Exporter)
	for k, v := range labels {
		r.Set(k, v)
	}
	return r
}

func TestDevicesAreIdentifiedByUUIDOrSerialNumberOrIndex(t *testing.T) {
	for name, tt := range map[string]struct {
		labels              map[string]string
		id, instance, board string
	}{
		"a board with a UUID":                                 {map[string]string{"gpu_uuid": "U", "serial_number": "S", "gpu_partition_id": "0"}, "U", "", "U"},
		"a board with a serial number only":                   {map[string]string{"gpu_uuid": "00000000-0000-0000-0000-000000000000", "serial_number": "S", "gpu_partition_id": "4294967295"}, "S", "", "S"},
		"a board with neither":                                {map[string]string{"serial_number": "N/A", "hostname": "h", "gpu_id": "3"}, "h/gpu3", "", "h/gpu3"},
		"a partition with a UUID":                             {map[string]string{"gpu_uuid": "U", "serial_number": "S", "gpu_compute_partition_type": "cpx", "gpu_partition_id": "5"}, "U", "U", "S"},
		"a partition with serial number and partition number": {map[string]string{"serial_number": "S", "gpu_compute_partition_type": "DPX", "gpu_partition_id": "1"}, "S/p1", "S/p1", "S"},
		"a partition of an unknown board":                     {map[string]string{"gpu_compute_partition_type": "cpx", "gpu_partition_id": "1", "hostname": "h", "gpu_id": "9"}, "h/gpu9", "", "h/gpu9"},
		"a partition without a partition number":              {map[string]string{"serial_number": "S", "gpu_compute_partition_type": "cpx", "hostname": "h", "gpu_id": "9"}, "h/gpu9", "h/gpu9", "S"},
		"a board in mode spx, which has one partition":        {map[string]string{"gpu_uuid": "U", "serial_number": "S", "gpu_compute_partition_type": "spx"}, "U", "", "U"},
	} {
		t.Run(name, func(t *testing.T) {
			is, refusal := Exporter.Identify(row(tt.labels))
			assert.Equal(t, catalogue.Accepted, refusal)
			assert.Equal(t, tt.board, is.Board)
			assert.Equal(t, tt.instance, is.Instance)
			if is.Instance != "" {
				assert.Equal(t, tt.id, Exporter.InstanceID(is.Board, is.Instance))
			}
		})
	}
	_, refusal := Exporter.Identify(row(map[string]string{"gpu_id": "0", "card_model": "X"}))
	assert.Equal(t, catalogue.NoDevice, refusal, "indexes are only unique on one node")
}

func TestAPartitionReportsTheNumberOfPartitions(t *testing.T) {
	for _, tt := range []struct {
		way, model, series string
		of                 int
	}{
		{"dpx", "", "", 2},
		{"TPX", "", "", 3},
		{"qpx", "AMD Instinct MI300X", "", 4},
		{"cpx", "102-G30211-0C", "", 8},
		{"cpx", "xxxx", "AMD Instinct MI300X OAM", 8},
		{"cpx", "AMD Instinct MI300A", "", 6},
		{"cpx", "", "Instinct mi355x", 8},
		{"cpx", "a model to come", "", 0},
	} {
		is, _ := Exporter.Identify(row(map[string]string{
			"serial_number": "S", "gpu_partition_id": "0", "gpu_compute_partition_type": tt.way, "card_model": tt.model, "card_series": tt.series,
		}))
		assert.Equal(t, tt.of, is.Of, tt)
	}
}

func TestRowsAreClaimedByLabels(t *testing.T) {
	for name, tt := range map[string]struct {
		labels map[string]string
		claims bool
	}{
		"the oldest release":                  {map[string]string{"gpu_id": "0", "card_model": "102-G30211-0C", "card_series": "AMD Instinct MI300X OAM", "card_vendor": "AMD"}, true},
		"a Radeon without a model":            {map[string]string{"gpu_id": "0", "card_model": "", "gpu_compute_partition_type": "none", "gpu_partition_id": "NA"}, true},
		"the vendor's long name":              {map[string]string{"gpu_id": "0", "card_vendor": "Advanced Micro Devices, Inc. [AMD/ATI]"}, true},
		"another vendor":                      {map[string]string{"gpu_id": "0", "card_model": "X", "card_vendor": "NVIDIA"}, false},
		"only an index and a host":            {map[string]string{"gpu_id": "0", "hostname": "h", "serial_number": "1"}, false},
		"AMD's retired exporter":              {map[string]string{"gpu_power": "0", "productname": "X"}, false},
		"a device without an index":           {map[string]string{"card_model": "X", "gpu_partition_id": "0"}, false},
		"TPUs, which also have a model label": {map[string]string{"make": "cloud-tpu", "model": "tpu-v5p-slice", "accelerator_id": "1-0"}, false},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tt.claims, Exporter.Claims(row(tt.labels))) })
	}
}

func TestEveryFieldHasASignal(t *testing.T) {
	used := map[catalogue.ID]bool{}
	for _, s := range Exporter.AllSignals() {
		for _, set := range s.Sets {
			for _, id := range set {
				used[id] = true
			}
		}
	}
	for _, f := range Exporter.Fields() {
		assert.True(t, used[f.ID], f.Name)
	}
}

func TestThePrefixOfTheExampleIsIgnored(t *testing.T) {
	for _, name := range []string{"gpu_used_vram", "pcie_replay_count", "gpu_ecc_deferred_sdma"} {
		plain, ok := Exporter.Lookup(name)
		assert.True(t, ok)
		prefixed, ok := Exporter.Lookup("amd_" + name)
		assert.True(t, ok)
		assert.Equal(t, plain, prefixed)
	}
	assert.True(t, Exporter.OwnsName("amd_gpu_vcn_activity"))
}

func TestAnyOtherPrefixIsRemovedIfALabelIdentifiesTheExporter(t *testing.T) {
	_, ok := Exporter.Lookup("site_gpu_used_vram")
	assert.False(t, ok, "the name alone does not identify the exporter")
	assert.False(t, Exporter.OwnsName("site_gpu_used_vram"))
	for name, field := range map[string]string{
		"site_gpu_used_vram": "gpu_used_vram", "a_b_gpu_used_vram": "gpu_used_vram", "x_pcie_replay_count": "pcie_replay_count",
		"sitegpu_used_vram": "", "gpu_used_vram_x": "", "site_gpu_vcn_activity": "", "_": "", "": "",
	} {
		spelling, ok := Exporter.Prefixed(name)
		assert.Equal(t, field != "", ok, name)
		if ok {
			assert.Equal(t, field, spelling.Field.Name)
			assert.True(t, spelling.Prefixed)
			certain := row(map[string]string{"gpu_id": "0", "card_model": "X", "gpu_compute_partition_type": "none"})
			assert.True(t, Exporter.Takes(spelling, certain))
			assert.False(t, Exporter.Takes(spelling, row(map[string]string{"gpu_id": "0", "card_model": "X"})), "other exporters have such labels too")
			assert.False(t, Exporter.Takes(spelling, row(map[string]string{"gpu_compute_partition_type": "spx"})), "no index")
		}
	}
}

func TestAMDIsRecognizedByNameAndPCIVendorID(t *testing.T) {
	for vendor, want := range map[string]bool{
		"": true, "AMD": true, "Advanced Micro Devices Inc. [AMD/ATI]": true, "0x1002": true, "0X1002": true, "1002": true, " 0x1002 ": true,
		"0x10de": false, "NVIDIA": false, "0x10021": false, "Intel": false,
	} {
		r := catalogue.NewRow(Exporter)
		r.Set("gpu_id", "0")
		r.Set("card_model", "102-G30211-00")
		r.Set("card_vendor", vendor)
		assert.Equal(t, want, claims(r), "%q", vendor)
	}
}

func TestALabelOfAPodDoesNotReplaceTheHolder(t *testing.T) {
	r := row(map[string]string{
		"gpu_id": "0", "card_model": "m", "pod": "p", "namespace": "ns", "container": "c",
		"exported_pod": "fake", "exported_namespace": "fake", "pod_name": "fake", "POD": "fake",
	})
	h, held := r.Named()
	assert.True(t, held)
	assert.Equal(t, catalogue.Holder{Namespace: "ns", Pod: "p", Container: "c"}, h)
}

func TestDevicesThatShareAUUIDAreIdentifiedBySerialNumberAndPartition(t *testing.T) {
	reading := func(labels map[string]string) *catalogue.Reading {
		is, refusal := identify(row(labels))
		assert.Equal(t, catalogue.Accepted, refusal)
		return &catalogue.Reading{Identity: &is}
	}
	first := reading(map[string]string{"gpu_id": "0", "gpu_uuid": "U", "serial_number": "S", "gpu_partition_id": "0"})
	second := reading(map[string]string{"gpu_id": "1", "gpu_uuid": "U", "serial_number": "S", "gpu_partition_id": "1"})
	unknown := reading(map[string]string{"gpu_id": "2", "gpu_uuid": "V"})
	same := reading(map[string]string{"gpu_id": "3", "gpu_uuid": "V"})
	other := reading(map[string]string{"gpu_id": "4", "gpu_uuid": "W", "serial_number": "T", "gpu_partition_id": "0"})
	resolve([]*catalogue.Reading{first, second, unknown, same, other})
	assert.Equal(t, "S/p0", first.Identity.Instance)
	assert.Equal(t, "S/p1", second.Identity.Instance)
	assert.True(t, unknown.Unresolved, "no label distinguishes the devices")
	assert.True(t, same.Unresolved)
	assert.Equal(t, device{"W", ""}, deviceOf(other), "no other device has this UUID")
	assert.False(t, first.Unresolved || second.Unresolved || other.Unresolved)
}

func TestAScrapeThatIsNotNewerAddsNoTimeInAState(t *testing.T) {
	r := &residency{}
	var total float64
	for _, step := range []struct {
		at  int64
		ok  bool
		why string
	}{{10e9, true, "the first scrape"}, {10e9, false, "the same scrape again"}, {9e9, false, "an older scrape"}, {20e9, true, "a newer scrape"}} {
		start, v, ok, verdict := r.Add(step.at, []float64{float64(step.at) / 4e9, float64(step.at) / 2e9})
		assert.Equal(t, step.ok, ok, step.why)
		assert.Equal(t, catalogue.Valid, verdict, step.why)
		if ok {
			assert.EqualValues(t, 10e9, start, step.why)
			total = v
		}
	}
	assert.InDelta(t, 5, total, 0)
}

func TestTheTimeInAStateContinuesFromANewBaseline(t *testing.T) {
	r := &residency{}
	r.Add(10e9, []float64{0, 0})
	r.Add(20e9, []float64{5, 10})
	r.Rebase()
	_, _, ok, _ := r.Add(30e9, []float64{900, 1000})
	assert.False(t, ok, "the counters may be those of another source")
	_, v, ok, _ := r.Add(40e9, []float64{901, 1010})
	assert.True(t, ok)
	assert.InDelta(t, 6, v, 1e-9)
	_, _, ok, verdict := r.Add(50e9, []float64{950, 1020})
	assert.False(t, ok)
	assert.Equal(t, catalogue.Absurd, verdict, "more ticks in the state than on the clock")
}
