package dcgm

import "strings"

// pcieLaneRate is the payload of one PCIe lane in one direction, in bytes per
// second, by generation.
var pcieLaneRate = [...]float64{1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}

// PCIeCapacity returns the capacity of a PCIe link in one direction, in bytes
// per second, from its generation and width. It reports false for links that
// do not exist.
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

// Links is what a model's links can carry in one direction, in bytes per
// second; 0 is unknown or none.
type Links struct {
	PCIe, NVLink float64
}

// models goes by words of the folded model name; the first match counts.
// Capacities are those of NVIDIA's data sheets, halved where the sheet gives
// both directions together. Boards whose width or bridge differs from machine
// to machine (L4, H100 NVL, H200 NVL) have no entry for that link: no ratio is
// better than a wrong one.
var models = []struct {
	words string
	Links
}{
	{"tesla t4", Links{15.76e9, 0}},
	{"t4", Links{15.76e9, 0}},
	{"l40s", Links{31.504e9, 0}},
	{"l40", Links{31.504e9, 0}},
	{"v100 sxm2", Links{15.76e9, 150e9}},
	{"v100 sxm3", Links{15.76e9, 150e9}},
	{"v100", Links{15.76e9, 0}},
	{"a100 sxm4", Links{31.504e9, 300e9}},
	{"a100", Links{31.504e9, 0}},
	{"h100 nvl", Links{63.008e9, 0}},
	{"h100 pcie", Links{63.008e9, 0}},
	{"h100", Links{63.008e9, 450e9}},
	{"h200 nvl", Links{63.008e9, 0}},
	{"h200", Links{63.008e9, 450e9}},
	{"gb200", Links{0, 900e9}},
	{"b200", Links{63.008e9, 900e9}},
}

// ModelLinks returns the link capacities of a model. Virtual GPUs (GRID) share
// their board's links and have none of their own.
func ModelLinks(model string) Links {
	folded := foldModel(model)
	if strings.HasPrefix(folded, "grid ") {
		return Links{}
	}
	for i := range models {
		if containsWords(folded, models[i].words) {
			return models[i].Links
		}
	}
	return Links{}
}
