// Package terminal writes text that others wrote, such as names and messages of Kubernetes objects, so that a terminal shows it and does
// not obey it.
package terminal

import (
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Writer quotes what a terminal would obey. It is for one goroutine.
type Writer struct {
	to   io.Writer
	keep func(rune) bool
	// rest is the beginning of a character whose end the next Write has.
	rest []byte
}

// Text returns a Writer for text that people read. It quotes every character that is not shown: control characters, and those that change
// the direction or the width of what follows. Newlines and tabs pass.
func Text(to io.Writer) *Writer {
	return &Writer{to: to, keep: func(r rune) bool { return r == '\n' || r == '\t' || unicode.IsPrint(r) }}
}

// Data returns a Writer for JSON and YAML. It quotes control characters alone: those that YAML does not allow in any place and JSON only in
// strings, where the quoted form means the same.
func Data(to io.Writer) *Writer {
	const nextLine = 0x85 // A line break of YAML.
	return &Writer{to: to, keep: func(r rune) bool {
		return r == '\n' || r == '\t' || r == '\r' || r == nextLine || !unicode.IsControl(r)
	}}
}

// Write implements io.Writer. A quoted character is \u and its four hexadecimal digits, as in JSON and YAML; a byte that belongs to no
// character is \x and two digits.
func (w *Writer) Write(p []byte) (int, error) {
	text := p
	if len(w.rest) > 0 {
		text = append(w.rest, p...)
		w.rest = nil
	}
	out := make([]byte, 0, len(text)+16)
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && n == 1 && !utf8.FullRune(text):
			w.rest = append([]byte(nil), text...)
			n = len(text)
		case r == utf8.RuneError && n == 1:
			out = append(out, '\\', 'x', hex(rune(text[0]), 4), hex(rune(text[0]), 0))
		case w.keep(r):
			out = append(out, text[:n]...)
		default:
			out = quoted(out, r)
		}
		text = text[n:]
	}
	if _, err := w.to.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// quoted appends the escape of a character; JSON writes those beyond four digits as two.
func quoted(out []byte, r rune) []byte {
	if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
		return quoted(quoted(out, high), low)
	}
	return append(out, '\\', 'u', hex(r, 12), hex(r, 8), hex(r, 4), hex(r, 0))
}

func hex(r rune, shift int) byte { return "0123456789abcdef"[r>>shift&0xf] }
