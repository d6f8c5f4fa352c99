package dcgm

import (
	"regexp"
	"strconv"
	"strings"
)

// Profile is a MIG profile such as 1g.10gb, 1c.3g.40gb or 1g.5gb+me.
type Profile struct {
	// Name is the profile as exposed.
	Name string
	// Compute is the number of compute slices of the GPU instance.
	Compute int
	// MemoryGB is the memory size in the name, rounded by NVIDIA: for
	// arithmetic use the instance's own FB_USED + FB_FREE.
	MemoryGB int
	// MediaExtensions says that the instance has media engines (+me).
	MediaExtensions bool
}

var profileForm = regexp.MustCompile(`^(?:(\d+)c\.)?(\d+)g\.(\d+)gb((?:[+-](?:me|gfx|me\.all))*)$`)

// ParseProfile reads a MIG profile's name. It reports false when the text is
// none.
func ParseProfile(name string) (Profile, bool) {
	m := profileForm.FindStringSubmatch(name)
	if m == nil {
		return Profile{}, false
	}
	compute, err1 := strconv.Atoi(m[2])
	memory, err2 := strconv.Atoi(m[3])
	if err1 != nil || err2 != nil || compute < 1 || compute > 7 {
		return Profile{}, false
	}
	return Profile{
		Name: name, Compute: compute, MemoryGB: memory,
		MediaExtensions: strings.Contains(m[4], "+me"),
	}, true
}

// Slicing is how a model's boards are cut.
type Slicing struct {
	// Compute and Memory are the number of slices of the whole board.
	Compute, Memory int
	// Profiles are the profiles without +me and +gfx variants.
	Profiles []string
}

// slicings goes by a part of the folded model name; the first match counts.
// Sources: the MIG manager's default configuration of the GPU operator, for
// B300 NVIDIA's user guide.
var slicings = []struct {
	model string
	Slicing
}{
	{"a100 sxm4 40gb", Slicing{7, 8, []string{"1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"}}},
	{"a100 pcie 40gb", Slicing{7, 8, []string{"1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"}}},
	{"a100", Slicing{7, 8, []string{"1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"}}},
	{"a30", Slicing{4, 4, []string{"1g.6gb", "2g.12gb", "4g.24gb"}}},
	{"h100 nvl", Slicing{7, 8, []string{"1g.12gb", "1g.24gb", "2g.24gb", "3g.47gb", "4g.47gb", "7g.94gb"}}},
	{"gh200 144g", Slicing{7, 8, []string{"1g.18gb", "1g.36gb", "2g.36gb", "3g.72gb", "4g.72gb", "7g.144gb"}}},
	{"gh200", Slicing{7, 8, []string{"1g.12gb", "1g.24gb", "2g.24gb", "3g.48gb", "4g.48gb", "7g.96gb"}}},
	{"h20", Slicing{7, 8, []string{"1g.12gb", "1g.24gb", "2g.24gb", "3g.48gb", "4g.48gb", "7g.96gb"}}},
	{"h100", Slicing{7, 8, []string{"1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"}}},
	{"h200", Slicing{7, 8, []string{"1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"}}},
	{"gb200", Slicing{7, 8, []string{"1g.23gb", "1g.47gb", "2g.47gb", "3g.93gb", "4g.93gb", "7g.186gb"}}},
	{"b200", Slicing{7, 8, []string{"1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"}}},
	{"b300", Slicing{7, 8, []string{"1g.34gb", "1g.67gb", "2g.67gb", "3g.135gb", "4g.135gb", "7g.269gb"}}},
	{"rtx pro 6000", Slicing{4, 4, []string{"1g.24gb", "2g.48gb", "4g.96gb"}}},
}

// ModelSlicing returns how boards of a model are cut. It reports false for
// models that are not known to have MIG.
func ModelSlicing(model string) (Slicing, bool) {
	folded := foldModel(model)
	for i := range slicings {
		if containsWords(folded, slicings[i].model) {
			return slicings[i].Slicing, true
		}
	}
	return Slicing{}, false
}

// foldModel makes model names comparable: exporters may replace blanks by
// dashes, and vendors vary the case.
func foldModel(model string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(model), func(r rune) bool {
		return r == ' ' || r == '-' || r == '_'
	}), " ")
}

// containsWords reports whether the words stand in the text as whole words.
func containsWords(text, words string) bool {
	return strings.Contains(" "+text+" ", " "+words+" ")
}
