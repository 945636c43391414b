package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Two runs of `make charts` give the same bytes, although Helm stamps the time.
func TestChartsAreReproducible(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	pack := func() map[string][]byte {
		r := release{version: "1.2.3", out: t.TempDir()}
		if err := r.charts(); err != nil {
			t.Fatal(err)
		}
		out := map[string][]byte{}
		for _, name := range []string{"slipway-1.2.3.tgz", "slipway-crds-1.2.3.tgz", "crds.yaml"} {
			content, err := os.ReadFile(filepath.Join(r.out, "charts", name))
			if err != nil {
				t.Fatal(err)
			}
			out[name] = content
		}
		return out
	}
	one := pack()
	// The header of tar has whole seconds.
	time.Sleep(1100 * time.Millisecond)
	for name, content := range pack() {
		if !bytes.Equal(one[name], content) {
			t.Errorf("%s: a second run gives other bytes", name)
		}
	}
}
