package dcgmsim

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestGolden compares complete bodies with the files in testdata. After an intended change to the
// output, run the test with -update.
func TestGolden(t *testing.T) {
	for name, tt := range map[string]struct {
		at     time.Duration
		change func(*Config)
	}{
		"exporter_2_prints_all_help_lines_before_the_samples_and_exposes_blank_values": {50 * time.Second, func(c *Config) {
			c.Style, c.Fields, c.Scenario, c.GPUs = Style2, FieldsDefault, ScenarioXIDBurst, 2
		}},
		"exporter_3_has_no_pci_bus_id_and_labels_violations_as_microseconds": {50 * time.Second, func(c *Config) {
			c.Style, c.Scenario, c.GPUs = Style3, ScenarioMixed, 1
		}},
		"exporter_3_prints_empty_pod_labels_for_a_free_device": {50 * time.Second, func(c *Config) {
			c.Style, c.Fields, c.Scenario, c.GPUs = Style3, FieldsDefault, ScenarioIdle, 1
		}},
		"exporter_4_5_prints_default_counters": {50 * time.Second, func(c *Config) {
			c.Style, c.Fields, c.Scenario, c.GPUs = Style45, FieldsDefault, ScenarioXIDBurst, 2
		}},
		"exporter_4_5_repeats_help_for_nvlink_rows": {50 * time.Second, func(c *Config) {
			c.Style, c.Scenario, c.GPUs, c.Links = Style45, ScenarioPowerCapped, 1, 2
		}},
		"exporter_4_5_with_time_slicing_adds_rows_per_process": {50 * time.Second, func(c *Config) {
			c.Style, c.Fields, c.Scenario, c.GPUs = Style45, FieldsDefault, ScenarioTimeSliced, 1
		}},
		"exporter_4_8_3_sorts_families_and_labels": {50 * time.Second, func(c *Config) {
			c.Scenario, c.GPUs, c.Links, c.PodUID = ScenarioXIDBurst, 1, 2, true
		}},
		"exporter_4_8_3_labels_mig_rows_with_claims": {50 * time.Second, func(c *Config) {
			c.Fields, c.Scenario, c.GPUs = FieldsDefault, ScenarioDRA, 3
		}},
		"exporter_4_9_prints_base_units": {50 * time.Second, func(c *Config) {
			c.Style, c.Scenario, c.GPUs = Style49, ScenarioThermal, 1
		}},
		"a_node_with_amd_gpus_exposes_residencies_and_their_clock": {50 * time.Second, func(c *Config) {
			c.Scenario, c.Nodes, c.GPUs = ScenarioVendors, 2, 4
		}},
		"a_node_with_tpus_exposes_each_value_for_the_pod_and_for_the_chip": {50 * time.Second, func(c *Config) {
			c.Scenario, c.Nodes, c.GPUs = ScenarioVendors, 3, 2
		}},
		"a_node_with_neuron_devices_exposes_cores_by_process": {50 * time.Second, func(c *Config) {
			c.Scenario, c.Nodes, c.GPUs = ScenarioVendors, 4, 2
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSimulation(t, tt.change)
			got := s.AppendBody(nil, len(s.nodes)-1, tt.at)
			parse(t, got)
			file := filepath.Join("testdata", name+".prom")
			if *update {
				require.NoError(t, os.WriteFile(file, got, 0o644))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			assert.Equal(t, string(want), string(got))
		})
	}
}

func TestPrometheusReadsEveryScenarioInEveryStyle(t *testing.T) {
	for _, config := range exhibits() {
		for _, fields := range []FieldSet{FieldsDefault, FieldsAll} {
			config.Fields = fields
			s, err := New(config)
			require.NoError(t, err)
			e := parse(t, s.AppendBody(nil, 0, 47*time.Second))
			assert.Greater(t, len(e.series), 20*config.GPUs, "%s %s %s", config.Style, config.Scenario, fields)
		}
	}
}

func TestFamiliesAreSortedByNameSince483AndByFieldIDBefore(t *testing.T) {
	families := func(style Style) []string {
		s := newSimulation(t, func(c *Config) { c.Style, c.GPUs = style, 1 })
		return parse(t, s.AppendBody(nil, 0, 47*time.Second)).families
	}
	for _, style := range []Style{Style483, Style49} {
		assert.True(t, slices.IsSorted(families(style)), style)
	}
	for _, style := range []Style{Style3, Style45} {
		got := families(style)
		assert.Equal(t, "DCGM_FI_DEV_SM_CLOCK", got[0])
		assert.False(t, slices.IsSorted(got))
	}
}

func TestEachFamilyAppearsOnceSince483(t *testing.T) {
	s := newSimulation(t, func(c *Config) { c.Links = 4 })
	got := parse(t, s.AppendBody(nil, 0, 47*time.Second)).families
	assert.Equal(t, got, slices.Compact(slices.Clone(got)))
	rows := parse(t, s.AppendBody(nil, 0, 0)).family("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL")
	assert.Greater(t, len(rows), 8*4, "the links' rows stand beside the devices'")
}

func TestExporter45RepeatsHelpAndTypeForTheLinksRows(t *testing.T) {
	s := newSimulation(t, func(c *Config) {
		c.Style, c.Fields, c.Scenario, c.GPUs, c.Links = Style45, FieldsDefault, ScenarioHealthy, 2, 3
	})
	body := string(s.AppendBody(nil, 0, 0))
	assert.Equal(t, 2, strings.Count(body, "# HELP DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL "))
	_, group, _ := strings.Cut(body, "# HELP DCGM_FI_PROF_PCIE_RX_BYTES")
	assert.Contains(t, group, `DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{nvlink="1",gpu="0",gpu_uuid="GPU-`)
	assert.Contains(t, group, `model_name="NVIDIA H100 80GB HBM3",hostname="gpu-node-0"`, "spelt otherwise than in the devices' rows")
}

func TestBaseUnitsAreTheSameQuantities(t *testing.T) {
	bodies := map[Style]exposition{}
	for _, style := range []Style{Style483, Style49} {
		s := newSimulation(t, func(c *Config) { c.Style, c.Scenario, c.GPUs = style, ScenarioPowerCapped, 1 })
		bodies[style] = parse(t, s.AppendBody(nil, 0, 30*time.Second))
	}
	for _, tt := range []struct {
		old, base string
		factor    float64
		tolerance float64
	}{
		{"DEV_SM_CLOCK", "DEV_SM_CLOCK_HERTZ", 1e6, 0},
		{"DEV_MEM_CLOCK", "DEV_MEMORY_CLOCK_HERTZ", 1e6, 0},
		{"DEV_TOTAL_ENERGY_CONSUMPTION", "DEV_GPU_ENERGY_JOULES_TOTAL", 1e-3, 1},
		{"DEV_GPU_UTIL", "DEV_GPU_UTIL_RATIO", 1e-2, 1e-9},
		{"DEV_FB_USED", "DEV_FB_USED_BYTES", 1 << 20, 0},
		{"DEV_FB_FREE", "DEV_FB_FREE_BYTES", 1 << 20, 0},
		{"DEV_FB_RESERVED", "DEV_FB_RESERVED_BYTES", 1 << 20, 0},
		{"DEV_FB_TOTAL", "DEV_FB_CAPACITY_BYTES", 1 << 20, 0},
		{"DEV_NVLINK_BANDWIDTH_TOTAL", "DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND", 1e6, 0},
		{"DEV_POWER_USAGE", "DEV_BOARD_POWER_WATTS", 1, 0},
		{"PROF_GR_ENGINE_ACTIVE", "PROF_GR_ENGINE_UTIL_RATIO", 1, 0},
		{"PROF_PCIE_TX_BYTES", "PROF_PCIE_TX_BYTES", 1, 0},
	} {
		old := bodies[Style483].only(t, "DCGM_FI_"+tt.old).number
		base := bodies[Style49].only(t, "DCGM_FI_"+tt.base).number
		assert.InDelta(t, old*tt.factor, base, tt.tolerance, tt.base)
	}
}

func TestDefaultCountersAreTheShippedLists(t *testing.T) {
	// The expected values are the numbers of lines in default-counters.csv, excluding lines of type
	// label.
	for style, want := range map[Style]int{Style2: 21, Style3: 21, Style45: 25, Style483: 25, Style49: 26} {
		assert.Len(t, fieldsOf(style, FieldsDefault), want, style)
	}
}

func TestLabelValuesAreEscapedSince483Only(t *testing.T) {
	set := labelSet{identity: []label{{"gpu", "0"}}, attributes: []label{{"hpc_job", "a \"b\"\\c"}}}
	assert.Equal(t, `{gpu="0",hpc_job="a "b"\c"} `, set.text(Style45))
	assert.Equal(t, `{gpu="0",hpc_job="a \"b\"\\c"} `, set.text(Style483))
}

func TestNumbersArePrintedAsTheStyleDoes(t *testing.T) {
	for _, tt := range []struct {
		number      number
		since483    string
		beforeStyle string
	}{
		{integer(128996013), "1.28996013e+08", "128996013"},
		{integer(0), "0", "0"},
		{double(68.347), "68.347", "68.347000"},
		{double(0), "0", "0.000000"},
		{double(.0000004), "0", "0.000000"},
	} {
		for style, want := range map[Style]string{Style45: tt.beforeStyle, Style483: tt.since483} {
			r := renderer{Simulation: &Simulation{config: Config{Style: style}}}
			r.value(tt.number)
			assert.Equal(t, want+"\n", string(r.out), style)
		}
	}
}

func BenchmarkAppendBody(b *testing.B) {
	for _, style := range Styles()[1:] {
		b.Run(fmt.Sprintf("style=%s/gpus=8/mig=7", style), func(b *testing.B) {
			s := newSimulation(b, func(c *Config) {
				c.Style, c.Scenario, c.MIG, c.Fields = style, ScenarioMIG, 7, FieldsAll
			})
			body := s.AppendBody(nil, 0, 0)
			samples := len(lines(body))
			b.ReportAllocs()
			var at time.Duration
			for b.Loop() {
				at += time.Second
				body = s.AppendBody(body[:0], 0, at)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(samples), "ns/sample")
			b.ReportMetric(float64(samples), "samples")
		})
	}
}
