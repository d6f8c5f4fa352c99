package dcgmreceiver

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-gpu/otelcol-gpu/internal/exposition"
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
