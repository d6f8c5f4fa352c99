package sayonce_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-gpu/otelcol-gpu/internal/sayonce"
)

func TestATroubleIsSaidAgainOnlyAfterItWasWellInBetween(t *testing.T) {
	var trouble sayonce.Trouble
	now := time.Now()
	assert.True(t, trouble.Returns(now), "the first time")
	for range 100 {
		now = now.Add(sayonce.Well - time.Second)
		assert.False(t, trouble.Returns(now), "it never ended")
	}
	now = now.Add(sayonce.Well)
	assert.True(t, trouble.Returns(now))
	assert.False(t, trouble.Returns(now))
}

func TestALimitNamesTheSettingToRaise(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	limit := sayonce.Limit{Setting: "max_series", Value: 50, What: "series"}
	limit.Refused(zap.New(core), time.Now(), 0)
	assert.Zero(t, logs.Len(), "nothing was refused")
	limit.Refused(zap.New(core), time.Now(), 7)
	limit.Refused(zap.New(core), time.Now(), 8)
	entries := logs.TakeAll()
	if assert.Len(t, entries, 1) {
		assert.Equal(t, zap.WarnLevel, entries[0].Level)
		assert.Contains(t, entries[0].Message, "max_series of 50 is reached: new series are refused")
		assert.Contains(t, entries[0].Message, "Raise max_series")
		assert.Equal(t, map[string]any{"refused": int64(7)}, entries[0].ContextMap())
	}
}
