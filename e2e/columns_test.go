package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// table is what `kubectl get -o wide` prints of an object; the API server makes it.
type table struct {
	// columns that are printed always, and with -o wide alone.
	columns, wide []string
	// cells of the first row, by column.
	cells map[string]string
}

// get asks for the objects of a path as kubectl does, which prints the answer as it is.
func (w *world) get(path string) table {
	w.t.Helper()
	config := w.RESTConfig()
	server, err := rest.HTTPClientFor(config)
	if err != nil {
		w.t.Fatal(err)
	}
	q, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, config.Host+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	q.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	answer, err := server.Do(q)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var t metav1.Table
	if err := json.NewDecoder(answer.Body).Decode(&t); err != nil || answer.StatusCode != http.StatusOK {
		w.t.Fatalf("GET %s: %s, %v", path, answer.Status, err)
	}
	out := table{cells: map[string]string{}}
	for i, c := range t.ColumnDefinitions {
		if c.Priority == 0 {
			out.columns = append(out.columns, c.Name)
		} else {
			out.wide = append(out.wide, c.Name)
		}
		if len(t.Rows) > 0 && t.Rows[0].Cells[i] != nil {
			out.cells[c.Name] = fmt.Sprint(t.Rows[0].Cells[i])
		}
	}
	return out
}

// awaitRow asks until the cells are as wanted, each as its regular expression, and returns the last answer.
func (w *world) awaitRow(path string, want map[string]string) table {
	w.t.Helper()
	var last table
	err := wait.PollUntilContextTimeout(w.t.Context(), 100*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		last = w.get(path)
		for column, expression := range want {
			if !regexp.MustCompile("^(" + expression + ")$").MatchString(last.cells[column]) {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		w.t.Errorf("GET %s: %v (-want +got):\n%s", path, err, cmp.Diff(want, last.cells))
	}
	return last
}

// What kubectl get shows of NodePools, NodeClaims and EC2NodeClasses is what Karpenter's users know, filled in.
func TestColumns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "columns")
	w.pool("columns", func(p *karpv1.NodePool) { p.Spec.Weight = new(int32(7)) })
	w.deployment("web", 1, w.podSpec("500m", "512Mi", nil))
	w.awaitRunning(1)
	claim := w.claimsOf("columns")[0].Object
	node := w.node(claim.Status.NodeName).Object
	capacity := node.Status.Capacity
	for _, c := range []struct {
		path          string
		columns, wide []string
		cells         map[string]string
	}{{
		"/apis/karpenter.sh/v1/nodeclaims?fieldSelector=metadata.name%3D" + claim.Name,
		[]string{"Name", "Type", "Capacity", "Zone", "Node", "Ready", "Age"},
		[]string{"ImageID", "ID", "NodePool", "NodeClass", "Drifted"},
		map[string]string{
			"Name": claim.Name, "Type": node.Labels["node.kubernetes.io/instance-type"], "Capacity": "spot|on-demand",
			"Zone": node.Labels["topology.kubernetes.io/zone"], "Node": regexp.QuoteMeta(node.Name), "Ready": "True", "Age": `\d+[sm].*`,
			"ImageID": "ami-[0-9a-f]+", "ID": "aws:///us-.*/i-[0-9a-f]+", "NodePool": "columns", "NodeClass": "default",
		},
	}, {
		"/apis/karpenter.sh/v1/nodepools?fieldSelector=metadata.name%3Dcolumns",
		[]string{"Name", "NodeClass", "Nodes", "Ready", "Age"},
		[]string{"Weight", "CPU", "Memory"},
		map[string]string{
			"Name": "columns", "NodeClass": "default", "Nodes": "1", "Ready": "True", "Age": `\d+[sm].*`, "Weight": "7",
			"CPU": capacity.Cpu().String(), "Memory": capacity.Memory().String(),
		},
	}, {
		"/apis/karpenter.k8s.aws/v1/ec2nodeclasses?fieldSelector=metadata.name%3Ddefault",
		[]string{"Name", "Ready", "Age"},
		[]string{"Role"},
		map[string]string{"Name": "default", "Ready": "True", "Age": `\d+.*`, "Role": "KarpenterNodeRole-slipway"},
	}} {
		got := w.awaitRow(c.path, c.cells)
		if !slices.Equal(got.columns, c.columns) || !slices.Equal(got.wide, c.wide) {
			t.Errorf("GET %s: columns %q, with -o wide %q", c.path, got.columns, got.wide)
		}
	}
	w.await(t, "status.lastPodEventTime of the NodeClaim to be the pod's", func() bool {
		at := w.claimsOf("columns")[0].Object.Status.LastPodEventTime
		return !at.IsZero() && !at.Before(&claim.CreationTimestamp)
	})
}
