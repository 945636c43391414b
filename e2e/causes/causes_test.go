package causes_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/causes/catalogue"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/e2e/testbed"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/webapi"
)

const (
	// speed divides the delays of machines and of AWS.
	speed = 20
	// explaining is how many commands run beside each other: each plans the cluster.
	explaining = 2
	// beside is how many causes are in the sandbox at a time.
	beside = "24"
	// patience is how long a sentence, or a pod after its edit, may take on a machine however busy.
	patience = 3 * time.Minute
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", beside); err != nil { // They wait more than they compute.
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// lab is the sandbox of all causes.
type lab struct {
	*testbed.Testbed
	page     http.RoundTripper
	explains *semaphore.Weighted
}

// Each cause shows its sentence in the condition, to `slipway explain` and in the API's answer from which the page is made; and the edit that explain
// proposes makes the pods run.
func TestCauses(t *testing.T) {
	groups, err := catalogue.Read(os.DirFS("catalogue"))
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{explains: semaphore.NewWeighted(explaining)}
	l.Testbed = testbed.Start(t, sandbox.Config{
		Speed: speed, BinDir: testbed.BinDir("../.."), Machines: sandbox.Light, ChangeScheduler: twoProfiles, LauncherArgs: []string{"--feature-gates=StaticCapacity=true"},
		PluginArgs: map[string]any{"gangTimeout": "2s"},
	})
	config := rest.CopyConfig(l.RESTConfig())
	config.CAData, config.Insecure = nil, true // The launcher makes its certificate at each start.
	if l.page, err = rest.TransportFor(config); err != nil {
		t.Fatal(err)
	}
	l.Create(sandbox.NodeClass("default"))
	t.Run("beside", func(t *testing.T) { // It returns when all of them have ended.
		for c := range catalogue.All(groups) {
			if !c.Alone {
				t.Run(c.Name, func(t *testing.T) {
					t.Parallel()
					(&injected{lab: l, Cause: c, t: t}).check()
				})
			}
		}
	})
	for c := range catalogue.All(groups) {
		if c.Alone {
			t.Run("alone/"+c.Name, func(t *testing.T) { (&injected{lab: l, Cause: c, t: t}).check() })
		}
	}
}

// twoProfiles makes the scheduler serve the scheduler names default-scheduler and slipway.
func twoProfiles(config map[string]any) {
	first, _ := config["profiles"].([]any)[0].(map[string]any)
	config["profiles"] = []any{first, merged(first, map[string]any{"schedulerName": "slipway"})}
}

// check injects the cause and compares what the user sees.
func (i *injected) check() {
	says, err := catalogue.Pattern(i.Says)
	if err != nil {
		i.t.Fatal(err)
	}
	i.inject()
	pod := i.awaitSentence(says)
	i.page(says, pod)
	explained := ""
	i.await(fmt.Sprintf("slipway explain to say %q", i.Says), func() (bool, string) {
		pod := i.awaitSentence(says)
		explained = i.explain(pod)
		// Of equal pods another may have been bound meanwhile.
		same := slices.ContainsFunc(i.pods(), func(is corev1.Pod) bool { return is.UID == pod.UID && is.Spec.NodeName == pod.Spec.NodeName })
		// The search for edits ends after a time.
		return same && says.MatchString(explained) && i.wrongEdit(explained) == "", explained + i.wrongEdit(explained)
	})
	i.t.Logf("%s\n%s", i.claims(), strings.Join(messages(i.pods()), "\n"))
	if i.Apply == nil || i.t.Failed() {
		return
	}
	i.apply()
	i.await("the edit to make the pods run: "+i.Edit, func() (bool, string) {
		pods, running := i.pods(), 0
		for j := range pods {
			if pods[j].Status.Phase == corev1.PodRunning && pods[j].DeletionTimestamp == nil {
				running++
			}
		}
		return running > 0 && running == len(pods) && int32(running) >= i.Pods(), fmt.Sprint(messages(pods))
	})
}

// await asks until done, which also returns what there is instead.
func (i *injected) await(what string, done func() (bool, string)) {
	i.t.Helper()
	last := ""
	for end := time.Now().Add(patience); time.Now().Before(end); {
		ok, is := done()
		if ok {
			return
		}
		last = is
		select {
		case <-i.t.Context().Done():
			i.t.Fatalf("waiting for %s: %v", what, i.t.Context().Err())
		case <-time.After(300 * time.Millisecond):
		}
	}
	i.t.Fatalf("waiting for %s; there is: %s", what, last)
}

// pods returns those of the cause.
func (i *injected) pods() []corev1.Pod {
	var list corev1.PodList
	if err := i.API.List(i.t.Context(), &list, client.InNamespace(i.Name)); err != nil {
		i.t.Fatal(err)
	}
	return list.Items
}

// messages returns why pods are pending.
func messages(pods []corev1.Pod) []string {
	var out []string
	for j := range pods {
		if c := conditions.Pod(&pods[j], corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
			out = append(out, pods[j].Name+": "+c.Message)
		}
	}
	return out
}

// awaitSentence waits until the condition has the sentence, and returns the pod that it is about. The sentence is short, and has no details of the SDK.
func (i *injected) awaitSentence(says *regexp.Regexp) *corev1.Pod {
	i.t.Helper()
	var pod *corev1.Pod
	said := ""
	i.await(fmt.Sprintf("%q", i.Says), func() (bool, string) {
		pods := i.pods()
		switch {
		case len(pods) == 0:
			return false, "no pod"
		case i.At == "NodeClaim":
			pod, said = &pods[0], i.claims()
			return says.MatchString(said), said + fmt.Sprint(messages(pods))
		case i.At == "Nothing":
			pod = &pods[0]
			return time.Since(pod.CreationTimestamp.Time) > 12*time.Second, "a new pod"
		}
		for j := range pods {
			if c := conditions.Pod(&pods[j], corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse && says.MatchString(c.Message) {
				pod, said = &pods[j], c.Message
				return true, ""
			}
		}
		return false, fmt.Sprint(messages(pods))
	})
	if first := firstSentence(said, says); len(first) > catalogue.MostBeforeStop {
		i.t.Errorf("the sentence has %d characters: %s", len(first), first)
	}
	if regexp.MustCompile(`(?i)request ?id|https response error|operation error`).MatchString(said) {
		i.t.Errorf("the message has details of the SDK: %s", said)
	}
	return pod
}

// firstSentence returns what a message says from the cause on, up to its first full stop: the reasons of other NodePools follow it.
func firstSentence(message string, says *regexp.Regexp) string {
	at := says.FindStringIndex(message)
	if at == nil {
		return "" // No component writes one.
	}
	rest := message[at[0]:]
	for _, end := range []string{". ", "\n", "; NodePool"} {
		rest, _, _ = strings.Cut(rest, end)
	}
	return rest
}

// claims returns the messages of the conditions of the NodeClaims, one a line.
func (i *injected) claims() string {
	var list karpv1.NodeClaimList
	if err := i.API.List(i.t.Context(), &list, client.MatchingLabels{karpv1.NodePoolLabelKey: i.Name}); err != nil {
		i.t.Fatal(err)
	}
	var out []string
	for j := range list.Items {
		for _, c := range list.Items[j].Status.Conditions {
			out = append(out, c.Reason+": "+c.Message)
		}
	}
	return strings.Join(out, "\n")
}

// explain returns what `slipway explain` prints, in one line.
func (i *injected) explain(pod *corev1.Pod) string {
	i.t.Helper()
	if err := i.explains.Acquire(i.t.Context(), 1); err != nil {
		i.t.Fatal(err)
	}
	defer i.explains.Release(1)
	cmd := exec.CommandContext(i.t.Context(), filepath.Join(testbed.BinDir("../.."), "slipway"), "--kubeconfig", i.KubeconfigPath(), "explain", "pod", pod.Namespace+"/"+pod.Name)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		i.t.Fatalf("slipway explain: %v: %s", err, exit.Stderr)
	}
	if err != nil {
		i.t.Fatal(err)
	}
	return string(out)
}

// wrongEdit says what is wrong with the first of the proposed edits; empty for nothing.
func (i *injected) wrongEdit(explained string) string {
	_, proposed, found := strings.Cut(explained, "checked by the planner:\n")
	switch {
	case !found && i.Edit != "":
		return fmt.Sprintf("no edit is proposed, want %q", i.Edit)
	case found && i.Edit == "":
		return "an edit is proposed"
	case found:
		if want, err := catalogue.Pattern(i.Edit); err != nil || !want.MatchString(proposed) {
			return fmt.Sprintf("the edit is not proposed (%v), want %q", err, i.Edit)
		}
	}
	return ""
}

// page compares the API's answer about pending pods, from which the page is made; about a node that does not come, its answer about nodes.
func (i *injected) page(says *regexp.Regexp, pod *corev1.Pod) {
	i.t.Helper()
	i.await(fmt.Sprintf("the page to say %q", i.Says), func() (bool, string) {
		var pods webapi.Pods
		i.get("/api/v1/pods?namespace="+i.Name, &pods)
		var shown []string
		for _, c := range pods.Pending {
			shown = append(shown, c.Why)
			for _, r := range c.Reasons {
				shown = append(shown, r.Message)
			}
		}
		var one webapi.Pod
		i.get("/api/v1/namespaces/"+pod.Namespace+"/pods/"+pod.Name, &one)
		shown = append(shown, one.Why)
		if i.At == "NodeClaim" {
			var nodes webapi.Nodes
			i.get("/api/v1/nodes", &nodes)
			for _, n := range nodes.Nodes {
				if n.NodePool == i.Name {
					shown = append(shown, n.Why)
				}
			}
			for _, trouble := range nodes.Troubles {
				shown = append(shown, trouble.Reason+": "+trouble.Message)
			}
		}
		return slices.ContainsFunc(shown, says.MatchString), strings.Join(shown, "\n")
	})
}

// get reads an answer of the API, as an administrator.
func (i *injected) get(path string, out any) {
	i.t.Helper()
	ctx, cancel := context.WithTimeout(i.t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, i.LauncherURL(path), nil)
	if err != nil {
		i.t.Fatal(err)
	}
	answer, err := i.lab.page.RoundTrip(r)
	if err != nil {
		i.t.Logf("asking for %s: %v", path, err)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return
	}
	if err := json.NewDecoder(answer.Body).Decode(out); err != nil {
		i.t.Errorf("reading the answer to %s: %v", path, err)
	}
}
