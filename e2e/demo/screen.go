package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// screen prints the story: lines that stay, and on a terminal a block below them that is redrawn in place.
type screen struct {
	out io.Writer
	// live says that out is a terminal, where a block can be redrawn.
	live bool
	// drawn is how many lines of the block stand on the terminal.
	drawn int
	last  string
	at    time.Time
}

// line prints text that stays.
func (s *screen) line(format string, args ...any) {
	s.erase()
	fmt.Fprintf(s.out, format+"\n", args...)
}

// progress shows how far a step is: on a terminal the whole block, redrawn; elsewhere its last line, when that has changed
// and at most every two seconds.
func (s *screen) progress(block string) {
	block = strings.TrimRight(block, "\n")
	if s.live {
		s.erase()
		fmt.Fprintln(s.out, block)
		s.drawn = strings.Count(block, "\n") + 1
		return
	}
	summary := block[strings.LastIndexByte(block, '\n')+1:]
	if summary != s.last && time.Since(s.at) >= 2*time.Second {
		fmt.Fprintln(s.out, "   "+summary)
		s.last, s.at = summary, time.Now()
	}
}

// keep leaves the block that was drawn last where it is; off a terminal it prints it whole.
func (s *screen) keep(block string) {
	s.erase()
	fmt.Fprintln(s.out, strings.TrimRight(block, "\n"))
}

func (s *screen) erase() {
	if s.drawn > 0 {
		// Up to the block's first line, then clear from there to the end of the screen (ECMA-48 CUU, ED).
		fmt.Fprintf(s.out, "\x1b[%dA\r\x1b[J", s.drawn)
		s.drawn = 0
	}
}
