// Package usage divides the time of GPU boards among their holders: allocated and active time,
// unallocated time, and unobserved time.
package usage

import (
	"math"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// Unknown returns the value of an unknown ratio or size.
func Unknown() float64 { return math.NaN() }

// Device is an instance, or a board without instances, at one time. Ratios are in [0, 1].
type Device struct {
	// Size is the size of the device in board equivalents: 1 for a board, or Unknown for an
	// instance whose part of the board is unknown.
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
	// Declared is the part of the device's compute that is declared for the holder, or 0 if no part
	// is declared.
	Declared float64
	// Weight is the number of replicas, at least 1. The undeclared part of the device is divided in
	// proportion to the weights.
	Weight int
	// Utilization is the utilization of the device by the holder's own processes, or Unknown.
	Utilization float64

	// Share is the holder's part, in board equivalents. Estimated is true if the share is the
	// result of a division or of scaling. Used is the part of Share that was used, or Unknown.
	Share     float64
	Estimated bool
	Used      float64
}

// Board contains the devices of a board at one time.
type Board struct {
	Devices []Device
	// Unlisted is true if the rest of the board consists of instances that are not in Devices. The
	// rest then counts as unobserved, not as unallocated.
	Unlisted bool

	// Unallocated is the part without a holder. Unobserved is the part with unknown holders. Both
	// are in board equivalents. These parts and the shares of all holders add up to 1.
	Unallocated, Unobserved float64
}

// Divide computes the share of each holder of the board.
func (b *Board) Divide() {
	b.Unallocated, b.Unobserved = 0, 0
	sizes, complete := 0.0, !b.Unlisted // the sum of the known sizes, and whether it covers the entire board
	for i := range b.Devices {
		if size := b.Devices[i].Size; math.IsNaN(size) {
			complete = false
		} else {
			sizes += size
		}
	}
	scale := 1 / max(sizes, 1) // so that the sizes of a board's devices add up to at most 1
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

// divide divides a device of this size among its holders and returns the unallocated part.
func (d *Device) divide(size float64) (unallocated float64) {
	declared, without := 0.0, 0 // sum of the declared parts, and the total weight of the holders without a declaration
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
			h.Used = h.Share * d.Utilization // NaN if it is unknown
		}
	}
	if without > 0 {
		return 0
	}
	return rest * size
}
