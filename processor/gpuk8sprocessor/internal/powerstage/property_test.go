package powerstage

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor/processortest"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/goldentest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pointtest"
)

// node generates scrapes of a node with up to 8 boards. Each board has up to 7 instances, and each
// instance has up to 3 containers and 3 processes.
type node struct {
	t *rapid.T
	// faults is the average number of points, out of 10, that are lost or invalid.
	faults int
	boards []drawnBoard
	// measured contains the highest power of each board in the input, by time and hw.id.
	measured map[string]float64
}

type drawnBoard struct {
	id      string
	devices []drawnDevice // devices contains either the board itself or the board's instances.
}

type drawnDevice struct {
	id, parent, profile string
	holders             int
	processes           int
}

func drawNode(t *rapid.T) *node {
	n := &node{t: t, faults: rapid.IntRange(0, 5).Draw(t, "faults"), measured: map[string]float64{}}
	profiles := rapid.SampledFrom([]string{"1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "", "nonsense"})
	for b := range rapid.IntRange(1, 8).Draw(t, "boards") {
		board := drawnBoard{id: fmt.Sprintf("GPU-%d", b)}
		instances := rapid.IntRange(0, 7).Draw(t, "instances")
		for i := range max(1, instances) {
			d := drawnDevice{
				id: board.id, holders: rapid.IntRange(0, 3).Draw(t, "holders"), processes: rapid.IntRange(0, 3).Draw(t, "processes"),
			}
			if instances > 0 {
				d.id, d.parent, d.profile = fmt.Sprintf("%s/gi%d", board.id, i), board.id, profiles.Draw(t, "profile")
			}
			board.devices = append(board.devices, d)
		}
		n.boards = append(n.boards, board)
	}
	return n
}

// scrape returns the batch of one scrape. Any part of the batch can be missing.
func (n *node) scrape(seconds int) pmetric.Metrics {
	t := n.t
	md := pmetric.NewMetrics()
	resources := map[string]pmetric.MetricSlice{}
	point := func(resource string, s *signal.Metric, id, parent, profile, own string, v float64) {
		switch fault := rapid.IntRange(0, 9).Draw(t, "fault"); {
		case fault >= n.faults:
		case fault == 0:
			v = math.NaN()
		case fault == 1:
			v = -v - 1
		default:
			return // lost
		}
		ms, ok := resources[resource]
		if !ok {
			rm := md.ResourceMetrics().AppendEmpty()
			goldentest.PutAll(t, rm.Resource().Attributes(), resource)
			ms = rm.ScopeMetrics().AppendEmpty().Metrics()
			resources[resource] = ms
		}
		m := ms.AppendEmpty()
		m.SetName(s.Name)
		dp := m.SetEmptyGauge().DataPoints().AppendEmpty()
		dp.SetTimestamp(pcommon.Timestamp(seconds) * 1e9)
		dp.SetDoubleValue(v)
		for k, text := range map[string]string{signal.HardwareID: id, signal.HardwareParent: parent, signal.MIGProfile: profile} {
			if text != "" {
				dp.Attributes().PutStr(k, text)
			}
		}
		if own != "" {
			dp.Attributes().PutStr(s.Attributes[0], own)
		}
		if key := fmt.Sprint(seconds, id); s == signal.HwPower && resource == "k8s.node.name=n1" && v >= 0 {
			n.measured[key] = max(n.measured[key], v)
		}
	}
	ratio := rapid.OneOf(rapid.Just(0.0), rapid.Just(1.0), rapid.Float64Range(0, 1.3))
	const place = "k8s.node.name=n1"
	for _, b := range n.boards {
		watts := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1000)).Draw(t, "watts")
		for range rapid.IntRange(1, 2).Draw(t, "rows") {
			point(place, signal.HwPower, b.id, "", "", "", watts)
		}
		for _, d := range b.devices {
			if rapid.IntRange(0, 4).Draw(t, "missing") == 0 {
				continue
			}
			for _, s := range []*signal.Metric{signal.GPUEngineActive, signal.GPUSMActive, signal.GPUDRAMActive} {
				point(place, s, d.id, d.parent, d.profile, "", ratio.Draw(t, s.Name))
			}
			point(place, signal.GPUPipeActive, d.id, d.parent, d.profile, "tensor", ratio.Draw(t, "tensor"))
			point(place, signal.HwGPUUtilization, d.id, d.parent, d.profile, signal.TaskGeneral, ratio.Draw(t, "utilization"))
			point(place, signal.GPUProcessCount, d.id, d.parent, d.profile, "", float64(d.processes))
			unknown := rapid.IntRange(0, 2).Draw(t, "unknown holders") == 0
			for h := range d.holders {
				if unknown {
					break
				}
				pod := fmt.Sprintf("%s, k8s.namespace.name=ns, k8s.pod.name=p%d, k8s.pod.uid=u%d, k8s.container.name=c", place, h, h)
				point(pod, signal.GPUDeviceHolder, d.id, d.parent, d.profile, "", 1)
				point(pod, signal.HwPower, b.id, "", "", "", watts) // gpu_k8s repeats the board's series for each holder.
			}
			for p := range d.processes {
				pod := fmt.Sprintf("%s, k8s.pod.uid=u%d", place, p)
				pid := fmt.Sprint(d.id, p)
				point(pod, signal.ProcessGPUUtilization, d.id, d.parent, "", pid, ratio.Draw(t, "process"))
				point(pod, signal.ProcessGPUMemoryUsage, d.id, d.parent, "", pid, 1)
			}
		}
	}
	return md
}

