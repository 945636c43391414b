package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"github.com/slipway-k8s/slipway/e2e/part"
)

// poll is the time between two checks of a condition during the start.
const poll = 25 * time.Millisecond

// apiPatience is how long kube-apiserver may take to become ready: seconds, or longer on a busy machine.
const apiPatience = 2 * time.Minute

// auditMiB is the size from which kube-apiserver would begin another audit log: more than a run writes.
const auditMiB = 1 << 20

// auditPolicy has requests logged once they are answered, watches once they are accepted, Events with what they are about.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  userGroups: [system:nodes]
  resources:
  - group: coordination.k8s.io
- level: None
  nonResourceURLs: ["*"]
- level: Request
  verbs: [create]
  resources:
  - resources: [events]
  - group: events.k8s.io
- level: Metadata
`

// startAPI starts kube-apiserver on a free loopback port and waits until it is ready.
func (cp *ControlPlane) startAPI(ctx context.Context, cfg Config) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	cp.address = listener.Addr().String()
	if cp.admin, err = cp.RESTConfig("admin", "system:masters"); err != nil {
		return err
	}
	completed, err := cp.apiOptions(ctx, listener, cfg)
	if err != nil {
		return err
	}
	cp.api = part.Start(ctx, "kube-apiserver", func(ctx context.Context) error { return app.Run(ctx, completed) }, cp.fail)

	client, err := discovery.NewDiscoveryClientForConfig(cp.admin)
	if err != nil {
		return err
	}
	// A kube-apiserver that is stopped during its start ends the whole process (klog.Fatal in a post-start hook). So its
	// start is awaited even after ctx has ended.
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), apiPatience)
	defer cancel()
	err = cp.await(patient, func(ctx context.Context) (bool, error) {
		status := 0
		client.RESTClient().Get().AbsPath("/readyz").Do(ctx).StatusCode(&status)
		return status == http.StatusOK, nil
	})
	return errors.Join(err, ctx.Err())
}

// apiOptions returns the options that kube-apiserver would have read from its command line.
func (cp *ControlPlane) apiOptions(ctx context.Context, listener net.Listener, cfg Config) (options.CompletedOptions, error) {
	opts := options.NewServerRunOptions()
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, set := range opts.Flags().FlagSets {
		flags.AddFlagSet(set)
	}
	opts.SecureServing.Listener = listener
	if err := flags.Parse(cp.apiFlags(listener.Addr().(*net.TCPAddr).Port, cfg)); err != nil {
		return options.CompletedOptions{}, err
	}
	if cfg.AuditLog != "" {
		policy := cp.authority.path("audit.yaml")
		if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
			return options.CompletedOptions{}, err
		}
		opts.Audit.PolicyFile = policy
		opts.Audit.LogOptions.Path, opts.Audit.LogOptions.MaxSize = cfg.AuditLog, auditMiB
	}
	if err := opts.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return options.CompletedOptions{}, err
	}
	completed, err := opts.Complete(ctx)
	if err != nil {
		return completed, err
	}
	return completed, utilerrors.NewAggregate(completed.Validate())
}

func (cp *ControlPlane) apiFlags(port int, cfg Config) []string {
	flags := []string{
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		// The endpoints of Service kubernetes must not contain a loopback address, and nothing here uses them.
		"--endpoint-reconciler-type=none",
		fmt.Sprintf("--secure-port=%d", port),
		"--etcd-servers=" + cp.etcd.endpoint,
		"--service-cluster-ip-range=" + cfg.serviceCIDR(),
		"--tls-cert-file=" + cp.authority.path("server.crt"),
		"--tls-private-key-file=" + cp.authority.path("server.key"),
		"--client-ca-file=" + cp.authority.path("ca.crt"),
		"--requestheader-client-ca-file=" + cp.authority.path("ca.crt"),
		"--requestheader-allowed-names=front-proxy",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + cp.authority.path("proxy.crt"),
		"--proxy-client-key-file=" + cp.authority.path("proxy.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + cp.authority.path("sa.pub"),
		"--service-account-signing-key-file=" + cp.authority.path("sa.key"),
		"--authentication-token-webhook-config-file=" + cp.authority.path("tokens.kubeconfig"),
		"--authentication-token-webhook-version=v1",
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--profiling=false",
		// A load test measures slipway, not the fairness between its own clients.
		"--enable-priority-and-fairness=false",
		"--max-requests-inflight=0",
		"--max-mutating-requests-inflight=0",
	}
	if cfg.EmulatedVersion != "" {
		flags = append(flags, "--emulated-version=kube="+cfg.EmulatedVersion)
	}
	return flags
}

// await polls until done returns true, ctx ends, done fails, or a server failed.
func (cp *ControlPlane) await(ctx context.Context, done wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		if err := cp.Err(); err != nil {
			return false, err
		}
		return done(ctx)
	})
}

// Admin returns the client settings of a member of system:masters, without client-side rate limits. The caller may change
// them.
func (cp *ControlPlane) Admin() *rest.Config { return rest.CopyConfig(cp.admin) }
