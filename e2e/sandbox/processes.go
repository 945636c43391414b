package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/e2e/sandbox/supervise"
	"github.com/slipway-k8s/slipway/manifests"
)

const (
	// poll is how often a condition is looked at while starting.
	poll = 20 * time.Millisecond
	// patience is how long one process may take until it works.
	patience = time.Minute
	// kubeletBackoff is what a kubelet waits before the second restart of a container.
	kubeletBackoff = 10 * time.Second

	leaseNamespace = "kube-system"
	leaseName      = "slipway-scheduler"
)

// Socket is the path of the unix socket between the two processes.
func (s *Sandbox) Socket() string { return s.path("launcher.sock") }

func (s *Sandbox) startLauncher(ctx context.Context) (string, error) {
	kubeconfig, err := s.writeKubeconfig("launcher.kubeconfig", manifests.LauncherUser, serviceAccountGroups()...)
	if err != nil {
		return "", err
	}
	args := append(s.launcherFlags(kubeconfig), s.cfg.LauncherArgs...)
	env := s.AWSEnviron()
	if s.aws != nil {
		env = append(env, "AWS_ACCESS_KEY_ID="+LauncherAccessKey)
	}
	if err := s.supervise(ctx, Launcher, args, env); err != nil {
		return "", err
	}
	err = s.await(ctx, Launcher, func(ctx context.Context) (bool, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", s.Socket())
		return err == nil && conn.Close() == nil, nil
	})
	return "slipway-launcher on " + s.Socket(), err
}

func (s *Sandbox) startScheduler(ctx context.Context) (string, error) {
	kubeconfig, err := s.writeKubeconfig("scheduler.kubeconfig", manifests.SchedulerUser, serviceAccountGroups()...)
	if err != nil {
		return "", err
	}
	config, err := s.schedulerConfig(kubeconfig)
	if err != nil {
		return "", err
	}
	if s.metricsPort, err = freePort(ctx); err != nil {
		return "", err
	}
	args := append([]string{
		"--config=" + config,
		// Who may read its metrics.
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", s.metricsPort),
	}, s.cfg.SchedulerArgs...)
	if err := s.supervise(ctx, Scheduler, args, os.Environ()); err != nil {
		return "", err
	}
	err = s.await(ctx, Scheduler, func(ctx context.Context) (bool, error) {
		lease, err := s.client.CoordinationV1().Leases(leaseNamespace).Get(ctx, leaseName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "", err
	})
	return "slipway-scheduler leads by Lease " + leaseNamespace + "/" + leaseName, err
}

// schedulerConfig writes the sample configuration that replaces the default scheduler, with this sandbox's kubeconfig,
// socket and plugin arguments, and returns its path.
func (s *Sandbox) schedulerConfig(kubeconfig string) (string, error) {
	args := map[string]any{"socket": s.Socket()}
	maps.Copy(args, s.cfg.PluginArgs)
	data, err := manifests.SchedulerConfig("scheduler/replace.yaml", kubeconfig, args)
	if err != nil {
		return "", err
	}
	if s.cfg.StockProfile != "" {
		if data, err = withProfile(data, s.cfg.StockProfile); err != nil {
			return "", err
		}
	}
	path := s.path("scheduler.yaml")
	return path, os.WriteFile(path, data, 0o600)
}

// withProfile adds a profile that has Kubernetes' defaults alone.
func withProfile(config []byte, schedulerName string) ([]byte, error) {
	var fields map[string]any
	if err := yaml.Unmarshal(config, &fields); err != nil {
		return nil, err
	}
	profiles, _ := fields["profiles"].([]any)
	fields["profiles"] = append(profiles, map[string]any{"schedulerName": schedulerName})
	return yaml.Marshal(fields)
}

func serviceAccountGroups() []string {
	return []string{"system:serviceaccounts", "system:serviceaccounts:kube-system"}
}

func (s *Sandbox) writeKubeconfig(file, user string, groups ...string) (string, error) {
	data, err := s.cp.KubeConfig(user, groups...)
	if err != nil {
		return "", err
	}
	path := s.path(file)
	return path, os.WriteFile(path, data, 0o600)
}

// freePort is free now; that nobody takes it before its user does is a good bet on loopback.
func freePort(ctx context.Context) (int, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

// supervise keeps one of the two programs running.
func (s *Sandbox) supervise(ctx context.Context, name string, args, env []string) error {
	child, err := supervise.New(supervise.Config{
		Name: name, Path: s.cfg.binary(name), Args: args, Env: env, LogFile: s.LogFile(name),
		Backoff: time.Duration(float64(kubeletBackoff) / s.cfg.Speed),
		Exited: func(e supervise.Exit) {
			s.cfg.Notice(fmt.Sprintf("slipway-%s ended (%s) after %.1f s, restarted in %.1f s",
				name, e.State, e.Uptime.Seconds(), e.RestartIn.Seconds()))
		},
	})
	if err != nil {
		return err
	}
	s.children[name] = child
	s.run(ctx, name, child.Run)
	return nil
}

// await waits until a process works, and gives up when it keeps ending.
func (s *Sandbox) await(ctx context.Context, name string, done wait.ConditionWithContextFunc) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		if n := s.children[name].Restarts(); n > 1 {
			return false, fmt.Errorf("it ended %d times", n)
		}
		return done(ctx)
	})
	if err != nil {
		return fmt.Errorf("%w; the end of its log:\n%s", err, s.Tail(name, 20))
	}
	return nil
}

