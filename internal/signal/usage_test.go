package signal

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAmountsHaveTheUnitOfACurrency(t *testing.T) {
	usd := InCurrency(GPUUnallocatedCost, "USD")
	assert.Equal(t, "{USD}", usd.Unit)
	assert.Equal(t, GPUUnallocatedCost.Name, usd.Name)
	assert.Same(t, usd, InCurrency(GPUUnallocatedCost, "USD"))
	assert.Equal(t, "{EUR}", InCurrency(GPUUnallocatedCost, "EUR").Unit)
	assert.Same(t, GPUUnallocatedCost, InCurrency(GPUUnallocatedCost, "dollars"), "an invalid code")
	assert.Same(t, HwPower, InCurrency(HwPower, "USD"), "not an amount of money")
}
