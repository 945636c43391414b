package commands_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// class is what becomes of a documented command here.
type class string

const (
	// run is run, in a sandbox or without a cluster: all that nothing below says otherwise of.
	run class = "run"
	// watch never ends by itself: it is run for a moment.
	watch class = "watch"
	// target is a target of the Makefile, which must exist.
	target class = "make"
	// helm is rendered with Helm's library by manifests/chart's tests, its values included.
	helm class = "helm"
	// elsewhere needs what no sandbox has: it is read by bash, not run.
	elsewhere class = "elsewhere"
)

// exception says that commands are not simply run.
type exception struct {
	// file and prefix say which; an empty file is any.
	file, prefix string
	class        class
	why          string
}

// exceptions are looked through in this order. Each must be needed.
func exceptions() []exception {
	const static, controlPlane = "docs/static-pod.md", "a control plane's own files: make e2e-kind does the same"
	return []exception{
		{"", "make ", target, ""},
		{"", "helm ", helm, ""},
		{"", "kind ", elsewhere, "Docker: make e2e-kind does the same"},
		{"", "eksctl ", elsewhere, "makes EKS clusters"},
		{"", "go test ", elsewhere, "a test that runs tests"},
		{"", "git ", elsewhere, "the state of a checkout"},
		{"", "AWS_ENDPOINT_URL=http://localhost:5000", elsewhere, "another AWS: make test has it in e2e/foreign"},
		{"", "apt-get ", elsewhere, "installs packages"},
		{static, "mkdir ", elsewhere, controlPlane},
		{static, "for name in", elsewhere, controlPlane},
		{static, "cp ", elsewhere, controlPlane},
		{static, "chown ", elsewhere, controlPlane},
		{static, "mv ", elsewhere, controlPlane},
		{static, "kubectl -n kube-system get configmap kubeadm-config", elsewhere, controlPlane},
		{"", "pip install", elsewhere, "installs packages"},
		{"", "sudo ", elsewhere, "root: make e2e-kubelet does the same"},
		{"", "aws cloudformation ", elsewhere, "the sandbox's AWS has no CloudFormation; manifests' tests read the template"},
		{"", "aws iam create-service-linked-role", elsewhere, "changes an account"},
		{"", "aws events ", elsewhere, "the sandbox's AWS has no rules of EventBridge"},
		{"", "for program in", elsewhere, "a registry of AWS"},
		{"", "export AWS_ACCOUNT_ID=", elsewhere, "the AWS command line may not be there"},
		{"", "export REGISTRY=", elsewhere, "follows from the line before"},
		{"", "aws ", elsewhere, "the AWS command line may not be there; e2e/aws speaks to the sandbox with it where it is"},
		{"docs/getting-started.md", "bin/slipway-sandbox up", run, ""},
		{"docs/buffers.md", "bin/slipway-sandbox up", run, ""},
		{"", "bin/slipway-sandbox up", elsewhere, "one sandbox is up already, by the commands of getting-started.md and buffers.md"},
		{"", "bin/slipway-sandbox aws cpu", elsewhere, "names an instance; the meter's tests in e2e/aws keep instances busy"},
		{"", "bin/slipway-sandbox aws serve", elsewhere, "a port that somebody may have"},
		{"", "bin/slipway-sandbox machine-check", elsewhere, "tells whether this host can run kubelets"},
		{"docs/api.md", "kubectl -n kube-system port-forward ", elsewhere, "slipway is no Pod in the sandbox; launcher/webapi's tests ask the API"},
		{"docs/api.md", "token=", elsewhere, "follows from the line before"},
		{"docs/api.md", "curl ", elsewhere, "follows from the line before"},
		{"", "bin/slipway ui", elsewhere, "slipway is no Pod in the sandbox; TestPage in e2e runs it on the sandbox's launcher"},
		{"", "kubectl -n kube-system logs ", elsewhere, "slipway is no Pod in the sandbox"},
		{"", "bin/slipway status --watch", watch, ""},
		{"", "bin/slipway top", watch, ""},
	}
}

// of is the class of a command and the exception that says so; nil where none does.
func of(c command) (class, *exception) {
	for _, e := range exceptions() {
		if (e.file == "" || e.file == c.file) && strings.HasPrefix(c.text, e.prefix) {
			return e.class, &e
		}
	}
	return run, nil
}

// known are the programs that a command that is run may begin with: what begins otherwise has no class yet.
var known = regexp.MustCompile(`^(kubectl|bin/slipway|bin/slipway-sandbox|slipway|export|cat|sed) `)

func TestEveryCommandHasAClass(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(repository + "/Makefile")
	if err != nil {
		t.Fatal(err)
	}
	needed := map[exception]bool{}
	count := map[class]int{}
	for _, c := range append(commands(t), mentioned(t)...) {
		class, why := of(c)
		count[class]++
		if why != nil {
			needed[*why] = true
		}
		switch class {
		case run:
			if !known.MatchString(c.text) {
				t.Errorf("%s: %q has no class: what begins so is neither run nor excepted", c.file, c.text)
			}
		case target:
			targets(t, c, string(makefile))
		case helm, watch:
		case elsewhere:
			if why == nil || why.why == "" {
				t.Errorf("%s: %q is not run, and nothing says why", c.file, c.text)
			}
		}
		isRead(t, c)
	}
	for _, e := range exceptions() {
		if !needed[e] {
			t.Errorf("no command needs the exception %+v", e)
		}
	}
	if count[run] < 30 {
		t.Errorf("%d commands are run: were they found?", count[run])
	}
	t.Log(count)
}

// isRead holds that bash can read the command.
func isRead(t *testing.T, c command) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "bash", "-n", "-c", c.text).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%s: bash does not read %q: %v %s", c.file, c.text, err, out)
	}
}

// targets holds that what make is asked for exists.
func targets(t *testing.T, c command, makefile string) {
	t.Helper()
	text, _, _ := strings.Cut(c.text, "#")
	for part := range strings.SplitSeq(text, "&&") {
		words := strings.Fields(part)
		if len(words) == 0 || words[0] != "make" {
			t.Errorf("%s: %q does not begin with make", c.file, part)
			continue
		}
		for _, word := range words[1:] {
			name, _, variable := strings.Cut(word, "=")
			if variable && !strings.Contains(makefile, "$("+name+")") {
				t.Errorf("%s: %q sets %s, which the Makefile does not read", c.file, c.text, name)
			}
			if !variable && !strings.Contains(makefile, "\n"+name+":") {
				t.Errorf("%s: %q: there is no target %s", c.file, c.text, name)
			}
		}
	}
}
