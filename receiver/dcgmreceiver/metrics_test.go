package dcgmreceiver

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-gpu/otelcol-gpu/internal/exposition"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/enumtest"
)

func TestHostOfAnExporterIsTheHostInItsRows(t *testing.T) {
	for body, want := range map[string]string{
		"m{Hostname=\"n\"} 1\nm{hostname=\"pod\",Hostname=\"n\",a=\"1\"} 1\nm{Hostname=\"n\",hostname=\"other\"} 1\ngo_x 1\n": "n",
		"m{hostname=\"n\"} 1\nm{hostname=\"n\",a=\"1\"} 1\n":                                                                  "n",
		"m{Hostname=\"\",hostname=\"n\"} 1\n":                                                                                 "n",
		"m{Hostname=\"n\"} 1\nm{Hostname=\"other\"} 1\n":                                                                      "",
		"m 1\n": "",
	} {
		assert.Equal(t, want, hostOf(exposition.NewParser().Parse([]byte(body))), body)
	}
}

func TestTheValuesOfSelfMetricsAreDocumented(t *testing.T) {
	var names []string
	for _, o := range outcomes {
		names = append(names, string(o))
	}
	assert.ElementsMatch(t, enumtest.Documented(t, "outcome"), names)
	assert.ElementsMatch(t, enumtest.Documented(t, "reason"), enumtest.Names(0, exposition.NumReasons))
	assert.ElementsMatch(t, enumtest.Documented(t, "state"), enumtest.Names(kube.Off, kube.Absent+1))
}
