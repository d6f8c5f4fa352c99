package faults

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
)

var update = flag.Bool("update", false, "write the results into RESULTS.md")

// results collects the results of this run for the table in RESULTS.md.
var results struct {
	mu   sync.Mutex
	rows []result
}

// result is a row of the table in RESULTS.md.
type result struct {
	group, fault, held string
	windows            int
	lost, doubled      string
	// peak is the peak memory in MiB, or 0 if the memory was not measured.
	peak float64
	// recovery is the recovery time in seconds, or negative if not applicable.
	recovery float64
}

// report logs the result of a test and, unless the test has failed, records it for the table.
func report(t *testing.T, r result) {
	t.Helper()
	t.Logf("%+v", r)
	if t.Failed() {
		return
	}
	results.mu.Lock()
	defer results.mu.Unlock()
	results.rows = append(results.rows, r)
}

type runner struct{ tests interface{ Run() int } }

// Run runs all tests twice, first with stages in the receiver and then with processors in the
// pipeline.
func (r runner) Run() int {
	code := r.tests.Run()
	if code == 0 && *update {
		if err := writeResults(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	asProcessors = true
	return max(code, r.tests.Run())
}

func TestMain(m *testing.M) {
	flag.Parse()
	// Run more tests in parallel than usual, because the tests mostly wait and use little CPU time.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(runner{controlplane.Main(m)})
}

const (
	page  = "RESULTS.md"
	begin = "<!-- results: begin -->\n"
	end   = "<!-- results: end -->\n"
)

// writeResults replaces the table in RESULTS.md. The rows are sorted by group.
func writeResults() error {
	content, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(content, []byte(begin))
	_, after, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		return fmt.Errorf("%s has no markers for the results", page)
	}
	groups := []string{"exporter", "backend", "Kubernetes", "process", "gateway"}
	slices.SortStableFunc(results.rows, func(a, b result) int {
		if by := slices.Index(groups, a.group) - slices.Index(groups, b.group); by != 0 {
			return by
		}
		return strings.Compare(a.fault, b.fault)
	})
	var table strings.Builder
	table.WriteString("\n| | fault | result | windows compared | samples lost | windows doubled | peak MiB | recovery |\n|---|---|---|--:|--:|--:|--:|--:|\n")
	for _, r := range results.rows {
		recovery := ""
		if r.recovery >= 0 {
			recovery = fmt.Sprintf("%.1f s", r.recovery)
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %d | %s | %s | %.0f | %s |\n", r.group, r.fault, r.held, r.windows, r.lost, r.doubled, r.peak, recovery)
	}
	table.WriteString("\n")
	return os.WriteFile(page, slices.Concat(before, []byte(begin), []byte(table.String()), []byte(end), after), 0o600)
}
