package userdata

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

const (
	flagged    = nodeConfigHead + "    flags:\n    - --node-labels=disk=nvme,team=a\n    - --register-with-taints=dedicated=ml:NoExecute,plain:NoSchedule\n"
	configured = nodeConfigHead + "    config:\n      registerWithTaints: [{key: config, value: v, effect: NoSchedule}]\n"
	quoted     = nodeConfigHead + "    flags: ['--node-labels=\"disk=nvme, team=a\"', --node-labels, 'disk=ssd']\n"
	bootstrap  = "#!/bin/bash -xe\n/etc/eks/bootstrap.sh prod --b64-cluster-ca $CA \\\n" +
		"  --kubelet-extra-args '--node-labels=disk=nvme --register-with-taints=dedicated=ml:NoExecute' --use-max-pods false\n"
)

// archiveOf is a MIME archive of bodies, each with its content type.
func archiveOf(bodies ...[2]string) string {
	list := make([]part, 0, len(bodies))
	for _, b := range bodies {
		list = append(list, newPart(b[0], b[1]))
	}
	return archive(list)
}

// The labels and taints of the forms that docs/compatibility.md names are read, and nothing is guessed from any other.
func TestRegistrationOf(t *testing.T) {
	taint := func(key, value string, effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: key, Value: value, Effect: effect}
	}
	ml, plain := taint("dedicated", "ml", corev1.TaintEffectNoExecute), taint("plain", "", corev1.TaintEffectNoSchedule)
	nvme := map[string]string{"disk": "nvme"}
	both := map[string]string{"disk": "nvme", "team": "a"}
	for _, c := range []struct {
		name, family, text string
		labels             map[string]string
		taints             []corev1.Taint
	}{
		{"flags", catalog.FamilyAL2023, flagged, both, []corev1.Taint{ml, plain}},
		{"flags in quotes, and several", catalog.FamilyAL2023, quoted, map[string]string{"disk": "ssd", "team": "a"}, nil},
		{"a MIME archive", catalog.FamilyAL2023, archiveOf([2]string{shellScriptType, "#!/bin/bash\n"}, [2]string{nodeConfigType, flagged}), both, []corev1.Taint{ml, plain}},
		{
			"the last flag of taints counts, all of labels do", catalog.FamilyAL2023,
			archiveOf([2]string{nodeConfigType, flagged}, [2]string{nodeConfigType, nodeConfigHead + "    flags: [--register-with-taints=last:NoSchedule]\n"}),
			both,
			[]corev1.Taint{taint("last", "", corev1.TaintEffectNoSchedule)},
		},
		{"taints that the launcher's NodeConfig replaces", catalog.FamilyAL2023, configured, nil, nil},
		{"taints that nothing replaces", catalog.FamilyCustom, configured, nil, []corev1.Taint{taint("config", "v", corev1.TaintEffectNoSchedule)}},
		{"a flag overrides the configuration", catalog.FamilyCustom, archiveOf([2]string{nodeConfigType, flagged}, [2]string{nodeConfigType, configured}), both, []corev1.Taint{ml, plain}},
		{"a script of AL2023", catalog.FamilyAL2023, bootstrap, nil, nil},
		{"settings", catalog.FamilyBottlerocket, "[settings.kubernetes.node-labels]\ndisk = 'nvme'\n[settings.kubernetes.node-taints]\nlost = [':NoSchedule']\n", nvme, nil},
		{"a label that is no text", catalog.FamilyBottlerocket, "[settings.kubernetes.node-labels]\ndisk = 7\n", nil, nil},
		{"broken TOML", catalog.FamilyBottlerocket, "settings = [", nil, nil},
		{"a call", catalog.FamilyAL2, bootstrap, nvme, []corev1.Taint{ml}},
		{"a call in an archive", catalog.FamilyCustom, archiveOf([2]string{"text/x-shellscript", bootstrap}), nvme, []corev1.Taint{ml}},
		{"double quotes", catalog.FamilyAL2, strings.ReplaceAll(bootstrap, "'", `"`), nvme, []corev1.Taint{ml}},
		{"the first call starts the kubelet", catalog.FamilyAL2, bootstrap + strings.ReplaceAll(bootstrap, "nvme", "ssd"), nvme, []corev1.Taint{ml}},
		{"a NodeConfig of AL2", catalog.FamilyAL2, flagged, nil, nil},
		{"PowerShell", catalog.FamilyWindows2022, bootstrap, nil, nil},
		{"no user data", catalog.FamilyAL2023, "", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(Registration{Labels: c.labels, Taints: c.taints}, RegistrationOf(c.family, c.text), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got:\n%s\nof:\n%s", diff, c.text)
			}
		})
	}
}

