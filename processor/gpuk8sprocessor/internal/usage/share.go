// Package usage divides the time of GPU boards among those who hold them: allocated, active of
// it, unallocated, and unobserved.
package usage

import (
	"math"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// Unknown is a ratio or a size that is not known.
func Unknown() float64 { return math.NaN() }

// Device is a board that is not cut into instances, or an instance, at one moment. Ratios are
// in [0, 1].
type Device struct {
	// Size is the device in board equivalents: 1 for a board. Unknown for an instance whose
	// part of the board is not known.
	Size float64
	// HoldersKnown means that Holders are complete.
	HoldersKnown bool
	// Utilization of the device, or Unknown.
	Utilization float64
	Holders     []Holder
}

// Holder is who holds a device.
type Holder struct {
	gpudata.Holder
	// Declared is the part of the device's compute that was declared for the holder, 0 for none.
	Declared float64
	// Weight is the number of parts that the holder gets of the divided rest, at least 1: its
	// replicas.
	Weight int
	// Utilization of the device by the holder's own processes, or Unknown.
	Utilization float64

	// Share is what the holder has, in board equivalents, and Estimated that it was divided
	// or scaled. Used is how much of Share was used, or Unknown.
	Share     float64
	Estimated bool
	Used      float64
}

// Board is the devices of a board at one moment.
type Board struct {
	Devices []Device
	// Unlisted says that the rest of the board is instances that no row names: it is unobserved
	// and not unallocated.
	Unlisted bool

	// Unallocated and Unobserved are the parts without a holder and with an unknown one, in
	// board equivalents. With the shares of all holders they add up to 1.
	Unallocated, Unobserved float64
}

// Divide computes the share of each holder of the board.
func (b *Board) Divide() {
	b.Unallocated, b.Unobserved = 0, 0
	known, whole := 0.0, !b.Unlisted // what the devices are together, and that this is all of them
	for i := range b.Devices {
		if size := b.Devices[i].Size; math.IsNaN(size) {
			whole = false
		} else {
			known += size
		}
	}
	scale := 1 / max(known, 1) // no board is more than one
	if rest := max(0, 1-known); whole {
		b.Unallocated += rest
	} else {
		b.Unobserved += rest
	}
	for i := range b.Devices {
		d := &b.Devices[i]
		size := d.Size * scale
		switch {
		case math.IsNaN(size):
			d.divide(0)
		case d.HoldersKnown:
			b.Unallocated += d.divide(size)
		default:
			d.divide(0)
			b.Unobserved += size
		}
	}
}

// divide divides a device of that size among its holders and returns what is left.
func (d *Device) divide(size float64) (left float64) {
	declared, without := 0.0, 0 // parts
	for i := range d.Holders {
		if c := d.Holders[i].Declared; c > 0 {
			declared += c
		} else {
			without += max(1, d.Holders[i].Weight)
		}
	}
	scale := 1 / max(declared, 1)
	rest := max(0, 1-declared)
	for i := range d.Holders {
		h := &d.Holders[i]
		part := h.Declared * scale
		h.Estimated = declared > 1
		if !(h.Declared > 0) {
			part = rest * float64(max(1, h.Weight)) / float64(without)
			h.Estimated = len(d.Holders) > 1
		}
		h.Share = part * size
		switch {
		case !math.IsNaN(h.Utilization):
			h.Used = min(h.Share, h.Utilization*size)
		default:
			h.Used = h.Share * d.Utilization // NaN where it is not known
		}
	}
	if without > 0 {
		return 0
	}
	return rest * size
}
