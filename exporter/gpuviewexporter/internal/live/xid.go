package live

import "github.com/otelcol-gpu/otelcol-gpu/internal/dcgm"

// xidText returns what an XID code means and what to do about it, both short.
func xidText(code int) (meaning, action string) {
	switch dcgm.ClassifyXID(code) {
	case dcgm.XIDApplication:
		return "an error of the program that used the GPU", "see the program"
	case dcgm.XIDFatal:
		return "the board has failed", "reset or replace"
	case dcgm.XIDMemory:
		return "a memory error, corrected or contained", "watch"
	case dcgm.XIDMicrocontroller:
		return "an error of the GPU's own controllers", "reset"
	case dcgm.XIDLink:
		return "an error of PCIe, NVLink or the fabric", "check the link"
	case dcgm.XIDPower:
		return "an error of power delivery or clocks", "check power"
	case dcgm.XIDNotice:
		return "a change of state", "see the catalogue"
	}
	return "not in the catalogue", "see the catalogue"
}

// xidRank orders codes by urgency: those that end the work of a board come first.
func xidRank(code int) int {
	if dcgm.ClassifyXID(code) == dcgm.XIDFatal {
		return 0
	}
	return 1
}
