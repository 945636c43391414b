package karpenter_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/e2e/sandbox/supervise"
	"github.com/slipway-k8s/slipway/e2e/testbed"
)

// The processes beside slipway's, by the names of their programs.
const (
	karpenter      = "karpenter"
	stockScheduler = "kube-scheduler"
	// both stands for Karpenter beside slipway, each with its scheduler.
	both = "both"
	// stockProfile is the scheduler's profile without slipway's plugins, in place of kube-scheduler: Karpenter launches nodes for its pods.
	stockProfile = "stock"
)

// karpentersAccount is the service account of Karpenter's chart.
const karpentersAccount = "karpenter"

// account writes a kubeconfig of Karpenter's service account, with the administrator's rights: what the handover policies say holds for it.
func (c *cluster) account() string {
	c.t.Helper()
	ctx, api := c.t.Context(), c.Client()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: karpentersAccount}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: karpentersAccount},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
	}
	_, errAccount := api.CoreV1().ServiceAccounts(account.Namespace).Create(ctx, account, metav1.CreateOptions{})
	_, errBinding := api.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	hour := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(3600))}}
	token, errToken := api.CoreV1().ServiceAccounts(account.Namespace).CreateToken(ctx, account.Name, hour, metav1.CreateOptions{})
	config, errConfig := clientcmd.LoadFromFile(c.KubeconfigPath())
	if err := errors.Join(errAccount, errBinding, errToken, errConfig); err != nil {
		c.t.Fatal(err)
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	}
	path := filepath.Join(c.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// startKarpenter runs Karpenter's controller until ctx ends, as its guide "Getting Started with Karpenter"
// (https://karpenter.sh/docs/getting-started/getting-started-with-karpenter/) installs it: settings.clusterName and settings.interruptionQueue
// of the chart are set, and all other settings have their defaults. Those of the chart are those of the binary
// (https://karpenter.sh/docs/reference/settings/): pods are batched for 1 s to 10 s, 200 requests a second to kube-apiserver, no gate for
// consolidation from spot to spot. The guide's limit of one CPU is not set, and one replica runs of two: the other would wait for the lease.
// It has the administrator's rights: the rules of Karpenter's chart are no part of the sandbox.
func (c *cluster) startKarpenter(ctx context.Context, kubeconfig string) {
	c.t.Helper()
	c.run(ctx, karpenter, append(c.AWSEnviron(), "KUBECONFIG="+kubeconfig),
		"--cluster-name="+sandbox.ClusterName, "--cluster-endpoint="+c.RESTConfig().Host, "--interruption-queue="+sandbox.ClusterName,
		"--leader-election-namespace=kube-system",
		fmt.Sprintf("--metrics-port=%d", freePort(c.t)), fmt.Sprintf("--health-probe-port=%d", freePort(c.t)))
}

// startScheduler runs kube-scheduler with Kubernetes' own settings until ctx ends.
func (c *cluster) startScheduler(ctx context.Context) {
	c.t.Helper()
	kubeconfig := c.KubeconfigPath()
	c.run(ctx, stockScheduler, os.Environ(),
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", freePort(c.t)))
}

// run starts a program of the folder of binaries and restarts it when it ends, which fails the test.
func (c *cluster) run(ctx context.Context, name string, env []string, args ...string) {
	c.t.Helper()
	child, err := supervise.New(supervise.Config{
		Name: name, Path: filepath.Join(testbed.BinDir("../.."), name), Args: args, Env: env, LogFile: c.LogFile(name),
		Exited: func(e supervise.Exit) {
			c.t.Errorf("%s ended: %s; the end of its log:\n%s", name, e.State, c.Tail(name, 20))
		},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.children[name] = child
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- child.Run(ctx) }()
	c.stops[name] = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			c.t.Error(err)
		}
	})
	c.t.Cleanup(c.stops[name])
}

// pid returns the process id of one of the processes.
func (c *cluster) pid(name string) int {
	if child := c.children[name]; child != nil {
		return child.PID()
	}
	return c.PID(name)
}

// freePort returns a port that is free now.
func freePort(tb testing.TB) int {
	tb.Helper()
	listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok || !strings.HasPrefix(address.Network(), "tcp") {
		tb.Fatalf("listening on loopback: the address is %v", listener.Addr())
	}
	return address.Port
}
