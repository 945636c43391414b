package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/webapi"
	"github.com/slipway-k8s/slipway/ui/pause"
)

// kubeconfigOf writes a kubeconfig with a service account's token, and returns its path.
func (w *world) kubeconfigOf(account string) string {
	w.t.Helper()
	to := w.RESTConfig()
	c := clientcmdapi.NewConfig()
	c.Clusters["sandbox"] = &clientcmdapi.Cluster{Server: to.Host, CertificateAuthorityData: to.CAData, CertificateAuthority: to.CAFile}
	c.AuthInfos[account] = &clientcmdapi.AuthInfo{Token: w.tokenOf(account)}
	c.Contexts["sandbox"] = &clientcmdapi.Context{Cluster: "sandbox", AuthInfo: account}
	c.CurrentContext = "sandbox"
	path := filepath.Join(w.t.TempDir(), account)
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// disruption asks a page's server how disruption stands, or, with a question, to pause or resume it. It returns the answer's status as well.
func (w *world) disruption(page string, ask *pause.Question) (pause.Disruption, int) {
	w.t.Helper()
	method, body := http.MethodGet, []byte(nil)
	if ask != nil {
		method = http.MethodPost
		var err error
		if body, err = json.Marshal(ask); err != nil {
			w.t.Fatal(err)
		}
	}
	r, err := http.NewRequestWithContext(w.t.Context(), method, page+pause.Path, bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := (&http.Client{Timeout: time.Minute}).Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var got pause.Disruption
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil {
		w.t.Fatal(err)
	}
	return got, answer.StatusCode
}

// A viewer who may not patch NodePools pauses nothing. One who may pauses the disruption of all nodes: an empty node stays, and the API names the
// NodePool, until disruption is resumed.
func TestPagePausesDisruptionAlone(t *testing.T) {
	w := newWorld(t, "pause")
	w.pool("pause", func(p *karpv1.NodePool) { p.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("0s") })
	d := w.deployment("web", 1, w.podSpec("100m", "64Mi", nil))
	w.awaitRunning(1)
	viewer := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "pause-viewer"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"karpenter.sh"}, Resources: []string{"nodepools", "nodeclaims"}, Verbs: []string{"get", "list"}}}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "pause-viewer"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: viewer.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.name, Name: "viewer"}},
	}
	w.create(viewer, binding)
	t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := errors.Join(w.client.Delete(ctx, binding), w.client.Delete(ctx, viewer)); err != nil {
			t.Error(err)
		}
	})
	page, yes, no := w.pageOf(w.kubeconfigOf("viewer")), true, false
	w.await(t, "the viewer to see NodePools, and not to be offered a pause", func() bool {
		got, status := w.disruption(page, nil)
		return status == http.StatusOK && !got.MayChange && slices.Contains(got.NodePools, pause.NodePool{Name: "pause"})
	})
	if _, status := w.disruption(page, &pause.Question{Paused: &yes}); status == http.StatusOK {
		t.Fatal("who may not patch NodePools pauses disruption")
	}

	page = w.page()
	if got, status := w.disruption(page, &pause.Question{Paused: &yes}); status != http.StatusOK || !slices.Contains(got.NodePools, pause.NodePool{Name: "pause", Paused: true}) {
		t.Fatalf("pausing: %d %+v", status, got)
	}
	admin := w.admin()
	w.await(t, "the API to name the NodePool whose disruption is paused", func() bool {
		var nodes webapi.Nodes
		return w.asked(admin, "", "/api/v1/nodes", &nodes) == http.StatusOK && slices.Contains(nodes.Paused, "pause")
	})
	w.scale(d, 0)
	w.awaitRunning(0)
	// It would be given back at once: this only makes a failure likelier.
	time.Sleep(3 * time.Second)
	resumed := time.Now()
	if got, status := w.disruption(page, &pause.Question{Paused: &no}); status != http.StatusOK || slices.Contains(got.NodePools, pause.NodePool{Name: "pause", Paused: true}) {
		t.Fatalf("resuming: %d %+v", status, got)
	}
	w.await(t, "the empty node to be removed once disruption is resumed", func() bool { return len(w.claimsOf("pause")) == 0 })
	for _, claim := range w.everClaimed("pause") {
		if at := claim.Object.DeletionTimestamp; at != nil && at.Time.Before(resumed.Truncate(time.Second)) {
			t.Errorf("NodeClaim %s was deleted at %s, while disruption was paused until %s", claim.Object.Name, at, resumed)
		}
	}
}
