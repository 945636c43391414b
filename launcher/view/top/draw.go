package top

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/slipway-k8s/slipway/internal/terminal"
)

// The attributes and colors of ECMA-48 that every terminal with colors has: the user's own theme decides what they look like.
const (
	sgrBold, sgrFaint, sgrReverse = "1", "2", "7"
	sgrRed, sgrYellow, sgrGreen   = "31", "33", "32"
)

func styled(s, sgr string) string { return "\x1b[" + sgr + "m" + s + "\x1b[m" }

// style is what a screen has.
type style struct {
	width, height int
	// colors and blocks are false for screens without colors and block characters.
	colors, blocks bool
}

func (s style) bold(text string) string  { return styled(text, sgrBold) }
func (s style) faint(text string) string { return styled(text, sgrFaint) }

// color colors a text where there are colors.
func (s style) color(text, sgr string) string {
	if !s.colors || text == "" {
		return text
	}
	return styled(text, sgr)
}

// row marks the selected row, with a character too: not every terminal has attributes.
func (s style) row(line string, selected bool) string {
	if !selected {
		return " " + line
	}
	return styled(pad(cut(">"+ansi.Strip(line), s.width), s.width), sgrReverse)
}

// bar draws a share of 0 to 1 with its percentage; nil is not known.
func (s style) bar(share *float64, width int) string {
	if share == nil {
		return pad("-", width+5)
	}
	full, empty := "#", "."
	if s.blocks {
		full, empty = "█", "░"
	}
	n := int(math.Round(min(max(*share, 0), 1) * float64(width)))
	sgr := sgrGreen
	switch {
	case *share > 0.95:
		sgr = sgrRed
	case *share > 0.8:
		sgr = sgrYellow
	}
	return s.color(strings.Repeat(full, n), sgr) + strings.Repeat(empty, width-n) + fmt.Sprintf(" %3.0f%%", min(*share*100, 999))
}

// cut shortens a text to a width in cells.
func cut(s string, width int) string { return ansi.Truncate(s, max(width, 0), "…") }

// tail shortens a name to its end, which is what makes it unique.
func tail(s string, width int) string {
	if over := ansi.StringWidth(s) - width; over > 0 {
		return ansi.TruncateLeft(s, over+1, "…")
	}
	return s
}

// pad fills a text up to a width in cells.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(width-ansi.StringWidth(s), 0))
}

// left fills a text on its left.
func left(s string, width int) string {
	return strings.Repeat(" ", max(width-ansi.StringWidth(s), 0)) + s
}

// wrap breaks a line into lines of a width. Those after the first are indented as it is.
func wrap(line string, width int) []string {
	indent := len(line) - len(strings.TrimLeft(line, " "))
	if indent > width/2 {
		indent = 0
	}
	out := strings.Split(ansi.Wrap(strings.TrimLeft(line, " "), max(width-indent, 10), ""), "\n")
	for i := range out {
		out[i] = strings.Repeat(" ", indent) + out[i]
	}
	return out
}

// age is how long ago something was.
func age(now, then time.Time) string {
	if then.IsZero() || now.IsZero() {
		return "-"
	}
	return duration.ShortHumanDuration(max(now.Sub(then), 0))
}

func dash(s string) string {
	if strings.TrimSpace(s) == "" {
		return "-"
	}
	return quoted(s)
}

// page is a head, a body, and the keys on the last line.
func (s style) page(head, body []string, keys string) []string {
	out := append(head, body...)
	for len(out) < s.height-1 {
		out = append(out, "")
	}
	return append(out[:s.height-1], s.faint(keys))
}

// quoted is text of others in one line, so that a terminal shows it and does not obey it.
func quoted(s string) string {
	var out strings.Builder
	if _, err := terminal.Text(&out).Write([]byte(strings.NewReplacer("\t", " ", "\n", " ").Replace(s))); err != nil {
		return "" // A strings.Builder does not fail.
	}
	return out.String()
}
