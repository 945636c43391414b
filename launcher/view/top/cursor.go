package top

// cursor is the selected row of a list, which stays selected while the list changes.
type cursor struct {
	key string
	at  int
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
	c.at = max(min(c.in(keys)+by, len(keys)-1), 0)
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

// far is further than any list is long.
const far = 1 << 30
