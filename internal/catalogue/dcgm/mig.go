package dcgm

import (
	"regexp"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

var profileForm = regexp.MustCompile(`^(?:\d+c\.)?([1-7])g\.\d{1,4}gb(?:[+-](?:me|gfx|me\.all))*$`)

// ProfileSlices returns the number of compute slices of a MIG profile, such as 1g.10gb, 1c.3g.40gb,
// or 1g.5gb+me. ProfileSlices returns 0 if the argument is not a MIG profile.
func ProfileSlices(profile string) int {
	m := profileForm.FindStringSubmatch(profile)
	if m == nil {
		return 0
	}
	return int(m[1][0] - '0')
}

// ofFourSlices and ofSevenSlices contain words that occur in the folded model names of boards that
// support MIG with four or seven compute slices. The words are from the default configuration of
// the GPU Operator's MIG manager and, for the B300, from NVIDIA's user guide.
var (
	ofFourSlices  = []string{"a30", "rtx pro 6000"}
	ofSevenSlices = []string{"a100", "gh200", "h20", "h100", "h200", "gb200", "b200", "b300"}
)

// ModelSlices returns the number of compute slices of a model, or false if the model is not known
// to support MIG.
func ModelSlices(model string) (int, bool) {
	folded := catalogue.FoldModel(model)
	switch {
	case hasWord(folded, ofFourSlices):
		return 4, true
	case hasWord(folded, ofSevenSlices):
		return 7, true
	}
	return 0, false
}

// jobsOfBoard reports whether the jobs in the rows of a board's instances are jobs of the entire
// board. If the board has at least two instances and all of them have the same jobs, jobsOfBoard
// returns true. A file in --hpc-job-mapping-dir is named after a board, or after a board and an
// instance. The jobs in a file that is named after a board appear in the rows of all instances of
// the board.
func jobsOfBoard(instances [][]string) bool {
	if len(instances) < 2 || len(instances[0]) == 0 {
		return false
	}
	return !slices.ContainsFunc(instances[1:], func(jobs []string) bool { return !slices.Equal(jobs, instances[0]) })
}
