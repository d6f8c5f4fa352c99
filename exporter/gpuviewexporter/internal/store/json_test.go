package store

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNumbersWriteAbsentAsNull(t *testing.T) {
	got, err := json.Marshal(Numbers{0, float32(math.NaN()), 0.3, 1.2e9, -1})
	require.NoError(t, err)
	assert.JSONEq(t, `[0,null,0.3,1.2e9,-1]`, string(got))
}

func TestTimesAreWrittenInSeconds(t *testing.T) {
	got, err := json.Marshal([]Time{0, 1_800_000_000_500_000_000, 60e9})
	require.NoError(t, err)
	assert.Equal(t, `[0,1800000000.5,60]`, string(got))
}
