package main

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the tables of RESULTS.md and the plot")

func TestTheTablesAndThePlotMatchTheResults(t *testing.T) {
	if *update {
		require.NoError(t, document("."))
	}
	again := t.TempDir()
	for _, name := range []string{resultsFile, pageFile, plotFile} {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(again, name), content, 0o600))
	}
	require.NoError(t, document(again))
	for _, name := range []string{pageFile, plotFile} {
		want, err := os.ReadFile(filepath.Join(again, name))
		require.NoError(t, err)
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.Equal(t, string(want), string(got), "%s: go test ./test/benchcompare -update", name)
	}
}

func TestNewResultsKeepOtherScalesAndDeleteUnmeasuredValues(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, pageFile), []byte("# Measurements\n"+tableBegins+"old\n"+tableEnds+"between\n"+fleetBegins+tableEnds+"more\n"), 0o600))
	picked, err := pick("1,10")
	require.NoError(t, err)
	one, ten := picked[0], picked[1]
	require.NoError(t, keep(dir, one, []*figures{{cpu: 2, charged: 9}, {cpu: 10}, nil}))
	require.NoError(t, keep(dir, ten, []*figures{{cpu: 1}, nil, nil}))
	require.NoError(t, keep(dir, one, []*figures{{cpu: 3}, nil, nil}))

	r, err := readResults(filepath.Join(dir, resultsFile))
	require.NoError(t, err)
	assert.Equal(t, results{{"1", "agent", "cpu"}: 3, {"1", "prometheus receiver", "cpu"}: 10, {"10", "agent", "cpu"}: 1}, r)
	page, err := os.ReadFile(filepath.Join(dir, pageFile))
	require.NoError(t, err)
	assert.Contains(t, string(page), "| CPU, µs per sample | 3 | 10 |  | 0.3 |  | ≤ 0.19, **missed** |\n")
	assert.NotContains(t, string(page), "old")
	assert.True(t, strings.HasSuffix(string(page), tableEnds+"between\n"+fleetBegins+tableEnds+"more\n"), string(page))

	require.NoError(t, os.WriteFile(filepath.Join(dir, resultsFile), []byte("1\tagent\tcpu\n"), 0o600))
	assert.ErrorContains(t, keep(dir, one, nil), "four fields")
	require.NoError(t, os.WriteFile(filepath.Join(dir, resultsFile), []byte("1\tagent\tcpu\tmuch\n"), 0o600))
	assert.ErrorContains(t, keep(dir, one, nil), "much")
}

func TestThePlotShowsOnlyMeasuredFleets(t *testing.T) {
	r := results{}
	for i, name := range plotted {
		r.set(name, "agent", (&figures{cpu: 2, resident: 30 * float64(i+1)}).byKey())
	}
	r.set("10", "Prometheus", (&figures{cpu: 4}).byKey())
	svg := plot(r)
	decoder := xml.NewDecoder(strings.NewReader(svg))
	var circles, titles int
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if e, ok := token.(xml.StartElement); ok {
			switch e.Name.Local {
			case "circle":
				circles++
			case "title":
				titles++
			}
		}
	}
	assert.Equal(t, len(contestants)+2*len(plotted)+1, circles, "a legend per contestant, the agent in both panels, Prometheus in one")
	assert.Equal(t, 1+2*len(plotted)+1, titles, "of the picture and of each point")
	assert.Contains(t, svg, "prefers-color-scheme: dark")

	assert.Contains(t, svg, "A node with 8 GPUs, each with 7 MIG instances: 30<")
}
