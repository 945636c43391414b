package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/slipway-k8s/slipway/e2e/sandbox/control"
)

// provider is the module whose NodePool and EC2NodeClass the suites use.
const provider = "github.com/aws/karpenter-provider-aws"

// What is read from the provider's module, and the variable in it.
const (
	providerClass   = "test/pkg/environment/aws/default_ec2nodeclass.yaml"
	providerPool    = "test/pkg/environment/aws/default_nodepool.yaml"
	clusterVariable = "$CLUSTER_NAME"
	clusterName     = "slipway"
)

// gates are the feature gates of the cases: Integration has some of node repair, StaticCapacity and CapacityBuffer are about their own.
const gates = "NodeRepair=true,StaticCapacity=true,CapacityBuffer=true"

// nodeSyncs is how many Nodes the cloud controller initializes at a time in cases of 500 nodes, as kops has it in clusters of this size
// (kubernetes/kops#16256). On kwok, where the gates of the suite come from, there is no cloud controller.
const nodeSyncs = "10"

// patience is how long the sandbox may take to start or to stop.
const patience = 5 * time.Minute

// cluster is a running sandbox.
type cluster struct {
	name string
	// folder is where what is kept of it goes.
	folder     string
	cmd        *exec.Cmd
	log        *os.File
	ended      chan error
	state      control.State
	kubeconfig string
	// nodeClass and nodePool are the paths of the suites' two objects.
	nodeClass, nodePool string
	config              *rest.Config
	// endFigures stops what serves the figures of the performance suite; nil where nothing does.
	endFigures func() error
}

// startCluster runs slipway-sandbox and waits until it is ready.
func startCluster(ctx context.Context, o options, folder string) (*cluster, error) {
	c := &cluster{name: fmt.Sprintf("karpenter-%d", os.Getpid()), folder: folder, ended: make(chan error, 1)}
	var err error
	if c.log, err = os.Create(filepath.Join(folder, "sandbox.log")); err != nil {
		return nil, err
	}
	c.cmd = exec.Command(filepath.Join(o.binDir, "slipway-sandbox"), "up", "--sandbox="+c.name, fmt.Sprintf("--speed=%g", o.speed),
		"--managed-nodes=1", "--addons=false")
	if o.suite == performance { // Its gates are of slipway's processes: 1,000 machines as the regression suite has them leave no CPU to the control plane.
		c.cmd.Args = append(c.cmd.Args, "--concurrent-node-syncs="+nodeSyncs, "--machines=light")
	}
	c.cmd.Env = append(os.Environ(), "FEATURE_GATES="+gates)
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	// Ctrl-C reaches the whole process group: the suite needs the sandbox to clean up.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting slipway-sandbox: %w", err)
	}
	go func() { c.ended <- c.cmd.Wait() }()
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		select {
		case err := <-c.ended:
			c.ended <- err
			return false, fmt.Errorf("it ended (%w); its output is in %s", err, c.log.Name())
		default:
		}
		var err error
		c.state, err = control.Find(c.name)
		return err == nil, nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the sandbox: %w", err), c.stop())
	}
	c.kubeconfig = c.state.Kubeconfig
	return c, nil
}

// stop ends the sandbox. Where it does not end by itself, it is killed.
func (c *cluster) stop() error {
	defer func() { _ = c.log.Close() }()
	kept := c.keepLogs()
	if c.endFigures != nil {
		kept = errors.Join(kept, c.endFigures())
	}
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // It may have ended.
	select {
	case err := <-c.ended:
		return errors.Join(kept, err)
	case <-time.After(patience):
		return errors.Join(fmt.Errorf("stopping the sandbox: it still runs after %s", patience), c.cmd.Process.Kill())
	}
}

// keepLogs copies the logs of scheduler and launcher: the sandbox removes its folder when it ends.
func (c *cluster) keepLogs() error {
	var errs []error
	for name, path := range c.state.Logs {
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(filepath.Join(c.folder, name+".log"), text, 0o600)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// prepare brings the cluster into the state that the suites expect.
func (c *cluster) prepare(ctx context.Context, suite string) error {
	var err error
	if c.config, err = clientcmd.BuildConfigFromFlags("", c.kubeconfig); err != nil {
		return err
	}
	folder, err := moduleFolder(ctx, provider)
	if err != nil {
		return err
	}
	if err := c.writeClass(folder, suite); err != nil {
		return err
	}
	c.nodePool = filepath.Join(folder, providerPool)
	if err := taintNodes(ctx, c.config); err != nil || suite != performance {
		return err
	}
	c.endFigures, err = serveFigures(ctx, c.config, c.state.PID)
	return err
}

// writeClass writes the provider's EC2NodeClass with the name of the cluster.
func (c *cluster) writeClass(folder, suite string) error {
	text, err := os.ReadFile(filepath.Join(folder, providerClass))
	if err != nil {
		return err
	}
	c.nodeClass = filepath.Join(c.state.Folder, suite+"-ec2nodeclass.yaml")
	return os.WriteFile(c.nodeClass, []byte(strings.ReplaceAll(string(text), clusterVariable, clusterName)), 0o600)
}

// taintNodes taints the nodes that are there, as the suites expect of system nodes.
func taintNodes(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "CriticalAddonsOnly", Value: "true", Effect: corev1.TaintEffectNoSchedule})
		if _, err := client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("tainting node %s: %w", node.Name, err)
		}
	}
	return nil
}
