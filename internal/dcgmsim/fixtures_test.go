package dcgmsim

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fixtures is a directory with exposition bodies. The tests of several packages use the bodies in
// the directory.
const fixtures = "../../testdata/exposition"

// readFixture parses a body with Prometheus's own parser.
func readFixture(name string) (samples map[string]float64, series []labels.Labels, err error) {
	body, err := os.ReadFile(filepath.Join(fixtures, name))
	if err != nil {
		return nil, nil, err
	}
	samples = map[string]float64{}
	p := textparse.NewPromParser(body, labels.NewSymbolTable(), false)
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return samples, series, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if entry == textparse.EntrySeries {
			_, _, value := p.Series()
			var l labels.Labels
			p.Labels(&l)
			if _, twice := samples[l.String()]; twice {
				return nil, nil, errors.New("duplicate series " + l.String())
			}
			samples[l.String()] = value
			series = append(series, l)
		}
	}
}

func TestEveryFixtureIsDescribedAndCanBeRead(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(fixtures, "README.md"))
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(fixtures, "*.prom"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			assert.Contains(t, string(readme), "| `"+name+"` |")
			samples, _, err := readFixture(name)
			if name == "v4_unescaped_labels.prom" {
				require.Error(t, err, "this body must be rejected")
				return
			}
			require.NoError(t, err)
			assert.NotEmpty(t, samples)
		})
	}
}

// memoryOf returns the sum of used and free memory for each device in a fixture. If a device has
// samples of its own, only those samples count.
func memoryOf(samples map[string]float64, series []labels.Labels) map[string]float64 {
	read := func(name string) map[string]float64 {
		out := map[string]float64{}
		for _, l := range series {
			if l.Get("__name__") == name {
				key := deviceKey(l) + l.Get("uuid")
				out[key] = max(out[key], samples[l.String()])
			}
		}
		return out
	}
	used, free := read("DCGM_FI_DEV_FB_USED"), read("DCGM_FI_DEV_FB_FREE")
	for key := range free {
		free[key] += used[key]
	}
	return free
}

func TestTheMemoryOfTheFixturesAddsUp(t *testing.T) {
	// Each size is the sum of used and free memory in MiB. The sizes are those of a V100, an H100,
	// and the H100's 1g.10gb instances.
	sizes := []float64{32510, 81079, 9856}
	files, err := filepath.Glob(filepath.Join(fixtures, "*.prom"))
	require.NoError(t, err)
	checked := 0
	for _, file := range files {
		samples, series, err := readFixture(filepath.Base(file))
		if err != nil {
			continue // the test above reports the error
		}
		for device, sum := range memoryOf(samples, series) {
			assert.Contains(t, sizes, sum, "%s %s", filepath.Base(file), device)
			checked++
		}
	}
	assert.Greater(t, checked, 20)
}

func TestTheFixtureOfBaseUnitsHasTheValuesOfThatOf483(t *testing.T) {
	old, oldSeries, err := readFixture("v4_8_3_renderer.prom")
	require.NoError(t, err)
	base, baseSeries, err := readFixture("v4_9_base_units.prom")
	require.NoError(t, err)
	find := func(samples map[string]float64, series []labels.Labels, name, gpu string) float64 {
		for _, l := range series {
			if l.Get("__name__") == name && l.Get("gpu") == gpu {
				return samples[l.String()]
			}
		}
		t.Fatalf("no %s of gpu %s", name, gpu)
		return 0
	}
	renamed := map[quantity]field{}
	for _, f := range fieldsOf(Style49, FieldsDefault) {
		renamed[f.quantity] = f
	}
	for _, f := range fieldsOf(Style483, FieldsDefault) {
		now, shipped := renamed[f.quantity]
		if !shipped || f.quantity == xidLast {
			continue
		}
		for _, gpu := range []string{"0", "1"} {
			n := integer(int64(find(old, oldSeries, f.name, gpu)))
			if n.value() != find(old, oldSeries, f.name, gpu) {
				n = double(find(old, oldSeries, f.name, gpu))
			}
			if now.convert != nil {
				n = now.convert(n)
			}
			assert.InDelta(t, n.value(), find(base, baseSeries, now.name, gpu), 1e-9, "%s of gpu %s", now.name, gpu)
		}
	}
}
