package page

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Each view of the page shows a cluster of 200 nodes, in a real browser: axe-core finds nothing serious in it, in no scheme and at no width, and the
// browser reports no error, such as of the Content-Security-Policy. Then AWS fails in each way that the sandbox knows, and the page says so.
func TestPage(t *testing.T) {
	w := newWorld(t)
	w.apply(w.file("cluster.yaml"))
	w.ready(201)
	w.page.open("#/cluster?filter=fleet+ready")
	w.page.sees("200 of 201 nodes", "Pods pending 3")
	for _, view := range []struct {
		name string
		look func()
	}{
		{"cluster", w.cluster},
		{"pending", w.pending},
		{"pod", w.pod},
		{"node", w.node},
		{"decisions", w.decisions},
		{"pause", w.pause},
		{"what if", w.whatIf},
		{"keyboard", w.keyboard},
		{"not there", w.notThere},
		{"reports", w.reports},
	} {
		w.run(t, view.name, view.look)
	}
	w.run(t, "a crash", w.crash)
	if long() { // Before the faults after which nothing is launched for minutes.
		w.run(t, "nodes that do not join", w.failJoin)
	}
	for _, fault := range w.faults() {
		w.run(t, fault.name, func() { w.fails(fault) })
	}
	if long() {
		w.run(t, "a new AMI", w.release)
	}
}

// run runs a part of the test, whose failures are those of the page.
func (w *world) run(t *testing.T, name string, part func()) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		outer := w.t
		w.t, w.page.t = t, t
		defer func() { w.t, w.page.t = outer, outer }()
		begin := time.Now()
		part()
		t.Logf("took %s", time.Since(begin).Round(100*time.Millisecond))
	})
}

func (w *world) cluster() {
	p := w.page
	p.open("#/cluster")
	p.sees("Cost per month", "The bill", "By zone", "us-east-1b", "fleet", "EBS volumes", "no set of nodes for the pods that run costs less than", "Planned from scratch")
	p.axe("cluster")
	p.shot("ui")
	// Sorted by price and filtered by zone, and the address has both.
	p.click("USD/h")
	p.fill("Filter", "us-east-1a")
	p.sees("USD/h ▼", " of 201 nodes")
	p.axe("cluster, filtered")
	p.fill("Filter", "no such node")
	p.sees("No node has all these words")
}

func (w *world) pending() {
	p := w.page
	p.open("#/pending")
	p.sees("shop ReplicaSet payments", "requires example.com/team in [payments]", "Remove node selector example.com/team=payments of Deployment shop/payments", "/h more")
	p.settled()
	p.axe("pending")
	p.shot("ui-pending")
	p.click("1 other edit")
	p.sees("Add label example.com/team=payments to the nodes of NodePool default")
	p.open("#/pending?namespace=default")
	p.sees("No pod is pending")
}

// pods and nodeClaims are kinds of objects that are looked for.
func pods() schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind("PodList") }

func claims() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaimList"}
}

func (w *world) pod() {
	p := w.page
	p.open("#/cluster")
	p.fill("Pod, as NAMESPACE/NAME", "shop/"+w.first(pods(), "payments"))
	p.click("Find pod")
	p.sees("none, and none is on its way", "requires example.com/team", "Smallest edit that helps", "Remove node selector", "created")
	p.axe("a pending pod")
	p.open("#/pods/shop/" + w.pulled("web-"))
	p.sees("Phase Running", "What has happened", "created", "node planned", "bound", "pulling image", "image there", "containers started", "ready", "Step took")
	p.axe("a running pod")
	p.shot("ui-pod")
}

func (w *world) node() {
	p := w.page
	p.open("#/cluster?filter=fleet&sort=-price")
	p.settled()
	claim := w.first(claims(), "")
	p.open("#/nodes/" + claim)
	p.sees("NodeClaim "+claim, "per month", "EBS volumes", "CPU requested", "What has happened", "launched", "Pods", "shop ")
	p.axe("a node")
}

