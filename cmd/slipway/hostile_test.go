package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/fromec2"
)

// hostile is a text that colors a terminal red, clears it, goes back to the beginning of the line and turns the direction of reading.
const hostile = "evil\x1b[31m\x1b[2J\r\u009b31m\u202e\x7f"

// quotedHostile is the text as YAML and JSON quote it.
func quotedHostile() string {
	return strings.ReplaceAll(strconv.QuoteToASCII(hostile), `\x`, `\u00`)
}

// obeyed are the characters of a text that a terminal would not show.
func obeyed(text string) string {
	var out strings.Builder
	for _, r := range text {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			fmt.Fprintf(&out, " %U", r)
		}
	}
	return out.String()
}

// hostileFile has the text in every place of the objects whose content is printed.
func hostileFile() string {
	return strings.ReplaceAll(`
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: "pool-HOSTILE"}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: "class-HOSTILE"}
      requirements: []
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default, labels: {"HOSTILE": "HOSTILE"}}
spec:
  template:
    metadata: {labels: {"HOSTILE": "HOSTILE"}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: [{key: "HOSTILE", operator: "HOSTILE", values: ["HOSTILE"]}]
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec: {amiSelectorTerms: [{alias: "HOSTILE"}], role: "HOSTILE"}
---
apiVersion: v1
kind: Node
metadata: {name: "node-HOSTILE", labels: {karpenter.sh/nodepool: default, "HOSTILE": "HOSTILE", node.kubernetes.io/instance-type: "HOSTILE", topology.kubernetes.io/zone: "HOSTILE"}}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10", "HOSTILE": "1"}, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: "pod-HOSTILE", namespace: "ns-HOSTILE", labels: {"HOSTILE": "HOSTILE"}}
spec:
  nodeSelector: {"HOSTILE": "HOSTILE"}
  containers: [{name: "HOSTILE", resources: {requests: {cpu: 500m, "HOSTILE": "1"}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {priorityClassName: "HOSTILE", containers: [{name: main, resources: {requests: {cpu: 1}}}]}
---
apiVersion: v1
kind: "HOSTILE"
metadata: {name: "HOSTILE"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: "HOSTILE", namespace: "HOSTILE"}
spec: {replicas: "HOSTILE", template: {spec: {containers: []}}}
`, `HOSTILE"`, strings.Trim(quotedHostile(), `"`)+`"`)
}

// server answers like an API server of a cluster whose objects have the text in every place that users can write, or that was written
// before the API server validated it.
func server(t *testing.T) (kubeconfig string) {
	t.Helper()
	message := func(kind corev1.PodConditionType) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: hostile, Message: hostile}
	}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1"}}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceName("x.io/" + hostile): resource.MustParse("1")},
	}}}
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{message(corev1.PodScheduled), message("slipway.dev/NodeLaunchable")}}
	placed := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "placed", UID: "u2"}}
	placed.Spec.NodeName, placed.Status.Phase = "node"+hostile, corev1.PodPhase("Running"+hostile)
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node" + hostile, Labels: map[string]string{karpv1.NodePoolLabelKey: hostile}}}
	claim := karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "claim" + hostile, Labels: map[string]string{karpv1.NodePoolLabelKey: hostile, corev1.LabelInstanceTypeStable: hostile, corev1.LabelTopologyZone: hostile},
		Annotations: map[string]string{
			catalog.ExpectedAnnotation: hostile + "/" + hostile + "/" + hostile + "/1", catalog.ReplacesAnnotation: hostile,
			catalog.PodsAnnotation:     `[{"uids":["u1"]}]`,
			catalog.BindingsAnnotation: `[{"at":` + quotedHostile() + `,"rule":` + quotedHostile() + `,"why":` + quotedHostile() + `,"uids":["u1"]}]`,
		},
	}}
	claim.Status.NodeName = node.Name
	claim.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeLaunched, "Reason", hostile)
	class := awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "class" + hostile}}
	fromec2.Note(&class, fromec2.SizesKey("m6i.large"+hostile, "ami"+hostile), fromec2.Report{NodeClaim: hostile, At: metav1.Now(), Memory: resource.MustParse("7750Mi")})
	event := corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e"}, Reason: hostile, Message: hostile}
	answers := map[string]any{
		"/api":                       metav1.APIVersions{Versions: []string{"v1"}},
		"/apis":                      groups("karpenter.sh", "karpenter.k8s.aws"),
		"/api/v1":                    resources("v1", "pods", "Pod", "nodes", "Node", "events", "Event"),
		"/apis/karpenter.sh/v1":      resources("karpenter.sh/v1", "nodeclaims", "NodeClaim", "nodepools", "NodePool"),
		"/apis/karpenter.k8s.aws/v1": resources("karpenter.k8s.aws/v1", "ec2nodeclasses", "EC2NodeClass"),

		"/api/v1/namespaces/default/pods/web":       pod,
		"/api/v1/namespaces/default/pods/placed":    placed,
		"/api/v1/namespaces/default/events":         corev1.EventList{Items: []corev1.Event{event}},
		"/api/v1/pods":                              corev1.PodList{Items: []corev1.Pod{pod, placed}},
		"/api/v1/nodes":                             corev1.NodeList{Items: []corev1.Node{node}},
		"/apis/karpenter.sh/v1/nodeclaims":          karpv1.NodeClaimList{Items: []karpv1.NodeClaim{claim}},
		"/apis/karpenter.sh/v1/nodepools":           karpv1.NodePoolList{Items: []karpv1.NodePool{{ObjectMeta: metav1.ObjectMeta{Name: "pool" + hostile}}}},
		"/apis/karpenter.k8s.aws/v1/ec2nodeclasses": awsv1.EC2NodeClassList{Items: []awsv1.EC2NodeClass{class}},
	}
	return serve(t, answers)
}

