package synth

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// acme is the table of a fictional exporter. The table uses features that NVIDIA's table does not
// use.
var acme = catalogue.New(catalogue.Exporter{
	Vendor: "ACME",
	Groups: []catalogue.Group{{Title: "All", Fields: []catalogue.Field{
		{Name: "acme_activity", Unit: catalogue.Percent, Provides: []catalogue.Signal{{Metric: signal.HwGPUUtilization, Part: signal.TaskGeneral}}},
		{Name: "acme_package_power", Unit: catalogue.Watt, Scope: catalogue.Board, ZeroIsNone: true, Provides: []catalogue.Signal{
			{Metric: signal.HwPower, From: [][]string{{"acme_package_power"}, {"acme_average_power"}}},
		}},
		{Name: "acme_average_power", Unit: catalogue.Watt, Scope: catalogue.Board, ZeroIsNone: true},
		{Name: "acme_link_bytes", Unit: catalogue.ByteCount, Kind: catalogue.Counter, Provides: []catalogue.Signal{
			{Metric: signal.GPUNVLinkThroughput, Part: signal.DirectionTransmit},
		}},
	}}},
	Labels: map[catalogue.Role][]string{catalogue.RoleUUID: {"gpu_uuid"}, catalogue.RoleSerial: {"serial"}, catalogue.RoleInstanceID: {"partition"}, catalogue.RoleModel: {"card"}},
	BlankText: func(_ catalogue.Role, s string) bool {
		return slices.Contains([]string{"", "N/A", "4294967295", "00000000"}, s)
	},
	OwnsName: func(string) bool { return false },
	Identify: func(r *catalogue.Row) (catalogue.Identity, catalogue.Refusal) {
		board := cmp.Or(r.Get(catalogue.RoleUUID), r.Get(catalogue.RoleSerial))
		if board == "" {
			return catalogue.Identity{}, catalogue.NoDevice
		}
		return catalogue.Identity{Board: board, Instance: r.Get(catalogue.RoleInstanceID)}, catalogue.Accepted
	},
	IsExporter: func(catalogue.Holder) bool { return false },
	Hooks:      catalogue.Hooks{InstanceID: func(board, instance string) string { return board + "/p" + instance }},
})

// exposed is one row of an exporter's output.
type exposed struct {
	of     *catalogue.Exporter
	name   string
	labels map[string]string
	value  float64
}

// flush returns the output values for the rows of one scrape, keyed by hw.id, metric, and own
// attribute.
func flush(t *testing.T, s *Batch, at int64, rows ...exposed) map[string]float64 {
	t.Helper()
	place := Place{Host: "h", Node: "n"}
	for _, r := range rows {
		labels := catalogue.NewRow(r.of)
		for k, v := range r.labels {
			labels.Set(k, v)
		}
		spelling, ok := r.of.Lookup(r.name)
		require.True(t, ok, r.name)
		s.Add(s.Row(labels, place, catalogue.Holder{}), nil, spelling, at*1e9, r.value)
	}
	out := map[string]float64{}
	for _, f := range s.Flush() {
		for _, d := range f.Devices {
			for _, p := range d.Samples.All() {
				out[d.Vendor+" "+d.Device.ID()+" "+p.Metric.Name+"{"+p.Own+"}"] = p.Value
			}
		}
	}
	return out
}

func TestTheTablesOfTwoExportersCanBeUsedTogether(t *testing.T) {
	s := New(Options{MaxDevices: 100, Disabled: []*signal.Metric{signal.GPUSignalAvailable}}).Begin(time.Time{})
	card := map[string]string{"gpu_uuid": "00000000", "serial": "S1", "partition": "4294967295"}
	half := map[string]string{"gpu_uuid": "U2", "partition": "1"}
	nvidia := map[string]string{"UUID": "GPU-1", "modelName": "NVIDIA L4"}
	flush(t, s, 10, exposed{acme, "acme_link_bytes", card, 1000})
	assert.Equal(t, map[string]float64{
		"ACME S1 hw.gpu.utilization{general}":      0.5,
		"ACME S1 hw.power{}":                       300,
		"ACME S1 gpu.nvlink.throughput{transmit}":  100,
		"ACME U2/p1 hw.gpu.utilization{general}":   0.25,
		"NVIDIA GPU-1 hw.gpu.utilization{general}": 0.3,
		"NVIDIA GPU-1 hw.power{}":                  70,
	}, flush(t, s, 20,
		exposed{acme, "acme_activity", card, 50},
		exposed{acme, "acme_package_power", card, 0}, // the board has no such sensor
		exposed{acme, "acme_average_power", card, 300},
		exposed{acme, "acme_link_bytes", card, 2000},
		exposed{acme, "acme_activity", half, 25},
		exposed{dcgm.Exporter, "DCGM_FI_DEV_GPU_UTIL", nvidia, 30},
		exposed{dcgm.Exporter, "DCGM_FI_DEV_POWER_USAGE", nvidia, 70},
	))
}

func TestRowsWithoutADeviceOfTheVendorAreDropped(t *testing.T) {
	s := New(Options{MaxDevices: 100}).Begin(time.Time{})
	assert.Empty(t, flush(t, s, 10, exposed{acme, "acme_activity", map[string]string{"serial": "N/A"}, 50}))
	assert.EqualValues(t, 1, s.TakeStats().Dropped[DropNoDevice])
}