func (w *world) decisions() {
	p := w.page
	p.open("#/decisions")
	p.sees("Pause all disruption", "The last 24 hours", "launch", " × ", "for 1 pod")
	p.sees("Consolidation", "Why 20")
	p.axe("decisions")
	p.shot("ui-decisions")
}

// pause pauses all disruption and resumes it, as a user who may.
func (w *world) pause() {
	p := w.page
	p.open("#/decisions")
	p.sees("Nodes are disrupted as the budgets of their NodePools allow")
	p.click("Pause all disruption…")
	p.sees("No node will be consolidated")
	p.axe("the question whether to pause")
	p.click("Pause 2 NodePools")
	p.sees("Disruption is paused for all 2 NodePools")
	p.open("#/cluster")
	p.sees("Disruption is paused for NodePools default, fleet")
	p.axe("cluster, paused")
	p.click("Resume")
	p.sees("Resume all disruption…")
	p.click("Resume all disruption…")
	p.click("Resume 2 NodePools")
	p.sees("Nodes are disrupted as the budgets of their NodePools allow")
}

// whatIf asks for a cluster with a buffer.
func (w *world) whatIf() {
	p := w.page
	p.open("#/what-if")
	p.fill("Kind", "Deployment")
	p.fill("Name", "shop/payments")
	p.click("Insert what is there")
	p.click("Insert a buffer")
	p.fill("Nodes to remove", "no-such-node")
	p.click("Plan")
	p.sees("no-such-node")
	p.fill("Nodes to remove", "")
	p.click("Plan")
	p.sees("What slipway would do", "As it is, with what is launched now", "With the change", "Launched", "default/capacity-buffer:what-if-", "Without a node")
	p.settled()
	p.axe("what if")
	w.whatIfLinked()
}

// whatIfLinked asks for a cluster with another NodePool and a node less, and follows the link to the question.
func (w *world) whatIfLinked() {
	p := w.page
	claim := w.first(claims(), "")
	p.fill("Objects, as YAML", w.file("nodepool.yaml"))
	p.fill("Nodes to remove", claim)
	p.click("Plan")
	p.sees("Removed: "+claim, "0 pods without a node", "shop/payments-")
	p.settled()
	p.keep("ui-what-if", true)
	// The address is a link to the same question, and a view of it has the same answer.
	p.must(command{Follow: true})
	p.sees("Removed: "+claim, "0 pods without a node")
	p.click("Plan")
	p.settled()
	p.sees("Removed: " + claim)
}

// keyboard goes through the page with the keyboard alone.
func (w *world) keyboard() {
	p := w.page
	p.open("#/cluster")
	p.sees("Node", "Planned from scratch")
	p.reach("Skip to the content")
	p.reach("spot")
	p.reach("USD/h")
	p.enter()
	p.sees("USD/h ▼")
	p.enter()
	p.sees("USD/h ▲")
	p.open("#/cluster")
	p.sees("USD/h")
	p.reach("Pending pods")
	p.enter()
	p.sees("1 other edit")
	p.reach("1 other edit")
	p.enter()
	p.sees("Add label example.com/team=payments")
	p.open("#/what-if")
	p.reach("Insert a buffer")
	p.enter()
	p.reach("Plan")
	p.enter()
	p.sees("default/capacity-buffer:what-if-")
	p.open("#/decisions")
	p.sees("Pause all disruption…")
	p.reach("Pause all disruption…")
	p.enter()
	p.sees("No node will be consolidated")
	p.reach("Cancel")
	p.enter()
	p.sees("Pause all disruption…")
}

