package budgetstage

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// other replaces the container and the device with others.
var other = strings.NewReplacer("GPU-1", "GPU-2", "@a", "@b")

func TestPointsAboveMaxSeriesAreLoggedOnce(t *testing.T) {
	for name, second := range map[string]string{
		"a process": `10s {n1} process.gpu.memory.usage {hw.id=GPU-1, process.pid=1} = 1
10s {n1} process.gpu.memory.usage {hw.id=GPU-1, process.pid=2} = 1`,
	} {
		t.Run(name, func(t *testing.T) {
			core, logs := observer.New(zap.WarnLevel)
			set := nop()
			set.Logger = zap.New(core)
			cfg := defaults()
			cfg.MaxSeries = 1
			p := newTestProcessor(t, cfg, set, componenttest.NewNopHost(), nil)
			feed(t, p, parse(t, exclusive(10*time.Second, "4Gi"), false))
			assert.Empty(t, logs.All())
			for range 2 {
				feed(t, p, parse(t, other.Replace(second), false))
			}
			if assert.Equal(t, 1, logs.Len()) {
				assert.Contains(t, logs.All()[0].Message, "max_series of 1 is reached: new processes or values of containers")
			}
		})
	}
}
