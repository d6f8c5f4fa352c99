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

func TestReachedLimitsAreThoseOfTheProcessThatRefusedOfLate(t *testing.T) {
	now := time.Now()
	limit := func(component, setting string) *sayonce.Limit {
		l := &sayonce.Limit{Component: component, Setting: setting, Value: 50, What: "series"}
		t.Cleanup(l.Forget)
		return l
	}
	window, budget, twin := limit("gpu_window", "max_series"), limit("gpu_budget", "max_series"), limit("gpu_window", "max_series")
	window.Refused(zap.NewNop(), now, 0)
	assert.Empty(t, sayonce.Reached(now), "nothing was refused")
	window.Refused(zap.NewNop(), now, 7)
	twin.Refused(zap.NewNop(), now, 7)
	budget.Refused(zap.NewNop(), now.Add(sayonce.Well/2), 1)
	reached := sayonce.Reached(now.Add(sayonce.Well / 2))
	if assert.Len(t, reached, 2, "instances of one component are one") {
		assert.Equal(t, "gpu_budget", reached[0].Component)
		assert.Equal(t, "gpu_window", reached[1].Component)
	}
	assert.Equal(t, []*sayonce.Limit{budget}, sayonce.Reached(now.Add(sayonce.Well)), "the others refused nothing for long")
	budget.Forget()
	assert.Empty(t, sayonce.Reached(now.Add(sayonce.Well)), "it ended")
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
