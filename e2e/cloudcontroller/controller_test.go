package cloudcontroller_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/slipway-k8s/slipway/e2e/cloudcontroller"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is EC2's answers by instance id; failing, it answers with the error.
type memory struct {
	instances map[string]ec2types.Instance
	failing   error
	// takes is how long an answer takes.
	takes time.Duration
}

func (m *memory) DescribeInstances(_ context.Context, in *ec2.DescribeInstancesInput, _ ...func(*ec2.Options)) (*ec2.DescribeInstancesOutput, error) {
	time.Sleep(m.takes)
	if m.failing != nil {
		return nil, m.failing
	}
	var found []ec2types.Instance
	for _, id := range in.InstanceIds {
		i, ok := m.instances[id]
		if !ok {
			return nil, &smithy.GenericAPIError{Code: "InvalidInstanceID.NotFound"}
		}
		found = append(found, i)
	}
	for _, f := range in.Filters {
		for _, i := range m.instances {
			if aws.ToString(f.Name) == "private-dns-name" && aws.ToString(i.PrivateDnsName) == f.Values[0] {
				found = append(found, i)
			}
		}
	}
	return &ec2.DescribeInstancesOutput{Reservations: []ec2types.Reservation{{Instances: found}}}, nil
}

func (m *memory) set(id string, state ec2types.InstanceStateName) {
	m.instances[id] = ec2types.Instance{
		InstanceId: aws.String(id), InstanceType: "m7g.large", PrivateDnsName: aws.String("node-" + id), PrivateIpAddress: aws.String("10.0.0.1"),
		State:     &ec2types.InstanceState{Name: state},
		Placement: &ec2types.Placement{AvailabilityZone: aws.String("us-east-1b"), AvailabilityZoneId: aws.String("use1-az4")},
	}
}

// run starts the controllers over Nodes and EC2 and calls f.
func run(t *testing.T, f func(client *fake.Clientset, cloud *memory)) {
	t.Helper()
	runIn(t, cloudcontroller.Config{}, f)
}

// runIn is run with settings.
func runIn(t *testing.T, cfg cloudcontroller.Config, f func(client *fake.Clientset, cloud *memory)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		client, cloud := fake.NewClientset(), &memory{instances: map[string]ec2types.Instance{}}
		cfg.Client, cfg.EC2, cfg.Region = client, cloud, "us-east-1"
		c, err := cloudcontroller.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		synctest.Wait()
		f(client, cloud)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		// The broadcasters' goroutines end a moment after Run.
		synctest.Wait()
	})
}

func node(name, providerID string, ready corev1.ConditionStatus, taints ...corev1.Taint) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID, Taints: taints}}
	if ready != "" {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	}
	return n
}

