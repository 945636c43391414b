package kind_test

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// packetRules are this host's iptables rules before dockerd starts: it leaves its chains, the rules that lead into them, and DROP as
// the policy of FORWARD.
type packetRules map[string][]string

// tables are those of iptables that dockerd writes into.
func tables() []string { return []string{"filter", "nat"} }

func readRules(ctx context.Context) (packetRules, error) {
	out := packetRules{}
	for _, table := range tables() {
		text, err := run(ctx, nil, "iptables", "--wait", "--table", table, "--list-rules")
		if err != nil {
			return nil, err
		}
		out[table] = strings.Split(strings.TrimSpace(text), "\n")
	}
	return out, nil
}

// restore takes away what dockerd has added since. Rules that others have added meanwhile stay.
func (before packetRules) restore() error {
	ctx := context.Background()
	after, err := readRules(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, table := range tables() {
		for _, args := range undo(before[table], after[table]) {
			_, err := run(ctx, nil, "iptables", append([]string{"--wait", "--table", table}, args...)...)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// undo are the commands that lead back from after to before, for policies and for chains of dockerd's: rules that lead into a chain go
// before the chain, and all are emptied before one is removed, since they lead into each other.
func undo(before, after []string) [][]string {
	var leading, emptying, removing, policies [][]string
	for _, rule := range after {
		fields := strings.Fields(rule)
		if slices.Contains(before, rule) || len(fields) < 2 {
			continue
		}
		switch target := fields[len(fields)-1]; {
		case fields[0] == "-N" && strings.HasPrefix(fields[1], "DOCKER"):
			emptying = append(emptying, []string{"--flush", fields[1]})
			removing = append(removing, []string{"--delete-chain", fields[1]})
		case fields[0] == "-A" && strings.HasPrefix(target, "DOCKER") && !strings.HasPrefix(fields[1], "DOCKER"):
			leading = append(leading, append([]string{"--delete"}, fields[1:]...))
		}
	}
	for _, rule := range before {
		if strings.HasPrefix(rule, "-P ") && !slices.Contains(after, rule) {
			policies = append(policies, strings.Fields(rule))
		}
	}
	return slices.Concat(leading, emptying, removing, policies)
}
