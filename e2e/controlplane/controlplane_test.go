package controlplane_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	rbacvalidation "k8s.io/component-helpers/auth/rbac/validation"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/e2e/controlplane"
	"github.com/slipway-k8s/slipway/manifests"
)

// patience is how long what comes by itself may take, on a machine however busy.
const patience = 5 * time.Minute

// Two control planes, one after the other in one process, as the test binaries of other packages do it; the second one
// in an older version's clothes.
func TestControlPlane(t *testing.T) {
	folder := t.TempDir()
	before := runtime.NumGoroutine()
	t.Run("current", func(t *testing.T) {
		cp := start(t, controlplane.Config{Folder: folder})
		client := clientFor(t, cp, "admin", "system:masters")
		t.Run("controllers make pods of a Deployment", func(t *testing.T) { deploymentMakesPods(t, client) })
		t.Run("sample NodePool and EC2NodeClass are valid", func(t *testing.T) { samplesAreValid(t, client) })
		t.Run("the scheduler's rules cover kube-scheduler's", func(t *testing.T) { coversKubeScheduler(t, client) })
		t.Run("users are confined", func(t *testing.T) { usersAreConfined(t, cp) })
		t.Run("nodes are confined", func(t *testing.T) { nodesAreConfined(t, cp) })
		c := dynamicClient(t, cp)
		t.Run("converted manifests are valid", func(t *testing.T) { convertedManifestsAreValid(t, c) })
		t.Run("patches of Nodes are for what was read", func(t *testing.T) { patchesAreForWhatWasRead(t, c) })
		t.Run("the chart is accepted", func(t *testing.T) { chartIsAccepted(t, c) })
		t.Run("admission sends pods to slipway", func(t *testing.T) { admissionSendsPods(t, c) })
		t.Run("the scheduler has its own identity", func(t *testing.T) { schedulerHasItsOwnIdentity(t, cp, c) })
		t.Run("the launcher's policies are sound", func(t *testing.T) { policiesAreSound(t, c) })
		t.Run("metrics are for those who may read them", func(t *testing.T) { metricsAreForReaders(t, cp, c) })
		t.Run("tokens name their bearer", func(t *testing.T) { tokensNameTheirBearer(t, cp) })
		stopped(t, cp)
	})
	t.Run("emulating 1.35", func(t *testing.T) {
		cp := start(t, controlplane.Config{Folder: folder, EmulatedVersion: "1.35"})
		version, err := clientFor(t, cp, "admin", "system:masters").Discovery().ServerVersion()
		if err != nil {
			t.Fatal(err)
		}
		if version.EmulationMinor != "35" {
			t.Errorf("emulates 1.%s", version.EmulationMinor)
		}
		stopped(t, cp)
	})
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	goroutinesEnd(t, before)
}

// goroutinesEnd waits until the thousands of a control plane are gone; Kubernetes leaves a handful in the process's globals.
func goroutinesEnd(t *testing.T, before int) {
	t.Helper()
	const handful = 10
	for deadline := time.Now().Add(patience); runtime.NumGoroutine() > before+handful; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines after Stop, %d before Start", runtime.NumGoroutine(), before)
		}
	}
	t.Logf("%d goroutines after Stop, %d before Start", runtime.NumGoroutine(), before)
}

func start(t *testing.T, cfg controlplane.Config) *controlplane.ControlPlane {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cfg.Progress = func(step string, took time.Duration) { t.Logf("%s %s", step, took.Round(time.Millisecond)) }
	begin := time.Now()
	cp, err := controlplane.Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ready after %s", time.Since(begin).Round(time.Millisecond))
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	return cp
}

