package top

import "slices"

// cursor is the selected row of a list, which stays selected while the list changes.
type cursor struct {
	key string
	at  int
	// shown are the rows on the screen, by line from 0.
	shown map[int]string
	// clicked keeps what is on the screen where it is: a second click is on the same row. A key ends it.
	clicked bool
}

// click moves the cursor to the row on a line of the screen. It reports whether that was selected already; a line without a row is none.
func (c *cursor) click(keys []string, line int) (again bool) {
	key, ok := c.shown[line]
	at := slices.Index(keys, key)
	if !ok || at < 0 {
		return false
	}
	again = c.in(keys) == at
	c.key, c.at, c.clicked = key, at, true
	return again
}

// in returns where the cursor is in a list: at its row, or where that was.
func (c *cursor) in(keys []string) int {
	for i, k := range keys {
		if k == c.key {
			return i
		}
	}
	return max(min(c.at, len(keys)-1), 0)
}

func (c *cursor) move(keys []string, by int) {
	if len(keys) == 0 {
		return
	}
	c.at, c.clicked = max(min(c.in(keys)+by, len(keys)-1), 0), false
	c.key = keys[c.at]
}

// window returns the part of a list that is shown, so that the cursor is in it.
func window(at, size, total int) (from, to int) {
	size = min(size, total)
	if size <= 0 {
		return 0, 0
	}
	from = max(min(at-size/2, total-size), 0)
	return from, from + size
}

// part is the part of a list on the screen.
type part struct{ first int }

// of returns what is shown: what was, after a click, or else so much that the cursor is in it.
func (p *part) of(c *cursor, at, size, total int) (from, to int) {
	from, to = window(at, size, total)
	if c.clicked {
		kept := max(min(p.first, total-(to-from)), 0)
		from, to = kept, kept+to-from
	}
	p.first = from
	return from, to
}

// far is further than any list is long.
const far = 1 << 30
