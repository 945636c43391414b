package main

import (
	"strings"
	"testing"
)

// A speed that divides nothing is refused before a sandbox starts.
func TestSpeedIsAboveZero(t *testing.T) {
	for _, command := range [][]string{{"up"}, {"demo"}, {"aws", "serve"}} {
		for _, value := range []string{"0", "-1", "NaN", "Inf", "fast"} {
			cmd := newCommand()
			cmd.SetArgs(append(command, "--speed="+value))
			cmd.SetOut(&strings.Builder{})
			cmd.SetErr(&strings.Builder{})
			err := cmd.ExecuteContext(t.Context())
			if err == nil || !strings.Contains(err.Error(), "want a number above 0") {
				t.Errorf("%v --speed=%s: %v", command, value, err)
			}
		}
	}
}
