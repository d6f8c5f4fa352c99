package componenthelper

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestATroubleIsLoggedAgainOnlyAfterItWasAbsent(t *testing.T) {
	var trouble Trouble
	now := time.Now()
	assert.True(t, trouble.ShouldLog(now), "the first time")
	for range 100 {
		now = now.Add(LogAgainAfter - time.Second)
		assert.False(t, trouble.ShouldLog(now), "it never ended")
	}
	now = now.Add(LogAgainAfter)
	assert.True(t, trouble.ShouldLog(now))
	assert.False(t, trouble.ShouldLog(now))
}

func TestReachedLimitsAreThoseOfTheProcessThatRefusedOfLate(t *testing.T) {
	now := time.Now()
	limit := func(component, setting string) *Limit {
		l := &Limit{Component: component, Setting: setting, Value: 50, What: "series"}
		t.Cleanup(l.Forget)
		return l
	}
	window, budget, twin := limit("gpu_window", "max_series"), limit("gpu_budget", "max_series"), limit("gpu_window", "max_series")
	window.Refused(zap.NewNop(), now, 0)
	assert.Empty(t, Reached(now), "nothing was refused")
	window.Refused(zap.NewNop(), now, 7)
	twin.Refused(zap.NewNop(), now, 7)
	budget.Refused(zap.NewNop(), now.Add(LogAgainAfter/2), 1)
	reached := Reached(now.Add(LogAgainAfter / 2))
	if assert.Len(t, reached, 2, "instances of one component are one") {
		assert.Equal(t, "gpu_budget", reached[0].Component)
		assert.Equal(t, "gpu_window", reached[1].Component)
	}
	assert.Equal(t, []*Limit{budget}, Reached(now.Add(LogAgainAfter)), "the others refused nothing for long")
	budget.Forget()
	assert.Empty(t, Reached(now.Add(LogAgainAfter)), "it ended")
}

func TestALimitNamesTheSettingToRaise(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	limit := Limit{Setting: "max_series", Value: 50, What: "series"}
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

func TestAFailureIsLoggedWhenItBeginsAndWhenItEnds(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	f := Failure{Logger: zap.New(core), Fails: "It fails.", Works: "It works again."}
	disk := errors.New("disk full")
	for _, err := range []error{nil, disk, errors.New("disk gone"), nil, nil, disk} {
		f.Result(err, zap.String("operation", "write"))
	}
	var messages []string
	for _, e := range logs.All() {
		messages = append(messages, e.Level.String()+" "+e.Message)
	}
	assert.Equal(t, []string{"warn It fails.", "info It works again.", "warn It fails."}, messages)
	assert.Equal(t, map[string]any{"operation": "write", "error": "disk full"}, logs.All()[0].ContextMap())
	assert.Empty(t, logs.All()[1].ContextMap())
}

func TestAFailureIsAsSevereAsItsLevel(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	f := Failure{Logger: zap.New(core), Fails: "It fails.", Level: zap.ErrorLevel}
	f.Result(errors.New("disk full"))
	assert.Equal(t, zap.ErrorLevel, logs.All()[0].Level)
}

func TestAFailureWithoutLinesLogsNothing(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	f := Failure{Logger: zap.New(core)}
	f.Result(errors.New("disk full"))
	f.Result(nil)
	assert.Zero(t, logs.Len())
}
