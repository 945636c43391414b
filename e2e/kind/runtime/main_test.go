package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCapabilityIsTakenOut(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, in, want string
		path           []string
	}{
		{
			name: "config.json of a bundle", path: []string{"process"},
			in:   `{"ociVersion":"1.0.2","process":{"cwd":"/","capabilities":{"bounding":["CAP_CHOWN","CAP_SYS_RESOURCE"],"effective":["CAP_SYS_RESOURCE"]}},"linux":{"x":1}}`,
			want: `{"ociVersion":"1.0.2","process":{"cwd":"/","capabilities":{"bounding":["CAP_CHOWN"],"effective":[]}},"linux":{"x":1}}`,
		},
		{
			name: "process.json of an exec",
			in:   `{"args":["true"],"capabilities":{"permitted":["CAP_SYS_RESOURCE","CAP_KILL"]}}`,
			want: `{"args":["true"],"capabilities":{"permitted":["CAP_KILL"]}}`,
		},
		{name: "a process without capabilities", in: `{"args":["true"]}`, want: `{"args":["true"]}`},
		{name: "a bundle without a process", path: []string{"process"}, in: `{"linux":{}}`, want: `{"linux":{}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "x.json")
			if err := os.WriteFile(file, []byte(test.in), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := without(file, test.path); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(parsed(t, test.want), parsed(t, string(got))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func parsed(t *testing.T, data string) (out any) {
	t.Helper()
	if err := json.Unmarshal([]byte(data), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestFileThatRuncReads(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--root", "/r", "create", "--bundle", "/b", "--pid-file", "/p", "id"}, "/b/config.json"},
		{[]string{"--root", "/r", "run", "--bundle=/b", "id"}, "/b/config.json"},
		{[]string{"exec", "--process", "/x/process.json", "--detach", "id"}, "/x/process.json"},
		{[]string{"kill", "id", "9"}, ""},
		{[]string{"--version"}, ""},
	} {
		if got, _ := reads(test.args); got != test.want {
			t.Errorf("%v: %q, want %q", test.args, got, test.want)
		}
	}
}
