package main

import (
	"errors"
	"math"
	"strconv"
)

// speed is the value of a flag that divides delays: a number above 0.
type speed float64

// Set implements pflag.Value.
func (s *speed) Set(text string) error {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		return errors.New("want a number above 0, such as 10")
	}
	*s = speed(v)
	return nil
}

// String implements pflag.Value.
func (s *speed) String() string { return strconv.FormatFloat(float64(*s), 'g', -1, 64) }

// Type implements pflag.Value.
func (s *speed) Type() string { return "number" }
