package dcgmsim

import (
	"errors"
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

type exposition struct {
	// samples maps "name{labels}" in Prometheus's canonical form to values.
	samples map[string]float64
	// series contains the labels of each series, including its name, in the order in which the
	// series appear in the body.
	series []labels.Labels
	// types maps each family to its TYPE.
	types map[string]string
	// families lists the families in the order of their TYPE lines.
	families []string
}

// parse parses a body with Prometheus's own parser. If Prometheus would reject the scrape, the test
// fails.
func parse(t *testing.T, body []byte) exposition {
	t.Helper()
	out := exposition{samples: map[string]float64{}, types: map[string]string{}}
	p := textparse.NewPromParser(body, labels.NewSymbolTable(), false)
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		switch entry {
		case textparse.EntryType:
			name, typ := p.Type()
			out.types[string(name)] = string(typ)
			out.families = append(out.families, string(name))
		case textparse.EntrySeries:
			_, timestamp, value := p.Series()
			require.Nil(t, timestamp, "dcgm-exporter never writes a timestamp")
			var l labels.Labels
			p.Labels(&l)
			_, twice := out.samples[l.String()]
			require.False(t, twice, "a series appears twice: %s", l.String())
			out.samples[l.String()] = value
			out.series = append(out.series, l)
		}
	}
}

// value is one sample of a metric family.
type value struct {
	labels.Labels
	number float64
}

// family returns the samples of a family in the order in which they appear in the body.
func (e exposition) family(name string) []value {
	var out []value
	for _, l := range e.series {
		if l.Get("__name__") == name {
			out = append(out, value{l, e.samples[l.String()]})
		}
	}
	return out
}

// only(t, name) returns the single sample of a family.
func (e exposition) only(t *testing.T, name string) value {
	t.Helper()
	all := e.family(name)
	require.Len(t, all, 1, name)
	return all[0]
}

// newSimulation calls the given function to modify the default configuration, and returns a
// simulation with the modified configuration.
func newSimulation(t testing.TB, change func(*Config)) *Simulation {
	t.Helper()
	config := NewDefaultConfig()
	config.CollectInterval = 0
	change(&config)
	s, err := New(config)
	require.NoError(t, err)
	return s
}

// The lines function returns the lines of a body that contain samples, without comments and empty
// lines.
func lines(body []byte) []string {
	var out []string
	for line := range strings.Lines(string(body)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}
