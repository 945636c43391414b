package binpack

// pattern is what one bin holds, and its value.
type pattern struct {
	bin   int
	items []Item
	value float64
}

// repeated is a pattern that is used several times.
type repeated struct {
	pattern
	n int
}

// box is a bin that is bought, with what is in it.
type box struct {
	bin   int
	items []Item
	sum   Vec
}

// worth returns what the items are worth at the values.
func worth(items []Item, values []float64) float64 {
	value := 0.0
	for _, it := range items {
		value += float64(it.N) * values[it.Type]
	}
	return value
}

// perDollar divides by the price.
func perDollar(value, price float64) float64 { return value / charged(price) }

// charged is the price, or next to nothing where that is nothing.
func charged(price float64) float64 { return max(price, 1e-6) }

// addTo adds the item in place.
func addTo(items []Item, it Item) []Item {
	for i := range items {
		if items[i].Type == it.Type {
			items[i].N += it.N
			return items
		}
	}
	return append(items, it)
}

// copies returns how often the items can be taken out of the counts.
func copies(items []Item, left []int) int {
	n := 0
	for i, it := range items {
		if c := left[it.Type] / it.N; i == 0 || c < n {
			n = c
		}
	}
	return n
}
