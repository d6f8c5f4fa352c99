package kube_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

func TestAnAmountOfMemoryIsANumberOfBytesOrAQuantity(t *testing.T) {
	for text, want := range map[string]kube.Bytes{
		"0": 0, "1048576": 1 << 20, "14000Mi": 14000 << 20, "1.5Gi": 3 << 29, "1Pi": 1 << 50,
	} {
		var b kube.Bytes
		require.NoError(t, b.UnmarshalText([]byte(text)))
		assert.Equal(t, want, b)
	}
	for _, text := range []string{"", "much", "-1Gi", "1025Ti", "1e30", "1GB", "NaN"} {
		var b kube.Bytes
		require.EqualError(t, b.UnmarshalText([]byte(text)),
			`"`+text+`" is not an amount of memory: must be a number of bytes or a quantity such as 14000Mi, 0 to 1Pi`)
	}
}

func TestPlausibleAmountsOfMemoryAreOneMebibyteToOnePebibyte(t *testing.T) {
	for amount, want := range map[kube.Bytes]bool{
		math.MinInt64: false, -1: false, 0: false, 1536: false, 1<<20 - 1: false,
		1 << 20: true, 80 << 30: true, 1 << 50: true, 1<<50 + 1: false, math.MaxInt64: false,
	} {
		assert.Equal(t, want, amount.Plausible(), amount)
	}
}
