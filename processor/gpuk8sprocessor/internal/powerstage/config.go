package powerstage

import (
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/idle"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/section"
)

// Values of weighting.
const (
	weightingSlices = "slices"
	weightingNone   = "none"
)

// maxWatts is the maximum plausible power, in W, and is far above the power of any board.
const maxWatts = 100_000

// IdleConfig configures the idle power of boards, in W. The most specific setting that applies to a
// board is used. by_uuid is more specific than by_model, and by_model is more specific than watts.
// If no setting applies to a board, the section uses the lowest power that the board drew while it
// was idle.
type IdleConfig struct {
	// Watts is the idle power of every board without a more specific setting.
	Watts *float64 `mapstructure:"watts"`
	// ByUUID maps the hw.id of a board, such as GPU-5fd4…, to its idle power.
	ByUUID map[string]*float64 `mapstructure:"by_uuid"`
	// ByModel maps the hw.model of boards to their idle power. Model comparison ignores case and
	// treats spaces as dashes.
	ByModel map[string]*float64 `mapstructure:"by_model"`
	// Expire is how long a learned idle power is used after the board was last idle.
	Expire time.Duration `mapstructure:"expire"`
}

// Config configures the power section of gpu_k8s.
type Config struct {
	// Idle configures the idle power of boards.
	Idle IdleConfig `mapstructure:"idle"`
	// Weighting determines how the activity of MIG instances is weighted. If Weighting is "slices",
	// the activity of an instance is multiplied by the instance's number of compute slices. If
	// Weighting is "none", the activity is not weighted.
	Weighting string `mapstructure:"weighting"`
	// MaxGap is the maximum time for which a power value counts toward energy if the next sample is
	// missing. MaxGap is also the maximum time for which a process list is used.
	MaxGap time.Duration `mapstructure:"max_gap"`
	// MaxSeries is the maximum total number of boards and energy counters. MaxSeries is also the
	// maximum number of nodes. Boards, energy counters, and nodes beyond the limit are refused and
	// counted.
	MaxSeries int `mapstructure:"max_series"`
	// Shared contains the settings that gpu_k8s provides. If storage is configured, learned
	// baselines are restored from storage after every restart. Energy counters are restored only
	// after a clean shutdown.
	*section.Shared `mapstructure:"-"`
}

// NewDefaultConfig returns the default settings of the section.
func NewDefaultConfig() Config {
	return Config{
		Idle:      IdleConfig{Expire: 24 * time.Hour},
		Weighting: weightingSlices,
		MaxGap:    90 * time.Second,
		MaxSeries: 200_000,
	}
}

// Emitted lists the metrics that this section emits.
var Emitted = []*signal.Metric{
	signal.GPUPowerIdle, signal.GPUPowerActive, signal.GPUPowerUnattributed, signal.GPUInstancePower,
	signal.K8sContainerGPUPower, signal.K8sContainerGPUEnergy, signal.ProcessGPUPower,
}

// Unmarshal implements confmap.Unmarshaler with [componenthelper.Unmarshal].
func (c *Config) Unmarshal(conf *confmap.Conf) error { return componenthelper.Unmarshal(conf, c) }

// Validate returns an error that describes every invalid field.
func (c *Config) Validate() error {
	var p componenthelper.Problems
	watts := func(field string, w *float64) {
		if w == nil { // A missing value must not be treated as 0.
			p.Add(fmt.Errorf("%s is empty: must be between 0 and %d watts", field, maxWatts))
			return
		}
		p.Check(*w >= 0 && *w <= maxWatts, "%s is %v: must be between 0 and %d watts", field, *w, maxWatts)
	}
	if c.Idle.Watts != nil {
		watts("idle::watts", c.Idle.Watts)
	}
	for uuid, w := range c.Idle.ByUUID {
		p.Check(uuid != "" && !strings.Contains(uuid, "/"), // GPU-<uuid>/gi<id> is an instance
			"idle::by_uuid has the key %q: must be the hw.id of a board", uuid)
		watts("idle::by_uuid::"+uuid, w)
	}
	models := map[string]string{}
	for model, w := range c.Idle.ByModel {
		folded := catalogue.FoldModel(model)
		other, twice := models[folded]
		p.Check(folded != "", "idle::by_model has the key %q: must be a model name", model)
		p.Check(folded == "" || !twice, "idle::by_model has the keys %q and %q: must contain each model only once", min(model, other), max(model, other))
		models[folded] = model
		watts("idle::by_model::"+model, w)
	}
	componenthelper.Between(&p, "idle::expire", c.Idle.Expire, time.Minute, 365*24*time.Hour)
	p.Check(c.Weighting == weightingSlices || c.Weighting == weightingNone,
		"weighting is %q: must be %q or %q", c.Weighting, weightingSlices, weightingNone)
	componenthelper.Between(&p, "max_gap", c.MaxGap, 100*time.Millisecond, 24*time.Hour)
	p.MaxSeries(c.MaxSeries)
	return p.Err()
}

// table converts the configuration to an idle.Table. The configuration must be valid.
func (c *IdleConfig) table() idle.Table {
	t := idle.Table{ByUUID: map[string]float64{}, ByModel: map[string]float64{}, All: c.Watts}
	for uuid, w := range c.ByUUID {
		t.ByUUID[uuid] = *w
	}
	for model, w := range c.ByModel {
		t.ByModel[catalogue.FoldModel(model)] = *w
	}
	return t
}