// For any input, the power values in the output are consistent for every board at every sample
// time. The energy of each board is the sum of its idle energy, its unattributed energy, and the
// energy of all containers, including containers that are not in the output because they no longer
// hold the board.
func TestPowerIsConserved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawNode(t)
		cfg := createDefaultConfig().(*Config)
		if rapid.Bool().Draw(t, "configured") {
			watts := rapid.Float64Range(0, 200).Draw(t, "idle")
			cfg.Idle.Watts = &watts
		}
		if rapid.Bool().Draw(t, "none") {
			cfg.Weighting = weightingNone
		}
		sink := &consumertest.MetricsSink{}
		section, err := newProcessor(cfg, processortest.NewNopSettings(metadata.Type))
		require.NoError(t, err)
		p, err := factoryOf(section).CreateMetrics(context.Background(), processortest.NewNopSettings(metadata.Type), cfg, sink)
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Shutdown(context.Background())) }()

		energies := map[string]float64{}
		energy := map[string]*boardEnergy{}
		for _, b := range n.boards {
			energy[b.id] = &boardEnergy{}
		}
		seconds := 10
		for range 4 {
			require.NoError(t, p.ConsumeMetrics(context.Background(), n.scrape(seconds)))
			boards := map[string]*sums{}
			for _, md := range sink.AllMetrics() { // An empty batch has no output.
				boards = collect(t, md, energies)
			}
			sink.Reset()
			for id, s := range boards {
				measured, ok := n.measured[fmt.Sprint(seconds, id)]
				require.True(t, ok, "%s has no power", id)
				assert.InDelta(t, measured, s.idle+s.active, 1e-9)
				assert.InDelta(t, s.active, s.containers+s.unattributed, 1e-9)
				assert.LessOrEqual(t, s.processes, s.active+1e-9)
				if math.Abs(s.instances) > 1e-9 {
					assert.InDelta(t, s.active, s.instances, 1e-9, "instances get all active power or none")
				}
				assert.LessOrEqual(t, len(s.sources), 1, "all instances of a board use one source")
			}
			for id, e := range energy {
				if measured, ok := n.measured[fmt.Sprint(seconds, id)]; ok {
					e.add(seconds, measured, boards[id], cfg.MaxGap)
					assert.InDelta(t, e.total, e.rest+containerEnergy(section, id), 1e-6, "%s at %d s", id, seconds)
				}
			}
			seconds += rapid.IntRange(1, 200).Draw(t, "step")
		}
	})
}

