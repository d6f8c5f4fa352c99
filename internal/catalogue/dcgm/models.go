package dcgm

import (
	"regexp"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// Model contains the known properties of a board model. In the zero Model, all properties are
// unknown.
type Model struct {
	catalogue.Capacities
	// NVLinkGeneration is 4 for Hopper and 5 for Blackwell, which have different error counters. A
	// value of 0 means that the generation is older or unknown.
	NVLinkGeneration int
	// Virtual is true for a virtual GPU, which shares its board's links.
	Virtual bool
	// WithoutNVLink is true for boards that cannot have NVLink, not even through a bridge.
	// NVLinkByBridge is true for boards that have NVLink only if a bridge connects them to another
	// board.
	WithoutNVLink, NVLinkByBridge bool
	// WithoutProfiling is true for boards that DCGM cannot profile.
	WithoutProfiling bool
}

// models maps words in the folded model name to the properties of the model. If several entries
// match, the first entry is used.
//
// Capacities are from NVIDIA's data sheets. If a data sheet states the sum of both directions, the
// capacity is half of the sum. If the link width or the bridge of a model differs between machines
// (L4, H100 NVL, H200 NVL), the model has no capacity for that link, because a missing ratio is
// better than a wrong one.
//
// According to the data sheets, Ada boards, RTX PRO boards, data center boards below the A30, and
// workstation boards below the RTX A4500 have no NVLink. The GeForce 2070 SUPER, 2080, and 3090 and
// their Ti models have NVLink through a bridge.
//
// DCGM can profile Volta and later boards, except GeForce boards before RTX 50 (according to NVIDIA
// in DCGM issue 234).
var models = []struct {
	Model
	words []string
}{
	{Model{Capacities: catalogue.Capacities{PCIe: 15.76e9}, WithoutNVLink: true}, []string{"t4", "v100 pcie"}},
	{Model{Capacities: catalogue.Capacities{PCIe: 15.76e9, NVLink: 150e9}}, []string{"v100 sxm2", "v100 sxm3"}},
	{Model{Capacities: catalogue.Capacities{PCIe: 15.76e9}}, []string{"v100"}},
	{Model{Capacities: catalogue.Capacities{PCIe: 31.504e9}, WithoutNVLink: true}, []string{"l40s", "l40"}},
	{Model{Capacities: catalogue.Capacities{PCIe: 31.504e9, NVLink: 300e9}}, []string{"a100 sxm4"}},
	{Model{Capacities: catalogue.Capacities{PCIe: 31.504e9}, NVLinkByBridge: true}, []string{"a100"}},
	{Model{Capacities: catalogue.Capacities{PCIe: 63.008e9}, NVLinkGeneration: 4, NVLinkByBridge: true}, []string{"h100 nvl", "h100 pcie", "h200 nvl"}},
	{Model{Capacities: catalogue.Capacities{PCIe: 63.008e9, NVLink: 450e9}, NVLinkGeneration: 4}, []string{"h100", "h200"}},
	{Model{NVLinkGeneration: 4}, []string{"h20", "h800", "gh200"}},
	{Model{Capacities: catalogue.Capacities{NVLink: 900e9}, NVLinkGeneration: 5}, []string{"gb200"}},
	{Model{Capacities: catalogue.Capacities{PCIe: 63.008e9, NVLink: 900e9}, NVLinkGeneration: 5}, []string{"b200"}},
	{Model{NVLinkGeneration: 5}, []string{"b100", "b300", "gb300"}},

	{Model{NVLinkByBridge: true}, []string{
		"a30", "a40", "rtx a4500", "rtx a5000", "rtx a5500", "rtx a6000",
		"quadro rtx 5000", "quadro rtx 6000", "quadro rtx 8000", "quadro gv100", "titan rtx",
	}},
	{Model{WithoutNVLink: true}, []string{
		"a2", "a10", "a10g", "a10m", "a16", "l2", "l4", "l20", "l40g", "v100s", "v100 fhhl",
		"ada", "rtx pro", "rtx a400", "rtx a1000", "rtx a2000", "rtx a4000",
		"quadro rtx 3000", "quadro rtx 4000", "t400", "t600", "t1000",
		"geforce rtx 5050", "geforce rtx 5060", "geforce rtx 5070", "geforce rtx 5080", "geforce rtx 5090",
	}},
	{Model{WithoutProfiling: true, NVLinkByBridge: true}, []string{
		"geforce rtx 2070 super", "geforce rtx 2080", "geforce rtx 3090", "quadro gp100",
	}},
	{Model{WithoutProfiling: true}, []string{"p100 sxm2"}},
	{Model{WithoutNVLink: true, WithoutProfiling: true}, []string{
		"geforce", "p100", "p40", "p6", "p4", "m60", "m40", "m10", "m6", "m4", "k80",
	}},
}

// LookupModel returns the known properties of the board model with the given name.
func LookupModel(name string) Model {
	folded := catalogue.FoldModel(name)
	if virtual.MatchString(folded) {
		return Model{Virtual: true}
	}
	for i := range models {
		if hasWord(folded, models[i].words) {
			return models[i].Model
		}
	}
	return Model{}
}

// virtual matches the folded name of a virtual GPU. In vGPU drivers up to version 12, "GRID"
// precedes the vGPU type. In later drivers, the type ends with the memory size in GB and the series
// (A, B, C, or Q). Examples are A100-10C, H100-1-10CME (with media engines), and RTX6000-Ada-48Q.
// DCGM_FI_DEV_VGPU_LICENSE_STATUS does not prove that a GPU is virtual: the field is in default
// lists of counters, is 0 in a virtual machine without a license, and may also be exposed for a
// passed-through board.
var virtual = regexp.MustCompile(`^grid |(^| )\d+[abcq](me|gfx|nogfx)?$`)
