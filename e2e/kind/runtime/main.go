// Command runtime stands in for runc where the host lacks CAP_SYS_RESOURCE: dockerd gives a privileged container all
// capabilities, and runc refuses one that the host itself has not. It takes the capability out of what runc is about to read,
// the config.json of a bundle and the process.json of an exec, and becomes runc.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// capability that is taken out.
const capability = "CAP_SYS_RESOURCE"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "runtime:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if file, at := reads(args); file != "" {
		if err := without(file, at); err != nil {
			return err
		}
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		return err
	}
	return syscall.Exec(runc, append([]string{runc}, args...), os.Environ())
}

// reads is the file that runc will read for these arguments, and the path to the process in it; empty where it reads none.
func reads(args []string) (string, []string) {
	value := func(names ...string) string {
		for i, arg := range args {
			for _, name := range names {
				if arg == name && i+1 < len(args) {
					return args[i+1]
				}
				if v, ok := strings.CutPrefix(arg, name+"="); ok {
					return v
				}
			}
		}
		return ""
	}
	switch {
	case slices.Contains(args, "create"), slices.Contains(args, "run"):
		return filepath.Join(value("--bundle", "-b"), "config.json"), []string{"process"}
	case slices.Contains(args, "exec"):
		return value("--process", "-p"), nil
	}
	return "", nil
}

// without rewrites the file without the capability. What it does not know in the file stays as it is.
func without(file string, path []string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	changed, err := drop(data, path)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, changed, 0o600)
}

// drop takes the capability out of each set of the process at path.
func drop(data []byte, path []string) ([]byte, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, err
	}
	if len(path) > 0 {
		inner, ok := object[path[0]]
		if !ok {
			return data, nil
		}
		changed, err := drop(inner, path[1:])
		if err != nil {
			return nil, err
		}
		object[path[0]] = changed
		return json.Marshal(object)
	}
	raw, ok := object["capabilities"]
	if !ok {
		return data, nil
	}
	var sets map[string][]string
	if err := json.Unmarshal(raw, &sets); err != nil {
		return nil, fmt.Errorf("capabilities: %w", err)
	}
	for name, set := range sets {
		sets[name] = slices.DeleteFunc(set, func(c string) bool { return c == capability })
	}
	changed, err := json.Marshal(sets)
	if err != nil {
		return nil, err
	}
	object["capabilities"] = changed
	return json.Marshal(object)
}