func groups(names ...string) metav1.APIGroupList {
	var out metav1.APIGroupList
	for _, name := range names {
		v := metav1.GroupVersionForDiscovery{GroupVersion: name + "/v1", Version: "v1"}
		out.Groups = append(out.Groups, metav1.APIGroup{Name: name, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
	}
	return out
}

func resources(version string, namesAndKinds ...string) metav1.APIResourceList {
	out := metav1.APIResourceList{GroupVersion: version}
	for i := 0; i < len(namesAndKinds); i += 2 {
		namespaced := slices.Contains([]string{"pods", "events", "configmaps"}, namesAndKinds[i])
		out.APIResources = append(out.APIResources, metav1.APIResource{
			Name: namesAndKinds[i], Kind: namesAndKinds[i+1], Namespaced: namespaced, Verbs: metav1.Verbs{"get", "list"},
		})
	}
	return out
}

// No output of any command has a character that a terminal obeys, whatever the names, labels and messages are.
func TestTerminalsObeyNoName(t *testing.T) {
	file, config := write(t, "objects.yaml", hostileFile()), server(t)
	old := write(t, "old.yaml", strings.ReplaceAll(strings.ReplaceAll(hostileFile(), "karpenter.sh/v1", "karpenter.sh/v1beta1"), "k8s.aws/v1", "k8s.aws/v1beta1"))
	for name, args := range map[string][]string{
		"simulate":            {"simulate", "-f", file},
		"simulate in JSON":    {"simulate", "-f", file, "-o", "json"},
		"consolidate":         {"simulate", "--consolidate", "-f", file},
		"simulate in HTML":    {"simulate", "-f", file, "-o", "html"},
		"consolidate in HTML": {"simulate", "--consolidate", "-f", file, "-o", "html"},
		"consolidate in JSON": {"simulate", "--consolidate", "-f", file, "-o", "json"},
		"explain":             {"explain", "pod", "-f", file, "ns-" + hostile + "/pod-" + hostile},
		"explain web":         {"explain", "pod", "-f", file, "web"},
		"explain nothing":     {"explain", "pod", "-f", file, hostile},
		"convert":             {"convert", "-f", old, "--role", "r"},
		"a file that is not":  {"simulate", "-f", hostile},
		"status":              {"status", "--kubeconfig", config},
		"status as wide":      {"status", "-o", "wide", "--kubeconfig", config},
		"explain live":        {"explain", "pod", "web", "--kubeconfig", config},
		"explain placed":      {"explain", "pod", "placed", "--kubeconfig", config},
		"explain none":        {"explain", "pod", "none", "--kubeconfig", config},
		"learned":             {"learned", "--kubeconfig", config},
		"from the cluster":    {"simulate", "--from-cluster", "--kubeconfig", config},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, err := slipway(t, "", args...)
			if !strings.Contains(stdout+stderr, "evil") {
				t.Errorf("the text is not in the output:\n%s\n%s\n%v", stdout, stderr, err)
			}
			// In data, what a terminal only shows in another direction means itself.
			if strings.HasSuffix(name, "JSON") || name == "convert" {
				stdout = strings.ReplaceAll(stdout, "\u202e", "")
			}
			if bad := obeyed(stdout); bad != "" {
				t.Errorf("the output has%s:\n%q", bad, stdout)
			}
			if bad := obeyed(stderr); bad != "" {
				t.Errorf("the notes have%s:\n%q", bad, stderr)
			}
		})
	}
}