func create(t *testing.T, client *fake.Clientset, nodes ...*corev1.Node) {
	t.Helper()
	for _, n := range nodes {
		if _, err := client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func exists(t *testing.T, client *fake.Clientset, name string) bool {
	t.Helper()
	_, err := client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

func TestDeletesNodesWithoutInstance(t *testing.T) {
	run(t, func(client *fake.Clientset, cloud *memory) {
		cloud.set("i-running", ec2types.InstanceStateNameRunning)
		cloud.set("i-terminated", ec2types.InstanceStateNameTerminated)
		create(
			t, client,
			node("unknown", "aws:///us-east-1b/i-unknown", ""),
			node("terminated", "aws:///us-east-1b/i-terminated", corev1.ConditionFalse),
			node("running", "aws:///us-east-1b/i-running", corev1.ConditionUnknown),
			node("ready", "aws:///us-east-1b/i-gone", corev1.ConditionTrue),
			node("nameless", "", corev1.ConditionFalse),
		)
		time.Sleep(6 * time.Second)
		synctest.Wait()
		for name, want := range map[string]bool{"unknown": false, "terminated": false, "running": true, "ready": true, "nameless": true} {
			if got := exists(t, client, name); got != want {
				t.Errorf("Node %s exists: %v, want %v", name, got, want)
			}
		}
	})
}

func TestErrorsDeleteNothing(t *testing.T) {
	run(t, func(client *fake.Clientset, cloud *memory) {
		cloud.failing = &smithy.GenericAPIError{Code: "RequestLimitExceeded"}
		create(t, client, node("unknown", "aws:///us-east-1b/i-unknown", ""))
		time.Sleep(time.Minute)
		synctest.Wait()
		if !exists(t, client, "unknown") {
			t.Error("a throttled lookup deleted a Node")
		}
	})
}

func TestStoppedInstancesAreTainted(t *testing.T) {
	run(t, func(client *fake.Clientset, cloud *memory) {
		cloud.set("i-1", ec2types.InstanceStateNameStopped)
		create(t, client, node("stopped", "aws:///us-east-1b/i-1", corev1.ConditionUnknown))
		time.Sleep(6 * time.Second)
		synctest.Wait()
		got, err := client.CoreV1().Nodes().Get(t.Context(), "stopped", metav1.GetOptions{})
		if err != nil || len(got.Spec.Taints) != 1 || got.Spec.Taints[0].Key != "node.cloudprovider.kubernetes.io/shutdown" {
			t.Errorf("%v, %v", got.Spec.Taints, err)
		}
	})
}

func TestInitialisesNodes(t *testing.T) {
	run(t, func(client *fake.Clientset, cloud *memory) {
		cloud.set("i-1", ec2types.InstanceStateNameRunning)
		uninitialized := corev1.Taint{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule}
		own := corev1.Taint{Key: "own", Effect: corev1.TaintEffectNoSchedule}
		create(t, client, node("node-i-1", "", corev1.ConditionFalse, uninitialized, own))
		time.Sleep(time.Second)
		synctest.Wait()
		got, err := client.CoreV1().Nodes().Get(t.Context(), "node-i-1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got.Spec.ProviderID != "aws:///us-east-1b/i-1" || len(got.Spec.Taints) != 1 || got.Spec.Taints[0].Key != "own" {
			t.Errorf("providerID %s, taints %v", got.Spec.ProviderID, got.Spec.Taints)
		}
		for key, want := range map[string]string{
			"node.kubernetes.io/instance-type": "m7g.large", "topology.kubernetes.io/zone": "us-east-1b",
			"topology.kubernetes.io/region": "us-east-1", "topology.k8s.aws/zone-id": "use1-az4",
		} {
			if got.Labels[key] != want {
				t.Errorf("label %s is %q, want %q", key, got.Labels[key], want)
			}
		}
		if len(got.Status.Addresses) != 3 || got.Status.Addresses[0].Address != "10.0.0.1" {
			t.Errorf("addresses %v", got.Status.Addresses)
		}
	})
}

// Nodes are initialized one after the other, or as many at a time as the configuration says.
func TestConcurrentNodeSyncs(t *testing.T) {
	uninitialized := corev1.Taint{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule}
	const nodes = 6
	within := func(syncs int32) (took time.Duration) {
		runIn(t, cloudcontroller.Config{NodeSyncs: syncs}, func(client *fake.Clientset, cloud *memory) {
			cloud.takes = time.Second
			for i := range nodes {
				id := fmt.Sprintf("i-%d", i)
				cloud.set(id, ec2types.InstanceStateNameRunning)
				create(t, client, node("node-"+id, "aws:///us-east-1b/"+id, corev1.ConditionTrue, uninitialized))
			}
			begin := time.Now()
			for left := nodes; left > 0 && time.Since(begin) < time.Minute; {
				time.Sleep(100 * time.Millisecond)
				list, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				left = 0
				for _, n := range list.Items {
					left += len(n.Spec.Taints)
				}
			}
			took = time.Since(begin)
		})
		return took
	}
	if one, three := within(0), within(3); one < nodes*time.Second || three > one*2/3 {
		t.Errorf("one at a time took %s, three %s", one, three)
	}
}

// In an IPv6 cluster a Node has the IPv6 address of its instance, and keeps its hostname.
func TestInitialisesNodesOfIPv6(t *testing.T) {
	runIn(t, cloudcontroller.Config{IPv6: true}, func(client *fake.Clientset, cloud *memory) {
		cloud.set("i-1", ec2types.InstanceStateNameRunning)
		i := cloud.instances["i-1"]
		i.NetworkInterfaces = []ec2types.InstanceNetworkInterface{
			{Status: ec2types.NetworkInterfaceStatusInUse, Ipv6Addresses: []ec2types.InstanceIpv6Address{{Ipv6Address: aws.String("2600:1f18::4")}}},
			{Status: ec2types.NetworkInterfaceStatusInUse},
		}
		cloud.instances["i-1"] = i
		n := node("node-i-1", "", corev1.ConditionFalse, corev1.Taint{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule})
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "node-i-1"}}
		create(t, client, n)
		time.Sleep(time.Second)
		synctest.Wait()
		got, err := client.CoreV1().Nodes().Get(t.Context(), "node-i-1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "2600:1f18::4"}, {Type: corev1.NodeHostName, Address: "node-i-1"}}
		if !slices.Equal(got.Status.Addresses, want) {
			t.Errorf("addresses %v, want %v", got.Status.Addresses, want)
		}
	})
}
