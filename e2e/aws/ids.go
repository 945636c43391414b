package aws

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"sync"
)

// dice returns random values, which the seed determines as long as calls come in the same order.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func newDice(seed int64) *dice { return &dice{r: rand.New(rand.NewPCG(uint64(seed), 0x5eed))} }

// between returns a number from low up to high.
func (d *dice) between(low, high float64) float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return low + (high-low)*d.r.Float64()
}

// exponential returns a number with the mean 1.
func (d *dice) exponential() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.ExpFloat64()
}

func (d *dice) pick(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

// hex returns n random hexadecimal digits.
func (d *dice) hex(n int) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := ""
	for len(out) < n {
		out += fmt.Sprintf("%016x", d.r.Uint64())
	}
	return out[:n]
}

// id returns an id of EC2's form, for example i-0123456789abcdef0.
func (d *dice) id(prefix string) string { return prefix + "-0" + d.hex(16) }

// uuid returns an id of the form of request ids and messages.
func (d *dice) uuid() string {
	h := d.hex(32)
	return fmt.Sprintf("%s-%s-4%s-a%s-%s", h[:8], h[8:12], h[13:16], h[17:20], h[20:])
}

// fixedID returns an id that depends only on the name, for what exists from the start.
func fixedID(prefix, name string) string {
	sum := sha256.Sum256([]byte(prefix + "/" + name))
	return prefix + "-0" + hex.EncodeToString(sum[:8])
}
