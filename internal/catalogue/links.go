package catalogue

// pcieLaneRate is the payload of one PCIe lane in one direction, in bytes per
// second, by generation.
var pcieLaneRate = [...]float64{1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}

// PCIeCapacity returns the capacity of a PCIe link in one direction, in bytes per second, from its
// generation and width. It returns false for links that do not exist.
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

// AboveCapacity reports whether a byte rate exceeds 1.5 times the capacity of a link. The capacity
// is 0 if it is unknown. The margin allows for an inexact interval.
func AboveCapacity(rate, capacity float64) bool { return capacity > 0 && rate > 1.5*capacity }