// Kill ends a process with SIGKILL; it is restarted.
func (s *Sandbox) Kill(name string) error {
	child, ok := s.children[name]
	if !ok {
		return fmt.Errorf("there is no process %q: want %s or %s", name, Launcher, Scheduler)
	}
	return child.Kill()
}

// PID of a process; 0 while it is not running.
func (s *Sandbox) PID(name string) int {
	child, ok := s.children[name]
	if !ok {
		return 0
	}
	return child.PID()
}

// SchedulerMetricsURL is where the scheduler serves its metrics, to an administrator's client certificate. Its own
// certificate is self-signed.
func (s *Sandbox) SchedulerMetricsURL() string {
	return fmt.Sprintf("https://127.0.0.1:%d/metrics", s.metricsPort)
}

// LogFile of Scheduler, Launcher or ControlPlane, of all their runs.
func (s *Sandbox) LogFile(name string) string { return s.path(name + ".log") }

// Tail returns the last lines of a log.
func (s *Sandbox) Tail(name string, lines int) string {
	data, err := os.ReadFile(s.LogFile(name))
	if err != nil {
		return err.Error()
	}
	all := strings.Split(string(bytes.TrimRight(data, "\n")), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// AWSEnviron is this process's environment with what makes an AWS client talk to the sandbox's AWS.
func (s *Sandbox) AWSEnviron() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "AWS_") })
	env = append(env, s.AWSVariables()...)
	// Nothing of the user's own AWS may be touched.
	return append(env, "AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE="+os.DevNull, "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull)
}

// AWSVariables are the environment variables, as NAME=value, that point an AWS client at the sandbox's AWS.
func (s *Sandbox) AWSVariables() []string {
	if s.foreign != nil {
		return append(s.foreign.Variables(), "NO_PROXY="+s.noProxy())
	}
	return []string{
		"AWS_ENDPOINT_URL=" + s.aws.URL(),
		"AWS_REGION=" + Region,
		// The aws command line reads this one.
		"AWS_DEFAULT_REGION=" + Region,
		"AWS_ACCESS_KEY_ID=AKIASLIPWAYSANDBOX00",
		"AWS_SECRET_ACCESS_KEY=sandbox",
		"NO_PROXY=" + s.noProxy(),
	}
}

func (s *Sandbox) launcherFlags(kubeconfig string) []string {
	out := []string{
		"--kubeconfig=" + kubeconfig,
		"--socket=" + s.Socket(),
		"--cluster-name=" + ClusterName,
		// Two sandboxes beside each other would quarrel about the ports.
		"--metrics-address=0",
		"--health-probe-address=0",
	}
	if s.foreign != nil {
		return append(out, s.foreignFlags()...)
	}
	return append(out, "--interruption-queue="+ClusterName)
}
