// Package clip shortens text to a number of bytes without half a character at its end. It is pure.
package clip

import (
	"strings"
	"unicode/utf8"
)

// dots follow text that was shortened.
const dots = " ..."

// Bytes returns the text as UTF-8 of at most that many bytes.
func Bytes(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// Text returns a text that is longer than that many bytes as those bytes, in UTF-8, and dots; any other one as it is.
func Text(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return Bytes(text, most) + dots
}

// Within returns a text that is longer than that many bytes, which are more than the dots have, cut between two characters so that it has no more of them with
// its dots; any other one as it is.
func Within(text string, most int) string {
	if len(text) <= most {
		return text
	}
	cut := most - len(dots)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + dots
}
