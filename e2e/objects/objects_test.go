package objects_test

import (
	"strings"
	"testing"

	"github.com/slipway-k8s/slipway/e2e/objects"
)

func TestRead(t *testing.T) {
	all, err := objects.Read(strings.NewReader("---\n# nothing\n---\nkind: Pod\nmetadata: {name: a}\n---\n{\"kind\": \"Node\", \"metadata\": {\"name\": \"b\"}}\n"))
	if err != nil || len(all) != 2 || all[0].GetName() != "a" || all[1].GetKind() != "Node" {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := objects.Read(strings.NewReader("kind: [")); err == nil {
		t.Error("no error for text that is not YAML")
	}
}