func stopped(t *testing.T, cp *controlplane.ControlPlane) {
	t.Helper()
	begin := time.Now()
	if err := cp.Err(); err != nil {
		t.Errorf("failed while running: %v", err)
	}
	if err := cp.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	t.Logf("stopped after %s", time.Since(begin).Round(time.Millisecond))
	if _, err := os.Stat(cp.Folder()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("folder %s is still there: %v", cp.Folder(), err)
	}
	endpoint, err := url.Parse(cp.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	if conn, err := net.DialTimeout("tcp", endpoint.Host, time.Second); err == nil {
		t.Errorf("%s still answers: %v", endpoint.Host, conn.Close())
	}
	if err := cp.Err(); err != nil {
		t.Errorf("Stop counts as a failure: %v", err)
	}
}

func clientFor(t *testing.T, cp *controlplane.ControlPlane, user string, groups ...string) *kubernetes.Clientset {
	t.Helper()
	config, err := cp.RESTConfig(user, groups...)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func deploymentMakesPods(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	ctx := t.Context()
	var deployment appsv1.Deployment
	decode(t, "samples/inflate.yaml", 0, &deployment)
	replicas := int32(3)
	deployment.Spec.Replicas = &replicas
	if _, err := client.AppsV1().Deployments("default").Create(ctx, &deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=inflate"})
		return err == nil && len(pods.Items) == 3, err
	})
	if err != nil {
		t.Errorf("no pods: %v", err)
	}
}

func samplesAreValid(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	paths := []string{
		"/apis/karpenter.sh/v1/nodepools",
		"/apis/karpenter.k8s.aws/v1/ec2nodeclasses",
	}
	for i, path := range paths {
		var object map[string]any
		decode(t, "samples/nodepool.yaml", i, &object)
		body, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		err = client.Discovery().RESTClient().Post().AbsPath(path).Param("fieldValidation", "Strict").
			SetHeader("Content-Type", "application/yaml").Body(body).Do(t.Context()).Error()
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func decode(t *testing.T, name string, index int, into any) {
	t.Helper()
	documents, err := manifests.Documents(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(documents[index], into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// A Kubernetes release that gives its scheduler a new right shows here, and not as a forbidden call in a log.
func coversKubeScheduler(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	ours, err := client.RbacV1().ClusterRoles().Get(t.Context(), "slipway-scheduler", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"system:kube-scheduler", "system:volume-scheduler"} {
		theirs, err := client.RbacV1().ClusterRoles().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		theirs.Rules = slices.DeleteFunc(theirs.Rules, func(rule rbacv1.PolicyRule) bool {
			// Our Lease has a name of its own, in a Role; lease candidates are not used; replicasets left extensions in 1.16.
			return slices.Contains(rule.APIGroups, "coordination.k8s.io")
		})
		for i := range theirs.Rules {
			theirs.Rules[i].APIGroups = slices.DeleteFunc(theirs.Rules[i].APIGroups, func(g string) bool { return g == "extensions" })
		}
		if covered, missing := rbacvalidation.Covers(ours.Rules, theirs.Rules); !covered {
			t.Errorf("missing of %s: %v", name, missing)
		}
	}
}

func usersAreConfined(t *testing.T, cp *controlplane.ControlPlane) {
	t.Helper()
	ctx := t.Context()
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:kube-system"}
	for _, user := range []string{manifests.SchedulerUser, manifests.LauncherUser} {
		client := clientFor(t, cp, user, groups...)
		if _, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{}); err != nil {
			t.Errorf("%s lists pods: %v", user, err)
		}
		if _, err := client.CoreV1().Secrets("").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("%s lists secrets: %v", user, err)
		}
		if _, err := client.CoordinationV1().Leases("kube-system").Get(ctx, "kube-scheduler", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("%s reads the Lease of kube-scheduler: %v", user, err)
		}
	}
}

// Node authorizer and NodeRestriction: a node writes itself and nobody else.
func nodesAreConfined(t *testing.T, cp *controlplane.ControlPlane) {
	t.Helper()
	ctx := t.Context()
	client := clientFor(t, cp, "system:node:one", "system:nodes")
	for name, allowed := range map[string]bool{"one": true, "two": false} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		switch {
		case allowed && err != nil:
			t.Errorf("node one creates itself: %v", err)
		case !allowed && !apierrors.IsForbidden(err):
			t.Errorf("node one creates node two: %v", err)
		}
	}
}

func TestStartSaysWhatItCouldNotDo(t *testing.T) {
	missing := t.TempDir() + "/missing"
	_, err := controlplane.Start(t.Context(), controlplane.Config{Folder: missing})
	if err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("error does not name the folder: %v", err)
	}
}
