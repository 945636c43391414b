package walk_test

import (
	"flag"
	"fmt"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	flag.Bool("walk", false, "walk all steps, not a few")
	flag.String("walk.flow", "", "walk the steps of these flows alone, separated by commas")
	flag.String("walk.case", "", "walk the cases alone whose names, as the log has them, match this regular expression")
	flag.String("walk.done", "", "a file that each case that was walked is written to, and whose cases are left out")
	flag.Duration("walk.for", 0, "begin no case after this long; 0 is to walk all")
	flag.Int("walk.every", 1, "walk every n-th case alone")
	flag.Int("walk.lanes", 1, "on how many sandboxes beside each other to walk (with -parallel of at least as many)")
	flag.Int("walk.lane", 0, "walk the cases of this lane alone, from 1 on")
	flag.Bool("walk.record", false, "write testdata/steps.txt anew, of the flows that -walk.flow names")
	flag.Duration("soak", 10*time.Minute, "how long to soak")
	flag.Uint64("soak.seed", 0, "what a soak before printed, to do the same again; 0 is a new one")
	m.Run()
}

// argument returns the value of a flag of TestMain.
func argument[T any](name string) T {
	getter, ok := flag.Lookup(name).Value.(flag.Getter)
	if !ok {
		panic("flag " + name + " tells no value")
	}
	value, ok := getter.Get().(T)
	if !ok {
		panic(fmt.Sprintf("flag %s is a %T", name, getter.Get()))
	}
	return value
}
