package componenthelper

import (
	"slices"
	"strings"
)

// Similar returns the known name that is most similar to a misspelled name, or "" if no known name
// is similar.
func Similar(name string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	lower := strings.ToLower(name)
	if known := nearest(lower, names); distance(lower, known) <= 1+len(name)/4 {
		return known
	}
	return ""
}

// The nearest function returns the candidate with the smallest edit distance to the given name.
func nearest(name string, names []string) string {
	return slices.MinFunc(names, func(a, b string) int { return distance(name, a) - distance(name, b) })
}

// distance returns the Levenshtein distance between two names, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1) // distances from the processed prefix of a to each prefix of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
