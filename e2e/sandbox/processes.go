package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
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
	"github.com/slipway-k8s/slipway/ui"
)

const (
	// poll is the time between two checks of a condition during the start.
	poll = 20 * time.Millisecond
	// patience is how long a process may take until it works, also on a busy machine. A process that keeps ending fails
	// earlier.
	patience       = 5 * time.Minute
	leaseNamespace = "kube-system"
	leaseName      = "slipway-scheduler"
)

// Socket returns the path of the unix socket between the two processes, that of the first replica where there are several.
func (s *Sandbox) Socket() string { return s.socket(Launcher) }

func (s *Sandbox) socket(launcher string) string { return s.path(launcher + ".sock") }

func (s *Sandbox) startLaunchers(ctx context.Context) (string, error) {
	if s.cfg.WithoutSlipway {
		return "", nil
	}
	for n := range s.cfg.Replicas {
		if err := s.startLauncher(ctx, Replica(Launcher, n+1)); err != nil {
			return "", err
		}
	}
	return "slipway-launcher on " + s.Socket(), nil
}

func (s *Sandbox) startLauncher(ctx context.Context, name string) error {
	kubeconfig, err := s.writeKubeconfig(ctx, name, manifests.LauncherUser, serviceAccountGroups()...)
	if err != nil {
		return err
	}
	env := append(s.AWSEnviron(), s.cfg.LauncherEnv...)
	if s.aws != nil {
		env = append(env, "AWS_ACCESS_KEY_ID="+LauncherAccessKey)
	}
	if s.cfg.Taps {
		endpoint, err := s.tapAWS(ctx, name)
		if err != nil {
			return err
		}
		env = append(env, "AWS_ENDPOINT_URL="+endpoint)
	}
	flags, err := s.launcherFlags(ctx, name, kubeconfig)
	if err != nil {
		return err
	}
	if err := s.supervise(ctx, name, append(flags, s.cfg.LauncherArgs...), env); err != nil {
		return err
	}
	return s.await(ctx, name, func(ctx context.Context) (bool, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", s.socket(name))
		return err == nil && conn.Close() == nil, nil
	})
}

func (s *Sandbox) startSchedulers(ctx context.Context) (string, error) {
	if s.cfg.WithoutSlipway {
		return "", nil
	}
	for n := range s.cfg.Replicas {
		if err := s.startScheduler(ctx, n+1); err != nil {
			return "", err
		}
	}
	err := s.await(ctx, Scheduler, func(ctx context.Context) (bool, error) {
		lease, err := s.client.CoordinationV1().Leases(leaseNamespace).Get(ctx, leaseName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "", err
	})
	return "slipway-scheduler leads by Lease " + leaseNamespace + "/" + leaseName, err
}

func (s *Sandbox) startScheduler(ctx context.Context, replica int) error {
	name := Replica(Scheduler, replica)
	kubeconfig, err := s.writeKubeconfig(ctx, name, manifests.SchedulerUser, serviceAccountGroups()...)
	if err != nil {
		return err
	}
	config, err := s.schedulerConfig(name, kubeconfig, s.socket(Replica(Launcher, replica)))
	if err != nil {
		return err
	}
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	s.metrics[name] = port
	args := append([]string{
		"--config=" + config,
		// Reading metrics needs authentication and authorization.
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
	}, s.cfg.SchedulerArgs...)
	if s.cfg.EmulatedVersion != "" {
		args = append(args, "--emulated-version=kube="+s.cfg.EmulatedVersion)
	}
	return s.supervise(ctx, name, args, os.Environ())
}

// schedulerConfig writes the sample configuration that replaces the default scheduler, with this sandbox's kubeconfig,
// socket and plugin arguments, and returns its path.
func (s *Sandbox) schedulerConfig(name, kubeconfig, socket string) (string, error) {
	args := map[string]any{"socket": socket}
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
	if s.cfg.ChangeScheduler != nil {
		if data, err = changed(data, s.cfg.ChangeScheduler); err != nil {
			return "", err
		}
	}
	path := s.path(name + ".yaml")
	return path, os.WriteFile(path, data, 0o600)
}

// changed returns the configuration as change leaves it.
func changed(config []byte, change func(map[string]any)) ([]byte, error) {
	var fields map[string]any
	if err := yaml.Unmarshal(config, &fields); err != nil {
		return nil, err
	}
	change(fields)
	return yaml.Marshal(fields)
}

// withProfile adds a profile with Kubernetes' default plugins only.
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

func (s *Sandbox) writeKubeconfig(ctx context.Context, process, user string, groups ...string) (string, error) {
	data, err := s.cp.KubeConfig(user, groups...)
	if s.cfg.Taps {
		data, err = s.tapKubernetes(ctx, process, user, groups...)
	}
	if err != nil {
		return "", err
	}
	path := s.path(process + ".kubeconfig")
	return path, os.WriteFile(path, data, 0o600)
}

// freePort returns a free port outside the range from which the kernel assigns ports, so that it stays free until its user
// starts or restarts.
func freePort(ctx context.Context) (int, error) {
	const first, after, tries = 10_000, 32_000, 100
	var last error
	for range tries {
		port := first + rand.IntN(after-first)
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, listener.Close()
		}
		last = err
	}
	return 0, last
}