// Shell that would have to run to be understood sets nothing.
func TestShellIsNotGuessed(t *testing.T) {
	const call = "/etc/eks/bootstrap.sh prod --kubelet-extra-args "
	for name, script := range map[string]string{
		"a variable":       call + `"--node-labels=disk=$DISK"`,
		"a command":        call + `"--node-labels=disk=$(lsblk)"`,
		"a backslash":      call + `--node-labels=disk\=nvme`,
		"a pattern":        call + `--node-labels=disk=*`,
		"ANSI quotes":      call + `$'--node-labels=disk=nvme'`,
		"a condition":      "if test -e /x; then\n" + call + "'--node-labels=disk=nvme'\nfi",
		"a list":           "test -e /x && " + call + "'--node-labels=disk=nvme'",
		"a function":       "f() { " + call + "'--node-labels=disk=nvme'; }",
		"a here-document":  "cat <<EOF\n" + call + "'--node-labels=disk=nvme'\nEOF",
		"a comment":        "# " + call + "'--node-labels=disk=nvme'",
		"another argument": "/etc/eks/bootstrap.sh --kubelet-extra-args",
		"another script":   "/opt/bootstrap.sh prod --kubelet-extra-args '--node-labels=disk=nvme'",
		"no shell":         call + "'--node-labels=disk=nvme",
		"too long":         call + "'--node-labels=disk=nvme'\n#" + strings.Repeat("x", MaxBytes),
		"deep":             strings.Repeat("$(", MaxBytes/2),
	} {
		if got := RegistrationOf(catalog.FamilyAL2, script); len(got.Labels)+len(got.Taints) > 0 {
			t.Errorf("%s: %+v of\n%.200s", name, got, script)
		}
	}
}

// What the kubelet or the API server would refuse is left out, and the rest counts.
func TestRegistrationLeavesOutWhatIsRefused(t *testing.T) {
	labels := "kubernetes.io/team=a,node-restriction.kubernetes.io/x=y,node-role.kubernetes.io/worker=,bad key=x,-=x,long=" + strings.Repeat("x", 64) +
		",node.kubernetes.io/mine=1,empty,ok=1"
	taints := "ok=1:NoSchedule,none,odd=1:Never,bad/key/=1:NoSchedule,:NoSchedule,k=b&d:NoSchedule"
	got := RegistrationOf(catalog.FamilyAL2023, nodeConfigHead+"    flags: ['--node-labels=\""+labels+"\"', '--register-with-taints="+taints+"']\n")
	want := Registration{
		Labels: map[string]string{"node.kubernetes.io/mine": "1", "empty": "", "ok": "1"},
		Taints: []corev1.Taint{{Key: "ok", Value: "1", Effect: corev1.TaintEffectNoSchedule}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// FuzzRegistrationOf checks that any user data is read without a panic, and gives nothing that the API server would refuse.
func FuzzRegistrationOf(f *testing.F) {
	for _, text := range []string{flagged, configured, quoted, bootstrap, multi, "[settings.kubernetes.node-labels]\na = 'b'\n", "a: &a [*a]", "$(", "<<"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, family := range []string{catalog.FamilyAL2023, catalog.FamilyAL2, catalog.FamilyBottlerocket, catalog.FamilyCustom} {
			got := RegistrationOf(family, text)
			for key, value := range got.Labels {
				if !kubeletMaySet(key) || len(validation.IsQualifiedName(key))+len(validation.IsValidLabelValue(value)) > 0 {
					t.Errorf("%s: label %q=%q", family, key, value)
				}
			}
			for _, taint := range got.Taints {
				if invalid(taint) {
					t.Errorf("%s: taint %+v", family, taint)
				}
			}
		}
	})
}
