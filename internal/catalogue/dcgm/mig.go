package dcgm

import (
	"regexp"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

var profileForm = regexp.MustCompile(`^(?:\d+c\.)?([1-7])g\.\d{1,4}gb(?:[+-](?:me|gfx|me\.all))*$`)

// ProfileSlices returns the number of compute slices of a GPU instance by its MIG profile, such as
// 1g.10gb, 1c.3g.40gb or 1g.5gb+me. It is 0 when the text is no profile.
func ProfileSlices(profile string) int {
	m := profileForm.FindStringSubmatch(profile)
	if m == nil {
		return 0
	}
	return int(m[1][0] - '0')
}

// computeSlices are the compute slices of boards that have MIG, by a part of the folded
// model name; the first match counts. Sources: the MIG manager's default
// configuration of the GPU operator, for B300 NVIDIA's user guide.
var computeSlices = []struct {
	model   string
	compute int
}{
	{"a100", 7},
	{"a30", 4},
	{"gh200", 7},
	{"h20", 7},
	{"h100", 7},
	{"h200", 7},
	{"gb200", 7},
	{"b200", 7},
	{"b300", 7},
	{"rtx pro 6000", 4},
}

// ModelSlices returns the number of compute slices that boards of a model are
// cut into. It reports false for models that are not known to have MIG.
func ModelSlices(model string) (int, bool) {
	folded := catalogue.FoldModel(model)
	for _, s := range computeSlices {
		if containsWords(folded, s.model) {
			return s.compute, true
		}
	}
	return 0, false
}

// containsWords reports whether the words stand in the text as whole words.
func containsWords(text, words string) bool {
	return strings.Contains(" "+text+" ", " "+words+" ")
}
