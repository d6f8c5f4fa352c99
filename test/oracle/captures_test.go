package oracle

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/expositiontest"
)

// The dcgm receiver scrapes each recorded response over HTTP several times, with changing values.
// For the comparison, Prometheus' own parser parses the same responses.
func TestRecordedOutputsEqualPrometheus(t *testing.T) {
	// The definitions support only the metric names and labels of dcgm-exporter 3.x to 4.8.2, so
	// these recordings of the simulator are excluded. The definitions also do not support links
	// whose capacity changes with the link's generation and width.
	unread := []string{
		"exporter_3_has_no_pci_bus_id_and_labels_violations_as_microseconds", "exporter_4_5_repeats_help_for_nvlink_rows",
		"exporter_4_5_with_old_namespace_renames_labels", "exporter_4_8_3_sorts_families_and_labels", "exporter_4_9_prints_base_units",
	}
	files := slices.DeleteFunc(expositiontest.DCGMRecordings(t), func(file string) bool {
		return slices.Contains(unread, strings.TrimSuffix(filepath.Base(file), ".prom"))
	})
	compared := map[string]int{}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".prom"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			tl := timeline{step: defaults.Step}
			var texts []string
			drift := newDrift()
			for i := range 30 {
				body := ""
				if i != 13 { // simulate one failed scrape
					body = drift.next(string(text))
				}
				texts = append(texts, body)
				s := scrape{at: time.Duration(i) * defaults.Step, failed: body == ""}
				s.rows = parse(t, body)
				tl.scrapes = append(tl.scrapes, s)
			}
			want := scraped(t, tl).folded().capacities().derived().windows(Definitions(), defaults)
			got := runOverHTTP(t, tl.step, texts)
			assert.Empty(t, differences(want, got.windows))
			for k := range want {
				compared[k.metric]++
			}
		})
	}
	// The simulator's recordings contain only the default counters, which do not include the mask
	// of clock event reasons.
	if recorded := slices.ContainsFunc(files, func(file string) bool { return strings.Contains(file, "captures") }); recorded {
		assert.Positive(t, compared[signal.ThrottleReasonRatio.Name])
	}
	for _, m := range []*signal.Metric{
		signal.MemoryUtilizationAvg, signal.MemoryPressureRatio, signal.XIDErrors,
		signal.DRAMActiveAvg, signal.PCIeThroughputAvg, signal.PCIeUtilizationAvg, signal.UtilizationAvg,
	} {
		assert.Positive(t, compared[m.Name], "no recording has %s", m.Name)
	}
}

// drift changes the values in an exposition text from scrape to scrape. Counters increase,
// fractions remain between 0 and 1, and most other values change randomly.
type drift struct {
	random *rand.Rand
	last   map[string]float64
}

// newDrift returns a drift whose random numbers have a fixed seed.
func newDrift() *drift {
	return &drift{random: rand.New(rand.NewPCG(1, 2)), last: map[string]float64{}}
}

func (d *drift) next(text string) string {
	var b strings.Builder
	fresh := map[string]float64{} // all rows of a board must have the same value of a board field
	for line := range strings.Lines(text) {
		at := strings.LastIndexByte(strings.TrimRight(line, "\r\n "), ' ')
		v, err := strconv.ParseFloat(strings.TrimSpace(line[at+1:]), 64)
		const sentinel = 1 << 53 // old exporters represent missing values by numbers of at least this size
		if strings.HasPrefix(line, "#") || at < 0 || err != nil || v >= sentinel {
			b.WriteString(line)
			continue
		}
		series := line[:at]
		key := series
		if name, _, _ := strings.Cut(series, "{"); !slices.Contains(instanceFields, name) {
			_, uuid, _ := strings.Cut(series, `UUID="`)
			uuid, _, _ = strings.Cut(uuid, `"`)
			key = name + uuid
		}
		if known, ok := d.last[key]; ok {
			v = known
		}
		moved, ok := fresh[key]
		if !ok {
			moved = d.move(series, v)
			fresh[key] = moved
			d.last[key] = moved
		}
		b.WriteString(series + " " + strconv.FormatFloat(moved, 'f', -1, 64) + "\n")
	}
	return b.String()
}

func (d *drift) move(series string, v float64) float64 {
	switch name, _, _ := strings.Cut(series, "{"); {
	case strings.Contains(name, "REASONS"):
		return float64(d.random.IntN(1 << 9))
	case strings.Contains(name, "XID"):
		if d.random.IntN(10) == 0 {
			return []float64{0, 31, 79}[d.random.IntN(3)]
		}
		return v
	case strings.HasSuffix(name, "_ACTIVE"):
		return float64(d.random.IntN(1001)) / 1000
	case strings.HasSuffix(name, "_UTIL"):
		return float64(d.random.IntN(101))
	case strings.HasSuffix(name, "_BYTES"):
		return float64(d.random.IntN(20)) * 1e9 // within the capacity of every link in the recordings
	case strings.HasSuffix(name, "_USED"), strings.HasSuffix(name, "_FREE"):
		return float64(d.random.IntN(40000))
	case isCounter(name):
		return v + float64(d.random.IntN(1000))
	default:
		return v + float64(d.random.IntN(int(v)/10+2))
	}
}

// parse parses exposition text with Prometheus' parser.
func parse(t *testing.T, text string) []row {
	t.Helper()
	p := textparse.NewPromParser([]byte(text), labels.NewSymbolTable(), false)
	var rows []row
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return rows
		}
		require.NoError(t, err)
		if entry != textparse.EntrySeries {
			continue
		}
		_, _, v := p.Series()
		var ls labels.Labels
		p.Labels(&ls)
		r := row{name: ls.Get(labels.MetricName), labels: ls.Map(), value: v}
		delete(r.labels, labels.MetricName)
		rows = append(rows, r)
	}
}