// reports looks at the pages that slipway simulate writes: of a plan, of moves, and of the sandbox's cluster at the launcher's prices.
func (w *world) reports() {
	p, folder := w.page, w.t.TempDir()
	prices, zones := filepath.Join(folder, "prices.json"), filepath.Join(folder, "zones.json")
	if err := errors.Join(os.WriteFile(prices, w.asked("/api/v1/prices"), 0o600), os.WriteFile(zones, []byte(`["us-east-1a", "us-east-1b", "us-east-1c"]`), 0o600)); err != nil {
		w.t.Fatal(err)
	}
	for _, r := range []struct {
		name, picture string
		args          []string
		sees          []string
	}{
		{"the page of a plan", "simulate-html", []string{"-f", "testdata/report.yaml", "--zones", zones}, []string{"What slipway would launch", "Pods that cannot be placed", "The bill"}},
		{"the page of moves", "simulate-consolidate-html", []string{"-f", "../../plugin/simulate/report/testdata/fleet.yaml", "--consolidate"}, []string{"What consolidation would save", "The bill"}},
		{"the page of the cluster", "", []string{"--from-cluster", "--consolidate", "--prices", prices}, []string{"What consolidation would save", "201 nodes", "4.7"}},
	} {
		file := filepath.Join(folder, r.name+".html")
		if err := os.WriteFile(file, w.slipway(append([]string{"simulate", "-o", "html"}, r.args...)...), 0o600); err != nil {
			w.t.Fatal(err)
		}
		p.must(command{Open: "file://" + file})
		p.sees(r.sees...)
		p.axe(r.name)
		if r.picture != "" {
			p.shot(r.picture)
		}
	}
}

func (w *world) notThere() {
	p := w.page
	p.open("#/nodes/none")
	p.sees("none", "not found")
	p.axe("a node that is not there")
	p.open("#/none")
	p.sees("There is no view of this name")
	p.axe("no view")
	// The launcher serves the page too. It asks who does not say who they are for a token.
	command := p.url
	defer func() { p.url = command }()
	p.url = w.api + "/ui/"
	p.open("#/cluster")
	p.sees("The launcher does not know who asks", "Token")
	p.axe("the launcher's own page")
}

// fault is something that AWS does.
type fault struct {
	name string
	// does it, and ends it; no words end what ends by itself.
	does, ends []string
	// pinned is the node selector of a pod that meets it.
	pinned string
	// cluster is what the cluster's view says, and pending what the view of pending pods does; empty for nothing.
	cluster, pending []string
}

// faults returns what AWS does at once. Those after which offerings are not tried for three minutes are the last: others need offerings.
func (w *world) faults() []fault {
	return []fault{
		{
			name: "no capacity", does: []string{"ice", "m6a.4xlarge", "all", "all", "--for", "1h"}, ends: []string{"ice", "m6a.4xlarge", "all", "all", "--for", "1ms"}, pinned: "node.kubernetes.io/instance-type: m6a.4xlarge",
			cluster: []string{"What EC2 refuses now", "InsufficientInstanceCapacity", "m6a.4xlarge"}, pending: []string{"EC2 has no capacity"},
		},
		{
			name: "AWS is down", does: []string{"down", "--for", "1h"}, ends: []string{"down", "--for", "1ms"}, pinned: "node.kubernetes.io/instance-type: m6i.4xlarge",
			cluster: []string{"What fails now", "1 NodeClaim", "tried again"},
		},
		{
			name: "AWS throttles", does: []string{"throttle", "--for", "1h"}, ends: []string{"throttle", "--for", "1ms"}, pinned: "node.kubernetes.io/instance-type: c6i.4xlarge",
			cluster: []string{"What fails now", "RequestLimitExceeded", "tried again"},
		},
		{name: "launch templates deleted", does: []string{"delete-templates"}, pinned: "node.kubernetes.io/instance-type: c7i.4xlarge"},
		{name: "tags late", does: []string{"tags-after", "2s"}, ends: []string{"tags-after", "0s"}, pinned: "node.kubernetes.io/instance-type: m7i.4xlarge"},
		{
			name: "a quota", does: []string{"quota", "on-demand", "1"}, ends: []string{"quota", "on-demand", "none"}, pinned: "karpenter.sh/capacity-type: on-demand",
			cluster: []string{"What EC2 refuses now", "VcpuLimitExceeded"}, pending: []string{"quota"},
		},
		{
			name: "no Spot role", does: []string{"spot-role", "missing"}, ends: []string{"spot-role", "present"}, pinned: "node.kubernetes.io/instance-type: r6i.4xlarge, karpenter.sh/capacity-type: spot",
			cluster: []string{"What EC2 refuses now", "AuthFailure.ServiceLinkedRoleCreationNotPermitted"}, pending: []string{"role"},
		},
		{name: "a spot interruption", does: []string{"interrupt", "--one-spot"}},
	}
}

