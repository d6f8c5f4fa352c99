package natural

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNumbersInNamesAreOrderedByValue(t *testing.T) {
	ordered := []string{"", "10", "nvidia", "nvidia0", "nvidia0/gi7", "nvidia0/gi13", "nvidia2", "nvidia10", "nvidib"}
	for i, a := range ordered {
		for j, b := range ordered {
			assert.Equal(t, i < j, Compare(a, b) < 0, "%q before %q", a, b)
			assert.Equal(t, i > j, Compare(a, b) > 0, "%q after %q", a, b)
		}
	}
}
