package catalog

import (
	"slices"
	"strings"
)

const (
	// maxAsked bounds the values that are looked at: a pod may list thousands.
	maxAsked = 8
	// maxSlips is how many characters too many or too few a misspelled value may have.
	maxSlips = 2
)

// Nearest returns the value of which one of the asked ones may be a misspelling: it has other capitals, its characters in another order, or one
// or two too many or too few. One other character makes another value, as in amd64 and arm64. It returns "" if there is none, or if the set excludes values
// instead of listing them.
func Nearest(asked Set, values []string) string {
	if asked.Complement {
		return ""
	}
	for i, want := range asked.List() {
		if i == maxAsked {
			break
		}
		for _, have := range values {
			if misspelled(want, have) {
				return have
			}
		}
	}
	return ""
}

func misspelled(a, b string) bool {
	if len(a) < len(b) {
		a, b = b, a
	}
	switch slips := len(a) - len(b); {
	case len(b) <= maxSlips || slips > maxSlips:
		return false // Every short value is near to every other.
	case slips > 0:
		return within(b, a)
	}
	return strings.EqualFold(a, b) || slices.Equal(sorted(a), sorted(b))
}

// within reports whether the characters of short are in long, in their order.
func within(short, long string) bool {
	for _, c := range []byte(long) {
		if short != "" && short[0] == c {
			short = short[1:]
		}
	}
	return short == ""
}

func sorted(s string) []byte {
	out := []byte(s)
	slices.Sort(out)
	return out
}

// Offered formats what there is of a label for people who asked for something else, with the value that they may have meant.
func Offered(asked Set, values []string) string {
	if meant := Nearest(asked, values); meant != "" {
		return listText(values, 4) + "; did you mean " + meant + "?"
	}
	return ListText(values)
}
