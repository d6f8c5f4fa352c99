package usage

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestADeviceIsDividedAmongItsHolders(t *testing.T) {
	for name, tt := range map[string]struct {
		declared    []float64
		want        []float64
		estimated   bool // estimated applies to the holders without a declaration, or to all holders if the declarations are scaled.
		unallocated float64
	}{
		"a single holder gets the entire device":           {[]float64{0}, []float64{1}, false, 0},
		"a single holder gets its declared part":           {[]float64{0.25}, []float64{0.25}, false, 0.75},
		"four holders that declare 25% each":               {[]float64{0.25, 0.25, 0.25, 0.25}, []float64{0.25, 0.25, 0.25, 0.25}, false, 0},
		"holders without declarations get equal parts":     {[]float64{0, 0}, []float64{0.5, 0.5}, true, 0},
		"other holders divide the undeclared part":         {[]float64{0.5, 0, 0}, []float64{0.5, 0.25, 0.25}, true, 0},
		"declarations above one are scaled":                {[]float64{1, 1}, []float64{0.5, 0.5}, true, 0},
		"no part remains for holders without declarations": {[]float64{1, 1, 0}, []float64{0.5, 0.5, 0}, true, 0},
		"an undeclared part is unallocated":                {[]float64{0.25, 0.5}, []float64{0.25, 0.5}, false, 0.25},
		"a device without holders is unallocated":          {nil, nil, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			d := Device{Size: 1, HoldersKnown: true, Utilization: 0.5}
			for _, c := range tt.declared {
				d.Holders = append(d.Holders, Holder{Declared: c, Utilization: Unknown()})
			}
			b := Board{Devices: []Device{d}}
			b.Divide()
			var got []float64
			sum := 0.0
			for _, h := range b.Devices[0].Holders {
				got = append(got, h.Share)
				sum += h.Declared
			}
			for _, h := range b.Devices[0].Holders {
				assert.Equal(t, tt.estimated && (h.Declared == 0 || sum > 1), h.Estimated)
				assert.InDelta(t, h.Share/2, h.Used, 1e-15)
			}
			assert.Equal(t, tt.want, got)
			assert.InDelta(t, tt.unallocated, b.Unallocated, 1e-15)
			assert.Zero(t, b.Unobserved)
		})
	}
}

func TestADeviceIsDividedByReplicas(t *testing.T) {
	b := Board{Devices: []Device{{Size: 1, HoldersKnown: true, Utilization: 1, Holders: []Holder{
		{Declared: 0.25, Weight: 5}, {Weight: 2}, {Weight: 0},
	}}}}
	b.Divide()
	for i, want := range []float64{0.25, 0.5, 0.25} {
		assert.InDelta(t, want, b.Devices[0].Holders[i].Share, 1e-15)
	}
}

func TestAHolderUsesNoMoreThanItsShare(t *testing.T) {
	b := Board{Devices: []Device{{Size: 0.5, HoldersKnown: true, Utilization: 1, Holders: []Holder{
		{Utilization: 0.9}, {Utilization: 0.1},
	}}}}
	b.Divide()
	assert.InDelta(t, 0.25, b.Devices[0].Holders[0].Used, 1e-15)
	assert.InDelta(t, 0.05, b.Devices[0].Holders[1].Used, 1e-15)
}

// For any devices and holders, the parts of a board add up to 1, and no part is negative.
func TestThePartsOfABoardAddUpToOne(t *testing.T) {
	ratio := rapid.OneOf(rapid.Just(0.0), rapid.Just(1.0), rapid.Float64Range(0, 1))
	orUnknown := rapid.OneOf(ratio, rapid.Just(math.NaN()))
	rapid.Check(t, func(t *rapid.T) {
		var b Board
		for range rapid.IntRange(1, 8).Draw(t, "devices") {
			d := Device{Size: orUnknown.Draw(t, "size"), HoldersKnown: rapid.Bool().Draw(t, "known"), Utilization: orUnknown.Draw(t, "utilization")}
			for range rapid.IntRange(0, 5).Draw(t, "holders") {
				d.Holders = append(d.Holders, Holder{Declared: ratio.Draw(t, "declared"), Weight: rapid.IntRange(0, 3).Draw(t, "weight"), Utilization: orUnknown.Draw(t, "own")})
			}
			b.Devices = append(b.Devices, d)
		}
		b.Divide()
		sum := b.Unallocated + b.Unobserved
		assert.GreaterOrEqual(t, min(b.Unallocated, b.Unobserved), 0.0)
		for _, d := range b.Devices {
			for _, h := range d.Holders {
				sum += h.Share
				assert.GreaterOrEqual(t, h.Share, 0.0)
				assert.False(t, h.Used > h.Share || h.Used < 0, "%v of %v", h.Used, h.Share)
			}
		}
		assert.InDelta(t, 1, sum, 1e-12)
	})
}
