package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/dcgmsim"
)

const text = `# HELP power_ns Time (in ns).
# TYPE power_ns counter
power_ns{model="H100 80GB"} 280000000000
# TYPE active gauge
active{model="H100 80GB"} 0.500000
# TYPE gone gauge
gone{} 7
`

func TestTheFirstScrapeIsTheBodyAsRendered(t *testing.T) {
	n, err := cut([]byte(text), []byte(text))
	require.NoError(t, err)
	assert.Equal(t, text, string(n.body()))
	assert.Equal(t, text, string(n.body()), "nothing changes between two equal bodies")
}

func TestCountersAlwaysIncreaseAndGaugesRepeat(t *testing.T) {
	n, err := cut([]byte(text), []byte("power_ns{model=\"H100 80GB\"} 281000000000\nactive{model=\"H100 80GB\"} 0.850000\n"))
	require.NoError(t, err)
	var bodies []string
	for range swing + 1 {
		bodies = append(bodies, string(n.body()))
	}
	assert.Contains(t, bodies[1], "} 281000000000\n")
	assert.Contains(t, bodies[1], "} 0.550000\n")
	assert.Contains(t, bodies[swing-1], "} 0.850000\n")
	assert.Contains(t, bodies[swing], "} 288000000000\n")
	assert.Contains(t, bodies[swing], "} 0.500000\n")
	assert.Contains(t, bodies[swing], "gone{} 7\n", "a value that the next body lacks is constant")
}

func TestNodesServeTheBodiesOfTheSimulatedExporterAndCountThem(t *testing.T) {
	l, err := newLoad(2, 7, time.Second)
	require.NoError(t, err)
	config := dcgmsim.NewDefaultConfig()
	config.Scenario, config.Style, config.Nodes, config.MIG, config.CollectInterval = dcgmsim.ScenarioPowerCapped, dcgmsim.Style45, 2, 7, 0
	simulation, err := dcgmsim.New(config)
	require.NoError(t, err)

	rec := httptest.NewRecorder()
	l.handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path(1), http.NoBody))
	assert.Equal(t, string(simulation.AppendBody(nil, 1, 25*time.Second)), rec.Body.String())
	first := rec.Body.String()

	rec = httptest.NewRecorder()
	l.handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path(1), http.NoBody))
	assert.NotEqual(t, first, rec.Body.String())
	assert.Equal(t, strings.Count(first, "\n"), strings.Count(rec.Body.String(), "\n"))

	assert.EqualValues(t, 2, l.scrapes.Load())
	assert.EqualValues(t, 2*len(l.nodes[1].values), l.samples.Load())

	rec = httptest.NewRecorder()
	l.handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path(2), http.NoBody))
	assert.Equal(t, http.StatusNotFound, rec.Code)
}
