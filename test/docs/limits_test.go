package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// These limits keep the documentation short. Adding text may require removing other text.
const (
	maxPages = 16
	// maxWords is the maximum number of handwritten words in docs/.
	maxWords = 15000
	// maxReadmeWords is the maximum number of words in the components' READMEs.
	maxReadmeWords = 10000
)

// Generated text is not counted as handwritten.
var (
	generatedPages = []string{"docs/signals.md", "docs/vendors.md"}
	generatedPart  = regexp.MustCompile(`(?s)<!-- \w+: begin.*?<!-- \w+: end -->`)
)

// words returns the number of handwritten words on a page. Tables are included, and code blocks are
// excluded. Text without any letters or digits, such as a table border, is not counted.
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
	assert.LessOrEqual(t, written, maxWords, "hand-written words of docs/; shorten a page or remove a section")
	assert.LessOrEqual(t, readmes, maxReadmeWords, "words of the READMEs of components; shorten one of them")
	assert.Greater(t, written, maxWords/2)
	assert.Greater(t, readmes, maxReadmeWords/2)
}
