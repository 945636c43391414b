package userdata

import (
	"os/exec"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// The unit has no library for gRPC: it writes the fields of its messages itself, passwords as long as ECR's too.
func TestFieldsOfTheUnit(t *testing.T) {
	_, rest, found := strings.Cut(prefetchScript, "\nfield() {")
	body, _, ended := strings.Cut(rest, "\n}\n")
	if !found || !ended {
		t.Fatal("the unit has no function field")
	}
	for _, n := range []int{1, 10, 127, 128, 300, 16383, 16384, 20000} {
		value := strings.Repeat("é~", n)[:n]
		cmd := exec.CommandContext(t.Context(), "bash", "-c", "export LC_ALL=C\nfield() {"+body+"\n}\nread -r value\nfield 2 \"$(field 1 \"$value\")\"")
		cmd.Stdin = strings.NewReader(value + "\n")
		got, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, got)
		}
		field := func(number protowire.Number, value []byte) []byte {
			return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
		}
		if want := field(2, field(1, []byte(value))); string(got) != string(want) {
			t.Errorf("a value of %d bytes is written as %.20q..., want %.20q...", n, got, want)
		}
	}
}

// Where user data has no room left, the node joins without the unit.
func TestNoRoomForTheUnit(t *testing.T) {
	in := input("AL2023", prefetch, custom("#!/bin/bash\n"+strings.Repeat("#", MaxBytes-3000)+"\n"))
	text, err := Render(in)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, PrefetchFile) || len(text) > MaxBytes {
		t.Errorf("%d bytes, with the unit: %v", len(text), strings.Contains(text, PrefetchFile))
	}
}
