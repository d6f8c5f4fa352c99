// Package usage divides the time of GPU boards into allocated, unallocated, and unobserved time.
// Allocated time is divided among the holders of the board. Each holder's allocated time is divided
// into active and idle time.
package usage

import (
	"math"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// Unknown returns the value that represents an unknown ratio or size.
func Unknown() float64 { return math.NaN() }

// Device describes a MIG instance, or a board without instances, at one time. Ratios are in the
// range [0, 1].
type Device struct {
	// Size is the size of the device in board equivalents. The Size of a board is 1. For an
	// instance whose part of the board is unknown, Size is Unknown.
	Size float64
	// HoldersKnown is true if the list of holders is complete.
	HoldersKnown bool
	// Utilization is the utilization of the device, or Unknown.
	Utilization float64
	Holders     []Holder
}

// Holder is a holder of a device.
type Holder struct {
	gpudata.Holder
	// Declared is the fraction of the device's compute capacity that is declared for the holder, or
	// 0 if nothing is declared.
	Declared float64
	// Weight is the holder's number of replicas. The part of the device for which nothing is
	// declared is divided in proportion to the weights. A Weight below 1 counts as 1.
	Weight int
	// Utilization is how much the holder's processes use the device, or Unknown.
	Utilization float64

	// Share is the holder's share of the board, in board equivalents. Estimated is true if nothing
	// is declared for the holder and the device has other holders, or if Share was scaled because
	// the declared fractions of the device's holders add up to more than 1. Used is the part of
	// Share that was used, or Unknown.
	Share     float64
	Estimated bool
	Used      float64
}

// Board describes a board at one time.
type Board struct {
	Devices []Device
	// Unlisted is true if the board can have instances that are not in Devices. If Unlisted is
	// true, the part of the board that is not in Devices counts as unobserved rather than
	// unallocated.
	Unlisted bool

	// Unallocated is the part of the board that nobody holds. Unobserved is the part of the board
	// whose holders are unknown. Unallocated and Unobserved are in board equivalents. Unallocated,
	// Unobserved, and the shares of all holders add up to 1.
	Unallocated, Unobserved float64
}

// Divide computes the share of each holder of the board.
func (b *Board) Divide() {
	b.Unallocated, b.Unobserved = 0, 0
	sizes, complete := 0.0, !b.Unlisted // sizes is the sum of the known sizes. complete is true if all parts of the board are known.
	for i := range b.Devices {
		if size := b.Devices[i].Size; math.IsNaN(size) {
			complete = false
		} else {
			sizes += size
		}
	}
	scale := 1 / max(sizes, 1) // After scaling, the sizes of the board's devices add up to at most 1.
	if rest := max(0, 1-sizes); complete {
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

// divide divides a device of the given size among the device's holders and returns the unallocated
// part.
func (d *Device) divide(size float64) (unallocated float64) {
	declared, without := 0.0, 0 // The declared variable is the sum of the declared fractions. The without variable is the total weight of the holders for which nothing is declared.
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
			h.Used = h.Share * d.Utilization // The result is NaN if the utilization is unknown.
		}
	}
	if without > 0 {
		return 0
	}
	return rest * size
}
