package main

// The suites.
const (
	regression  = "regression"
	performance = "performance"
)

// leftOut returns the cases of a suite that are not run, by full name, with the reason. A case is left out only where it asserts what is true of
// kwok alone.
func leftOut(suite string) map[string]string {
	switch suite {
	case regression:
		return map[string]string{}
	default:
		return nil
	}
}
