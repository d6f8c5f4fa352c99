package catalogue

// pcieLaneRate maps each PCIe generation to the payload rate of one lane in one direction, in bytes
// per second.
var pcieLaneRate = [...]float64{1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}

// PCIeCapacity returns the capacity of a PCIe link in one direction, in bytes per second.
// PCIeCapacity returns false for a combination of generation and width that does not exist.
func PCIeCapacity(generation, lanes float64) (float64, bool) {
	g := int(generation)
	if float64(g) != generation || g < 1 || g >= len(pcieLaneRate) {
		return 0, false
	}
	switch lanes {
	case 1, 2, 4, 8, 16:
		return pcieLaneRate[g] * lanes, true
	}
	return 0, false
}

// AboveCapacity reports whether a byte rate exceeds 1.5 times the capacity of a link. The margin
// allows for inexact scrape intervals. If the capacity is 0, which means unknown, AboveCapacity
// returns false.
func AboveCapacity(rate, capacity float64) bool { return capacity > 0 && rate > 1.5*capacity }
