package karpenter_test

import (
	"flag"
	"regexp"
	"strconv"
	"testing"
)

// register adds the package's flags; TestMain calls it before it parses them.
func register() {
	flag.Float64("karpenter.speed", 1, "divide the delays of AWS and of machines by this")
	flag.Int("karpenter.pods", 300, "pods of the Deployment")
	flag.Int("karpenter.rounds", 1, "rounds of the comparison")
	flag.Int("karpenter.minutes", 10, "minutes for which the bill is watched after a scale-in")
	flag.String("karpenter.phases", "", "regular expression of the comparison's phases; empty for all")
}

// picked reports whether a phase is to run.
func picked(tb testing.TB, phase string) bool {
	tb.Helper()
	re, err := regexp.Compile(flag.Lookup("karpenter.phases").Value.String())
	if err != nil {
		tb.Fatal(err)
	}
	return re.MatchString(phase)
}

// number reads a flag.
func number(tb testing.TB, name string) float64 {
	tb.Helper()
	n, err := strconv.ParseFloat(flag.Lookup("karpenter."+name).Value.String(), 64)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}
