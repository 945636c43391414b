package proc_test

import (
	"os"
	"runtime"
	"testing"

	"github.com/slipway-k8s/slipway/e2e/proc"
)

func TestOf(t *testing.T) {
	if runtime.GOOS == "linux" {
		if got, err := proc.Of(os.Getpid()); err != nil || got.Memory <= 0 || got.Files <= 0 || got.Files > got.Memory {
			t.Errorf("this process has used %+v, %v", got, err)
		}
	}
	if _, err := proc.Of(-1); err == nil {
		t.Error("no error for a process that does not exist")
	}
}
