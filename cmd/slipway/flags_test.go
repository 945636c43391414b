package main

import (
	"strings"
	"testing"
)

// A flag that would be ignored, or taken as its default, is refused before anything is read, with its name and what is expected.
func TestFlagsThatHaveNoEffectAreRefused(t *testing.T) {
	objects := write(t, "objects.yaml", objectsYAML)
	t.Setenv("KUBECONFIG", write(t, "config", "apiVersion: v1\nkind: Config\n"))
	for args, want := range map[string]string{
		"explain node a -f " + objects:                         "--filename: it is for pods",
		"explain -f " + objects + " node a":                    "--filename: it is for pods",
		"explain node/a -f " + objects:                         "--filename: it is for pods",
		"explain node a --from-cluster":                        "--from-cluster: it is for pods",
		"explain node a --aws":                                 "--aws: it is for pods",
		"explain node a --prices p.json":                       "--prices: it is for pods",
		"explain node/a -n shop":                               "--namespace: it is for pods",
		"explain node a -n shop":                               "--namespace: it has no meaning for slipway explain node",
		"explain -n shop -f " + objects:                        "--namespace: it is the namespace of a pod",
		"-n shop bill":                                         "--namespace: slipway bill is about the whole cluster, --by namespace",
		"learned --namespace shop":                             "--namespace: it has no meaning for slipway learned",
		"convert -n shop -f " + objects:                        "--namespace: it has no meaning for slipway convert",
		"simulate -n shop --from-cluster":                      "--namespace: it has no meaning for slipway simulate",
		"ui -n shop":                                           "--namespace: it has no meaning for slipway ui",
		"simulate --spot-share 0 -f " + objects:                "--spot-share 0: more than zero is expected",
		"simulate --spot-premium 0 -f " + objects:              "--spot-premium 0: more than zero is expected",
		"simulate --spot-premium NaN -f " + objects:            "--spot-premium NaN: more than zero is expected",
		"simulate --interruption-cost -0.1 -f " + objects:      "--interruption-cost -0.1: USD from 0 to 10000 are expected",
		"simulate --interruption-cost 10001 -f " + objects:     "--interruption-cost 10001: USD from 0 to 10000 are expected",
		"simulate --interruption-cost NaN -f " + objects:       "--interruption-cost NaN: USD from 0 to 10000 are expected",
		"simulate --consolidate --spot-share 0 -f " + objects:  "--spot-share 0: more than zero is expected",
		"explain --spot-share 0 -f " + objects:                 "--spot-share 0: more than zero is expected",
		"explain pod web --interruption-cost -1 -f " + objects: "--interruption-cost -1: USD",
	} {
		if out, _, err := slipway(t, "", strings.Fields(args)...); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q; printed %s", args, err, want, out)
		}
	}
	for _, args := range []string{"-n default explain pod web -f " + objects, "simulate --interruption-cost 0 --spot-share 0.01 --spot-premium 0.01 -f " + objects} {
		if _, _, err := slipway(t, "", strings.Fields(args)...); err != nil {
			t.Errorf("%s: %v", args, err)
		}
	}
}
