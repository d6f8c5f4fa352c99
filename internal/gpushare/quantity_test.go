package gpushare

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestUnits(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "-1": 0, "-1e30": 0, "1": 1, "1m": 1, "1n": 1, "1500m": 2, "5k": 5000, "64Gi": 64 << 30,
		"1125899906842623": 1<<50 - 1, "1125899906842624": 1 << 50, "1Ei": 1 << 50,
		"1e30": 1 << 50, "1e9999": 1 << 50, "99999999999999999999999999999": 1 << 50, "9223372036854775807": 1 << 50,
	} {
		assert.Equal(t, want, Units(resource.MustParse(text)), text)
	}
	assert.Zero(t, Units(resource.Quantity{}))
}

// A pod's effective requests are sums of quantities, so Units must also handle sums.
func TestUnitsOfSums(t *testing.T) {
	sum := resource.MustParse("9223372036854775807")
	sum.Add(resource.MustParse("9223372036854775807"))
	assert.Equal(t, int64(1<<50), Units(sum))
	sum = resource.MustParse("500m")
	sum.Add(resource.MustParse("600m"))
	assert.Equal(t, int64(2), Units(sum))
}
