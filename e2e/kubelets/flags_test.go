package kubelets_test

import (
	"flag"
	"strconv"
	"testing"
)

// register adds the benchmark's flags; TestMain calls it before it parses them.
func register() {
	flag.String("bench.file", "kubelets.figures", "the file that figures are added to; what it has is not measured again")
	flag.String("bench.cells", "", "measure the cells alone whose names match this regular expression")
	flag.String("bench.ways", "", "measure the ways alone whose names match this regular expression")
	flag.Int("bench.rounds", 10, "how often to measure each way of each cell")
	flag.Int("bench.beside", 0, "how many ways of a cell start at the same moment; 0 is as many as two cores can take")
	flag.Bool("bench.table", false, "measure nothing, print the tables of what was measured")
	flag.Int("bench.minutes", 0, "begin nothing after so many minutes; 0 is without end")
}

func text(name string) string { return flag.Lookup(name).Value.String() }

func number(b *testing.B, name string) int {
	b.Helper()
	n, err := strconv.Atoi(text(name))
	if err != nil {
		b.Fatal(err)
	}
	return n
}