// supervise runs one of the two programs and restarts it when it ends.
func (s *Sandbox) supervise(ctx context.Context, name string, args, env []string) error {
	child, err := supervise.New(supervise.Config{
		Name: name, Path: s.cfg.binary(programOf(name)), Args: args, Env: env, LogFile: s.LogFile(name),
		Backoff: s.cfg.RestartBackoff,
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

// await waits until a process works. It fails if the process keeps ending.
func (s *Sandbox) await(ctx context.Context, name string, done wait.ConditionWithContextFunc) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		if n := s.children[name].Restarts(); n > 1 {
			return false, fmt.Errorf("starting %s: it ended %d times", name, n)
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
		return fmt.Errorf("finding process %q: want %s or %s", name, Launcher, Scheduler)
	}
	return child.Kill()
}

// Crashes returns how the processes ended by themselves: ends that neither Kill nor Stop caused.
func (s *Sandbox) Crashes() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.children)) {
		for _, e := range s.children[name].Crashes() {
			out = append(out, fmt.Sprintf("slipway-%s ended (%s) after %.1f s", name, e.State, e.Uptime.Seconds()))
		}
	}
	return out
}

// PID returns the process id; 0 while the process is not running.
func (s *Sandbox) PID(name string) int {
	child, ok := s.children[name]
	if !ok {
		return 0
	}
	return child.PID()
}

// SchedulerMetricsURL returns the URL of the scheduler's metrics. It requires an administrator's client certificate. The
// server's certificate is self-signed.
func (s *Sandbox) SchedulerMetricsURL() string {
	return fmt.Sprintf("https://127.0.0.1:%d/metrics", s.metrics[Scheduler])
}

// LauncherURL returns the URL of a path of the launcher: /metrics, /healthz or /readyz, which require no authentication, or one of the API, which
// requires a token or an administrator's client certificate, and whose own certificate is self-signed, or of the page beside the API.
func (s *Sandbox) LauncherURL(path string) string {
	scheme, port := "http", s.probes[Launcher]
	switch {
	case path == "/metrics":
		port = s.metrics[Launcher]
	case strings.HasPrefix(path, "/api/"), strings.HasPrefix(path, ui.Path):
		scheme, port = "https", s.apis[Launcher]
	}
	return fmt.Sprintf("%s://127.0.0.1:%d%s", scheme, port, path)
}

// LogFile returns the path of the log of Scheduler, Launcher or ControlPlane, of all their runs.
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

// AWSEnviron returns this process's environment with the variables that point an AWS client at the sandbox's AWS.
func (s *Sandbox) AWSEnviron() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "AWS_") })
	env = append(env, s.AWSVariables()...)
	// The user's own AWS configuration must not be used.
	return append(env, "AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE="+os.DevNull, "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull)
}

// AWSVariables returns the environment variables, as NAME=value, that point an AWS client at the sandbox's AWS.
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

func (s *Sandbox) launcherFlags(ctx context.Context, name, kubeconfig string) ([]string, error) {
	// Fixed ports would conflict between two sandboxes.
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	probes, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	served, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	s.metrics[name], s.probes[name], s.apis[name] = port, probes, served
	out := []string{
		"--kubeconfig=" + kubeconfig,
		"--socket=" + s.socket(name),
		"--cluster-name=" + ClusterName,
		fmt.Sprintf("--metrics-address=127.0.0.1:%d", port),
		fmt.Sprintf("--health-probe-address=127.0.0.1:%d", probes),
		fmt.Sprintf("--api-address=127.0.0.1:%d", served),
		fmt.Sprintf("--consolidation-period=%s", max(time.Duration(float64(10*time.Second)/max(s.cfg.Speed, 1)), time.Second)),
	}
	if s.foreign != nil {
		return append(out, s.foreignFlags()...), nil
	}
	return append(out, "--interruption-queue="+ClusterName), nil
}
