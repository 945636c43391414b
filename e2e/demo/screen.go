package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// screen prints permanent lines, and on a terminal a block below them that is redrawn in place.
type screen struct {
	out io.Writer
	// live is true where out is a terminal.
	live bool
	// drawn is the number of lines of the block on the terminal.
	drawn int
	last  string
	at    time.Time
}

// line prints a permanent line.
func (s *screen) line(format string, args ...any) {
	s.erase()
	fmt.Fprintf(s.out, format+"\n", args...)
}

// progress shows the progress of a step. On a terminal it redraws the whole block. Elsewhere it prints the block's last
// line, when that has changed and at most every two seconds.
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

// keep makes the block permanent. Off a terminal it prints the whole block.
func (s *screen) keep(block string) {
	s.erase()
	fmt.Fprintln(s.out, strings.TrimRight(block, "\n"))
}

func (s *screen) erase() {
	if s.drawn > 0 {
		// Move up to the block's first line, then clear the rest of the screen (ECMA-48 CUU, ED).
		fmt.Fprintf(s.out, "\x1b[%dA\r\x1b[J", s.drawn)
		s.drawn = 0
	}
}