// fails has AWS fail, and looks at what the page says about it. Afterwards the pod that met the fault runs, where the fault ends.
func (w *world) fails(f fault) {
	p := w.page
	said := w.aws(f.does...)
	if f.pinned == "" {
		p.open("#/decisions")
		p.sees("termination", "spot interrupted")
		return
	}
	name := strings.ToLower(strings.ReplaceAll(f.name, " ", "-"))
	w.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: %s, labels: {app: %s}}
spec:
  nodeSelector: {%s}
  containers: [{name: main, image: web:1, resources: {requests: {cpu: "9"}}}]
`, name, name, f.pinned))
	p.open("#/cluster")
	if len(f.cluster) > 0 {
		p.sees(f.cluster...)
	}
	if f.name == "no capacity" {
		p.axe("cluster, with what EC2 refuses")
	}
	if len(f.pending) > 0 {
		p.open("#/pending")
		p.sees(append([]string{"Pod " + name}, f.pending...)...)
	}
	w.t.Logf("%s", strings.TrimSpace(said))
	if len(f.cluster) == 0 {
		p.open("#/pods/shop/" + name)
		p.sees("Phase Running") // In spite of the fault.
	}
	if len(f.ends) > 0 {
		w.aws(f.ends...)
	}
	if len(f.cluster) > 0 && len(f.pending) == 0 {
		p.open("#/pods/shop/" + name)
		p.sees("Phase Running")
	}
}

// crash ends both processes, which the sandbox starts again. The page shows the cluster as before, and what is launched then.
func (w *world) crash() {
	p := w.page
	w.sandbox("kill", "launcher")
	w.sandbox("kill", "scheduler")
	w.apply(`
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: after-crash, labels: {app: after-crash}}
spec:
  nodeSelector: {node.kubernetes.io/instance-type: r7i.4xlarge}
  containers: [{name: main, image: web:1, resources: {requests: {cpu: "9"}}}]
`)
	p.open("#/cluster")
	p.sees("Cost per month", " nodes")
	p.open("#/pods/shop/after-crash")
	p.sees("Phase Running", "node planned")
}

// failJoin has an instance boot that never joins. The launcher gives up after five real minutes.
func (w *world) failJoin() {
	p := w.page
	w.aws("fail-join", "--next", "1")
	w.apply(`
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: joins-late, labels: {app: joins-late}}
spec:
  nodeSelector: {node.kubernetes.io/instance-type: c7g.4xlarge}
  containers: [{name: main, image: web:1, resources: {requests: {cpu: "9"}}}]
`)
	p.open("#/pods/shop/joins-late")
	p.sees("promised a place on")
	p.must(command{See: []string{"Phase Running"}, Within: (15 * time.Minute).Milliseconds()})
	p.open("#/decisions")
	p.sees("refusal", "did not register within")
}

// release has AWS publish a new AMI, which the launcher sees when it starts: nodes drift and are replaced.
func (w *world) release() {
	w.aws("release", "--al2023", "v20990101")
	w.sandbox("kill", "launcher")
	w.page.open("#/decisions")
	w.page.sees("termination", "Drifted")
}
