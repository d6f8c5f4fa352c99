package top

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable removes terminal control characters.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
}

// Counted returns n followed by a noun. The noun is plural unless n is 1.
func Counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

// Wrap breaks words into lines of at most width characters. All lines except the first start with
// indent. A word that is longer than width is placed on a separate line. At least one word is
// required.
func Wrap(words []string, width int, indent string) []string {
	lines := []string{words[0]}
	for _, word := range words[1:] {
		last := &lines[len(lines)-1]
		if utf8.RuneCountInString(*last)+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, indent+word)
		} else {
			*last += " " + word
		}
	}
	return lines
}
