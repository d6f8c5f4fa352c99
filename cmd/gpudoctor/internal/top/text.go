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

// Counted returns a number with a noun, in the plural if necessary.
func Counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

// Wrap breaks words into lines of at most width characters. It indents all lines except the first.
// A longer word is on a separate line. words must not be empty.
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
