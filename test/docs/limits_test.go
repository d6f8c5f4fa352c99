package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The limits keep the documentation short. If a page grows, something else has to be removed.
const (
	maxPages       = 16
	maxWords       = 15000 // in the hand-written text of docs/
	maxReadmeWords = 10000 // in the READMEs of components
)

// Generated text does not count as hand-written.
var (
	generatedPages = []string{"docs/signals.md", "docs/vendors.md"}
	generatedPart  = regexp.MustCompile(`(?s)<!-- \w+: begin.*?<!-- \w+: end -->`)
)

// words counts the hand-written words on a page, including tables but excluding code blocks. Text
// without letters and digits, such as the border of a table, does not count.
func words(d document) int {
	n := 0
	for word := range strings.FieldsSeq(generatedPart.ReplaceAllString(d.text, "")) {
		if strings.ContainsFunc(word, func(r rune) bool { return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' }) {
			n++
		}
	}
	return n
}

func TestTheDocumentationStaysWithinItsLimits(t *testing.T) {
	component := regexp.MustCompile(`^(receiver|processor|exporter|connector|extension)/[^/]+/README\.md$`)
	pages, written, readmes := 0, 0, 0
	for _, d := range documents(t) {
		switch {
		case strings.HasPrefix(d.path, "docs/"):
			pages++
			if !slices.Contains(generatedPages, d.path) {
				written += words(d)
			}
		case component.MatchString(d.path):
			readmes += words(d)
		}
	}
	assert.LessOrEqual(t, pages, maxPages, "pages of docs/")
	assert.LessOrEqual(t, written, maxWords, "hand-written words of docs/")
	assert.LessOrEqual(t, readmes, maxReadmeWords, "words of the READMEs of components")
	assert.Greater(t, written, maxWords/2)
	assert.Greater(t, readmes, maxReadmeWords/2)
}
