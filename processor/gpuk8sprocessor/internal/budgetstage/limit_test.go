package budgetstage

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestValuesAboveMaxSeriesAreLoggedOnce(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	set := nop()
	set.Logger = zap.New(core)
	cfg := defaults()
	cfg.MaxSeries = 1
	p := newTestProcessor(t, cfg, set, componenttest.NewNopHost(), nil)
	feed(t, p, parse(t, exclusive(10*time.Second, "4Gi"), false))
	assert.Empty(t, logs.All())
	for range 2 {
		feed(t, p, parse(t, `10s {@b} k8s.container.gpu.memory.usage {hw.id=GPU-2} = 1
10s {@c} k8s.container.gpu.memory.usage {hw.id=GPU-2} = 1`, false))
	}
	if assert.Equal(t, 1, logs.Len()) {
		assert.Contains(t, logs.All()[0].Message, "max_series of 1 is reached: new values of containers")
	}
}
