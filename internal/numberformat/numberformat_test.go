package numberformat

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// gpu_view's tests format the numbers from testdata/examples.json in a browser.
func TestExamples(t *testing.T) {
	content, err := os.ReadFile("testdata/examples.json")
	require.NoError(t, err)
	var examples [][4]any
	require.NoError(t, json.Unmarshal(content, &examples))
	tested := map[string]bool{}
	for _, e := range examples {
		name := e[0].(string)
		tested[name] = true
		f, ok := All[name]
		require.True(t, ok, name)
		assert.Equal(t, e[2], f.Long(e[1].(float64)), e)
		assert.Equal(t, e[3], f.Short(e[1].(float64)), e)
	}
	for name := range All {
		assert.Contains(t, tested, name)
	}
}

func TestOnlyTheLastStepHasNoBound(t *testing.T) {
	for name, f := range All {
		for i, s := range f {
			assert.Equal(t, i == len(f)-1, s.Below == 0, name)
			if i > 0 && s.Below > 0 {
				assert.Greater(t, s.Below, f[i-1].Below, name)
			}
		}
	}
}
