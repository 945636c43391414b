package sandbox

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/aws/policy"
	"github.com/slipway-k8s/slipway/e2e/clock"
	"github.com/slipway-k8s/slipway/e2e/cloudcontroller"
	"github.com/slipway-k8s/slipway/e2e/machines"
	"github.com/slipway-k8s/slipway/manifests"
)

// Region is that of the sandbox's AWS.
const Region = "us-east-1"

// nodeGroupLabel is the label of Nodes of EKS managed node groups.
const nodeGroupLabel = "eks.amazonaws.com/nodegroup"

// LauncherAccessKey is the launcher's access key for the sandbox's AWS, which allows it what the shipped policy allows.
const LauncherAccessKey = "AKIASLIPWAYLAUNCHER0"

// tagsAfter is how much later than an instance its tags are listed.
const tagsAfter = 250 * time.Millisecond

// accountID is that of the sandbox's AWS.
const accountID = "123456789012"

// LauncherPolicy returns the shipped policy with the values of the sandbox, and with the rights for standby buffers.
func LauncherPolicy() (policy.Policy, error) {
	var out policy.Policy
	for _, shipped := range []func(manifests.PolicyValues) ([]byte, error){manifests.LauncherPolicy, manifests.StandbyPolicy} {
		document, err := shipped(manifests.PolicyValues{
			Region: Region, AccountID: accountID, ClusterName: ClusterName, NodeRole: nodeRole, InterruptionQueue: ClusterName,
		})
		if err != nil {
			return policy.Policy{}, err
		}
		read, err := policy.Parse(document)
		if err != nil {
			return policy.Policy{}, err
		}
		out = out.With(read)
	}
	return out, nil
}

// AWS returns the sandbox's own AWS; nil where it uses another.
func (s *Sandbox) AWS() *aws.Server { return s.aws }

// AWSEndpoint returns the URL of the AWS that the sandbox uses.
func (s *Sandbox) AWSEndpoint() string {
	if s.foreign != nil {
		return s.foreign.URL()
	}
	return s.aws.URL()
}

// AWSRegion returns the sandbox's region.
func (s *Sandbox) AWSRegion() string {
	if s.foreign != nil {
		return s.foreign.Region()
	}
	return Region
}

func (s *Sandbox) startAWS(ctx context.Context) (string, error) {
	if s.cfg.AWSEndpoint != "" {
		return s.startForeign(ctx)
	}
	allowed, err := LauncherPolicy()
	if err != nil {
		return "", err
	}
	server, err := aws.New(aws.Config{
		Listen: s.cfg.AWSListen, Region: Region, AccountID: accountID, ClusterName: ClusterName, Clock: clock.New(s.cfg.Speed),
		IPv6: s.cfg.IPFamily == IPv6, ServiceCIDR: serviceCIDRs()[s.cfg.IPFamily],
		Policies: map[string]policy.Policy{LauncherAccessKey: allowed}, Roles: []string{nodeRole},
		LimitedKeys: []string{LauncherAccessKey}, TagsAfter: tagsAfter,
		Seed: int64(s.cfg.Seed), SpotInterruptions: s.cfg.SpotInterruptionsPerHour,
		SpotNotice: time.Duration(float64(s.cfg.SpotNotice) * s.cfg.Speed),
	})
	if err != nil {
		return "", err
	}
	s.aws = server
	s.run(ctx, "AWS", server.Run)
	return fmt.Sprintf("EC2, SQS, SSM, IAM, EKS, STS and Pricing of %s at %s", Region, server.URL()), nil
}

func (s *Sandbox) startMachines(ctx context.Context) (string, error) {
	controller, err := cloudcontroller.New(cloudcontroller.Config{
		Client: s.client, EC2: cloudcontroller.NewEC2(s.AWSEndpoint(), s.AWSRegion()), Region: s.AWSRegion(), IPv6: s.cfg.IPFamily == IPv6, NodeSyncs: s.cfg.NodeSyncs,
	})
	if err != nil {
		return "", err
	}
	mode, err := machines.Simulated(machines.Config{
		Admin: s.cp.Admin(), Cluster: ClusterName, Endpoint: s.cp.Endpoint(), Seed: s.cfg.Seed, Speed: s.cfg.Speed, Holds: &s.holds,
		Light: s.cfg.Machines == Light,
	})
	if err != nil {
		return "", err
	}
	detail := fmt.Sprintf("simulated kubelets at %g times their speed", s.cfg.Speed)
	if s.cfg.Machines == Light {
		detail = "light " + detail
	}
	if s.cfg.Machines == RealKubelets {
		if mode, err = s.kubelets(ctx, mode); err != nil {
			return "", err
		}
		detail = "a real kubelet and containerd for each instance"
	}
	s.run(ctx, "cloud controller", controller.Run)
	s.run(ctx, "machines", machines.WithMode(mode, s.instances()).Run)
	for i := range s.cfg.ManagedNodes {
		if err := s.runManaged(i); err != nil {
			return "", err
		}
	}
	return detail + ", the cloud controller's part", nil
}

func (s *Sandbox) startManagedNodes(ctx context.Context) (string, error) {
	if s.cfg.ManagedNodes == 0 {
		return "", nil
	}
	return fmt.Sprintf("%d t3.medium as EKS has", s.cfg.ManagedNodes), s.awaitManaged(ctx, s.cfg.ManagedNodes)
}

// AddManagedNode adds a node to the managed node group and waits until it is Ready.
func (s *Sandbox) AddManagedNode(ctx context.Context) error {
	before, err := s.managed(ctx)
	if err != nil {
		return err
	}
	if err := s.runManaged(before); err != nil {
		return err
	}
	return s.awaitManaged(ctx, before+1)
}

// runManaged launches the n-th instance of the managed node group, in the zones by turns.
func (s *Sandbox) runManaged(n int) error {
	_, err := s.aws.RunManaged("system", "t3.medium", Region+string("abc"[n%3]))
	return err
}

func (s *Sandbox) awaitManaged(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ready := 0
	err := wait.PollUntilContextCancel(ctx, 5*poll, true, func(ctx context.Context) (done bool, err error) {
		ready, err = s.managed(ctx)
		return ready >= n, err
	})
	if err != nil {
		return fmt.Errorf("waiting for managed nodes: %d of %d are Ready: %w", ready, n, err)
	}
	return nil
}

// managed counts the Nodes of the managed node group that are Ready.
func (s *Sandbox) managed(ctx context.Context) (int, error) {
	nodes, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: nodeGroupLabel})
	if err != nil {
		return 0, err
	}
	ready := 0
	for i := range nodes.Items {
		for _, condition := range nodes.Items[i].Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				ready++
			}
		}
	}
	return ready, nil
}

// HoldMachines delays the kubelets of a NodePool's machines until release is called, for what a test must prepare before a
// kubelet joins.
func (s *Sandbox) HoldMachines(nodePool string) (release func()) { return s.holds.Hold(nodePool) }

// FleetCalls returns when each CreateFleet call arrived, by launch id. It returns none where the sandbox uses another AWS.
func (s *Sandbox) FleetCalls() map[string]time.Time {
	calls := map[string]time.Time{}
	if s.aws == nil {
		return calls
	}
	for _, call := range s.aws.Calls() {
		if call.Action != "CreateFleet" {
			continue
		}
		if _, retried := calls[call.ClientToken]; !retried {
			calls[call.ClientToken] = call.At
		}
	}
	return calls
}
