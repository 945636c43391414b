package page

import (
	"flag"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	flag.String("page.screenshots", "", "folder to keep screenshots in; empty for none")
	flag.Bool("page.long", false, "look at each view in each width and in both schemes, and at the faults that take minutes")
	os.Exit(m.Run())
}

// long reports whether all is looked at.
func long() bool { return flag.Lookup("page.long").Value.String() == "true" }