// boardEnergy is the energy of one board up to the newest frame that contains the board's power.
type boardEnergy struct {
	seconds         int
	measured, other float64 // measured and other are in W. other is idle power and unattributed power.
	total, rest     float64 // total and rest are in J. rest is idle energy and unattributed energy.
}

// add adds a frame. If the output does not contain the board, because the board's idle power is
// unknown, s is nil, and the energy until the next frame is not part of any value.
func (e *boardEnergy) add(seconds int, measured float64, s *sums, maxGap time.Duration) {
	held := min(float64(seconds-e.seconds), maxGap.Seconds())
	e.total += e.measured * held
	e.rest += e.other * held
	e.seconds, e.measured, e.other = seconds, 0, 0
	if s != nil {
		e.measured, e.other = measured, s.idle+s.unattributed
	}
}

// containerEnergy returns the energy of all containers on a board and its instances, in J.
func containerEnergy(p *gpuPower, board string) (joules float64) {
	p.nodes.Each(func(_ string, pl *nodeState) {
		for key, e := range pl.energy {
			if id, _, _ := strings.Cut(key.Device, "/gi"); id == board {
				joules += e.Joules
			}
		}
	})
	return joules
}

// sums contains the sums of the output values for one board at one time.
type sums struct {
	idle, active, unattributed, instances, containers, processes float64
	sources                                                      map[string]bool
}

func collect(t require.TestingT, md pmetric.Metrics, energies map[string]float64) map[string]*sums {
	boards := map[string]*sums{}
	for _, rm := range md.ResourceMetrics().All() {
		for _, sm := range rm.ScopeMetrics().All() {
			if sm.Scope().Name() != metadata.ScopeName {
				continue
			}
			for _, m := range sm.Metrics().All() {
				for _, dp := range points.Of(m).All() {
					v := dp.DoubleValue()
					require.GreaterOrEqual(t, v, 0.0, m.Name())
					require.False(t, math.IsInf(v, 0), m.Name())
					id, _, _ := strings.Cut(textOf(dp.Attributes(), signal.HardwareID), "/gi")
					s, ok := boards[id]
					if !ok {
						s = &sums{sources: map[string]bool{}}
						boards[id] = s
					}
					if source := textOf(dp.Attributes(), signal.PowerSource); source != "" {
						s.sources[source] = true
					}
					switch m.Name() {
					case signal.GPUPowerIdle.Name:
						s.idle += v
					case signal.GPUPowerActive.Name:
						s.active += v
					case signal.GPUPowerUnattributed.Name:
						s.unattributed += v
					case signal.GPUInstancePower.Name:
						s.instances += v
					case signal.K8sContainerGPUPower.Name:
						s.containers += v
					case signal.ProcessGPUPower.Name:
						s.processes += v
					case signal.K8sContainerGPUEnergy.Name:
						key := pointtest.Text(rm.Resource().Attributes()) + textOf(dp.Attributes(), signal.HardwareID)
						require.GreaterOrEqual(t, v, energies[key], "energy never falls")
						energies[key] = v
					default:
						require.Fail(t, m.Name())
					}
				}
			}
		}
	}
	return boards
}

// The node in this test has the maximum size.
func TestAllActivePowerIsAttributedIfEverythingIsObserved(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	idle := 70.0
	cfg.Idle.Watts = &idle
	p, sink := newTestProcessor(t, cfg, processortest.NewNopSettings(metadata.Type))
	require.NoError(t, p.ConsumeMetrics(context.Background(), largeNode(t, 10)))
	boards := collect(t, sink.AllMetrics()[0], map[string]float64{})
	require.Len(t, boards, 8)
	for _, s := range boards {
		assert.InDelta(t, 630, s.active, 1e-9)
		assert.InDelta(t, 630, s.instances, 1e-9)
		assert.InDelta(t, 630, s.containers, 1e-9)
		assert.InDelta(t, 630, s.processes, 1e-9)
		assert.InDelta(t, 0, s.unattributed, 1e-9)
	}
}

// textOf returns the string value of an attribute, or "" if the attribute is missing.
func textOf(m pcommon.Map, key string) string {
	if v, ok := m.Get(key); ok {
		return v.AsString()
	}
	return ""
}
