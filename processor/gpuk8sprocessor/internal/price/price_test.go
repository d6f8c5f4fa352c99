package price

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const good = `currency: USD
prices:
  - {node_label: {pool: spot, zone: b}, price: 1.5}
  - {model: NVIDIA H100 80GB HBM3, price: 4}
  - {host_type: a3-highgpu-8g, price: 3}
  - {model: nvidia-h100-80gb-hbm3, price: 9}
`

func TestTheFirstMatchingPriceCounts(t *testing.T) {
	l, err := Parse([]byte(good))
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		model, hostType string
		labels          map[string]string
		want            float64
		ok              bool
	}{
		"by model with a different spelling":          {"nvidia-h100-80GB-HBM3", "a3-highgpu-8g", nil, 4, true},
		"by node labels":                              {"NVIDIA H100 80GB HBM3", "", map[string]string{"pool": "spot", "zone": "b"}, 1.5, true},
		"by model, because one node label is missing": {"NVIDIA H100 80GB HBM3", "", map[string]string{"pool": "spot"}, 4, true},
		"by instance type":                            {"NVIDIA L4", "a3-highgpu-8g", nil, 3, true},
		"none":                                        {"NVIDIA L4", "g2", nil, 0, false},
		"none for an unknown board":                   {"", "", nil, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := l.PriceOf(tt.model, tt.hostType, func(k string) string { return tt.labels[k] })
			assert.Equal(t, tt.want, got)
			assert.Equal(t, tt.ok, ok)
		})
	}
}

func TestAnInvalidListIsAnErrorWithFieldAndAllowedValues(t *testing.T) {
	for text, want := range map[string]string{
		"":                            `currency is "": must be an ISO 4217 code, such as USD`,
		"currency: dollars":           `currency is "dollars": must be an ISO 4217 code, such as USD`,
		"currency: USD":               "prices is empty: must have at least one entry",
		"currency: USD\nprices: [{}]": "prices[0] has 0 of model, node_label, and host_type: must have exactly one",
		"prices: [{model: a, host_type: b, price: 1}]":                   "prices[0] has 2 of model, node_label, and host_type: must have exactly one",
		"currency: USD\nprices: [{model: a}]":                            "prices[0]::price is missing: must be the hourly price in USD, or 0 for a free board",
		"prices: [{model: a, price: -1}]":                                "prices[0]::price is -1: must be a finite number, at least 0",
		"prices: [{model: a, price: .inf}]":                              "prices[0]::price is +Inf: must be a finite number, at least 0",
		"prices: [{model: a, price: .nan}]":                              "prices[0]::price is NaN: must be a finite number, at least 0",
		"prices: [{model: a, price: 1, currency: EUR}]":                  "line 1: currency is unknown: must be one of model, node_label, host_type, price",
		"currency: USD\nprices: [{model: a, price: 1}]\n---\nprices: []": "the price list has several YAML documents: must have exactly one",
		"currencies: USD":                                                "line 1: currencies is unknown: must be one of currency, prices",
		"prices: [{model: a, price: four}]":                              "line 1: `four` must be a number",
		"prices: 5":                                                      "line 1: `5` must be a list",
		"prices: {a: 1}":                                                 "line 1: must be a list",
		"prices: [5]":                                                    "line 1: `5` must be a map with a price",
		"prices: [{node_label: a, price: 1}]":                            "line 1: `a` must be a map of labels",
		"[1]":                                                            "line 1: must be a map with the keys currency and prices",
	} {
		_, err := Parse([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
}

func TestTheLastValidListIsKept(t *testing.T) {
	f := &File{Path: filepath.Join(t.TempDir(), "prices.yaml")}
	require.Error(t, f.Read())
	assert.Nil(t, f.List())
	write := func(text string) { require.NoError(t, os.WriteFile(f.Path, []byte(text), 0o600)) }
	write(good)
	require.NoError(t, f.Read())
	require.NoError(t, f.Read())
	list := f.List()
	write("currency: 1")
	require.Error(t, f.Read())
	require.Error(t, f.Read(), "the file is still invalid")
	assert.Same(t, list, f.List())
	write(strings.Repeat("#", maxBytes+1))
	require.ErrorContains(t, f.Read(), "has more than 1048576 bytes")
	require.NoError(t, os.Remove(f.Path))
	require.Error(t, f.Read())
	assert.Same(t, list, f.List())
	write(good)
	require.NoError(t, f.Read())
}

func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Fuzz(func(t *testing.T, text string) {
		l, err := Parse([]byte(text))
		if err != nil {
			return
		}
		for _, p := range l.Prices {
			if !(*p.Price >= 0) {
				t.Fatal(*p.Price)
			}
		}
	})
}
