package e2e_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/slipway-k8s/slipway/e2e/testbed"
)

// What a program never calls is not in it: the linker keeps every method of every type, and the launcher is twice as large, as soon as something calls
// methods by a name that is known only when it runs, as html/template does.
func TestProgramsLinkWhatTheyCall(t *testing.T) {
	t.Parallel()
	for program, unused := range map[string]string{"slipway-launcher": "awsEc2query_serializeOpAcceptAddressTransfer", "slipway-scheduler": "golang.org/x/net/trace"} {
		binary, err := os.ReadFile(filepath.Join(testbed.BinDir(".."), program))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(binary, []byte(unused)) {
			t.Errorf("%s has %s, which it never calls: make build leaves it out (GOFLAGS in the Makefile)", program, unused)
		}
	}
}