// What a hostile file can cost is bounded, and said.
func TestFilesCostLittle(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\na: &a [" + strings.Repeat("x, ", 50_000) + "x]\nb: [")
	for range 3000 {
		bomb.WriteString("*a, ")
	}
	bomb.WriteString("*a]\n")
	zones := make([]string, 5000)
	for i := range zones {
		zones[i] = fmt.Sprintf("us-east-1-zone-%d", i)
	}
	list, err := json.Marshal(zones)
	if err != nil {
		t.Fatal(err)
	}
	file, many := write(t, "bomb.yaml", bomb.String()), write(t, "zones.json", string(list))
	nodes := objectsYAML
	for i := range 5000 {
		nodes += fmt.Sprintf("---\napiVersion: v1\nkind: Node\nmetadata: {name: n%d, labels: {topology.kubernetes.io/zone: zone-%d}}\n", i, i)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"aliases":            {[]string{"simulate", "-f", file}, "reading aliases: they repeat the"},
		"converted aliases":  {[]string{"convert", "-f", file}, "reading aliases: they repeat the"},
		"zones":              {[]string{"simulate", "--zones", many, "-f", write(t, "objects.yaml", objectsYAML)}, "zones: 5000 zones, at most 100 are expected"},
		"zones of nodes":     {[]string{"simulate", "-f", write(t, "nodes.yaml", nodes)}, "EC2NodeClasses and nodes name 5000 zones: the first 100 by name are planned for"},
		"an infinite amount": {[]string{"simulate", "-f", write(t, "inf.yaml", objectsYAML+infinite)}, "Pod default/endless"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			cmd := exec.CommandContext(t.Context(), os.Args[0], c.args...)
			cmd.Env = append(os.Environ(), asCommand+"=1")
			cmd.Stdout, cmd.Stderr = &out, &out
			begin := time.Now()
			err := cmd.Run()
			var own syscall.Rusage
			if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
				t.Fatal(err)
			}
			usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
			if !ok {
				t.Fatalf("no usage is known of the command: %v", err)
			}
			cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			t.Logf("%v of CPU, %v elapsed, %d MiB", cpu, time.Since(begin), usage.Maxrss>>10)
			if !strings.Contains(out.String(), c.want) {
				t.Errorf("error %v, printed %s; want %q", err, out.String(), c.want)
			}
			// A process that was forked has had the memory of its parent.
			if usage.Maxrss > max(300<<10, own.Maxrss) || cpu > 10*time.Second {
				t.Errorf("it took %d MiB and %v of CPU, want 300 MiB and a few seconds at most", usage.Maxrss>>10, cpu)
			}
		})
	}
}

// infinite is objects with amounts that no quantity has.
const infinite = `---
apiVersion: v1
kind: Pod
metadata: {name: endless}
spec: {containers: [{name: main, resources: {requests: {cpu: .inf}}}]}
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: {name: none}
  spec:
    containers:
    - name: main
      resources: {requests: {memory: -.NaN}}
`

// A quantity that cannot be read leaves out its object, with a problem that names object and field, and none other. The command fails at its end.
func TestOneBadQuantity(t *testing.T) {
	for _, style := range []string{infinite, strings.ReplaceAll(infinite, "cpu: .inf", `cpu: "much"`)} {
		stdout, stderr, err := slipway(t, "", append(marketFlags(), "simulate", "-f", write(t, "inf.yaml", objectsYAML+style))...)
		if err == nil || !strings.Contains(err.Error(), "would refuse Pod default/endless, Pod default/none") {
			t.Fatalf("the exit tells %v", err)
		}
		for _, want := range []string{
			"problem: Pod default/endless: spec.containers[0].resources.requests.cpu: ", "problem: Pod default/none: spec.containers[0].resources.requests.memory: ",
		} {
			if !strings.Contains(stderr, want) {
				t.Errorf("problems:\n%s\nwant %s", stderr, want)
			}
		}
		if !strings.Contains(stdout, "default/web") && !strings.Contains(stdout, "web") {
			t.Errorf("the other pod is not planned:\n%s", stdout)
		}
	}
}
