package binpack

// outcome is boxes and how many of each item type they leave.
type outcome struct {
	boxes []box
	left  []int
}

// bill returns what the boxes cost, in USD per hour.
func (p *problem) bill(boxes []box) float64 {
	prices := make([]float64, len(boxes))
	for i := range boxes {
		prices[i] = p.bins[boxes[i].bin].price
	}
	return sorted(prices)
}

// pods counts those that are left.
func (p *problem) pods(left []int) int {
	n := 0
	for ti, c := range left {
		n += c * p.types[ti].pods
	}
	return n
}

// better reports whether a places more pods than b, or as many for less, or for as much in fewer boxes.
func (p *problem) better(a, b outcome) bool {
	if x, y := p.pods(a.left), p.pods(b.left); x != y {
		return x < y
	}
	x, y := p.bill(a.boxes), p.bill(b.boxes)
	if x < y-1e-9 || x > y+1e-9 {
		return x < y
	}
	return len(a.boxes) < len(b.boxes)
}

// roomBeside returns what the limits leave beside the boxes.
func (p *problem) roomBeside(boxes []box) [][]int64 {
	room := p.cloneRoom()
	for _, b := range boxes {
		p.spend(&p.bins[b.bin], 1, room)
	}
	return room
}
