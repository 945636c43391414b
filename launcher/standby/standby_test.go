package standby_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/cloud/memory"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership/leadershiptest"
	"github.com/slipway-k8s/slipway/launcher/scenariotest"
	"github.com/slipway-k8s/slipway/launcher/standby"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scene is a Controller over an API server and an EC2 in memory.
type scene struct {
	*scenariotest.Scene

	t       *testing.T
	ec2     *memory.Cloud
	subject *standby.Controller
	// unneeded are NodeClaims without room of their buffer.
	unneeded map[string]bool
	// expires are NodeClaims that expire soon.
	expires map[string]bool
	images  []string
	// hibernate means that the class wants hibernation, cannot is why EC2 does not have it.
	hibernate bool
	cannot    string
}

// TestScenarios runs the files of testdata, each in a bubble of its own time:
//
//	claim NAME [spot] [foreign] [hibernates]
//	                                 an instance was launched for the buffer, which runs
//	node NAME [images=IMAGE] [starting=N] [gone]
//	                                 its node is ready, and only the stop is left; N pods on it have not started
//	occupied NAME | freed NAME       a pod that is no DaemonSet's runs on its node; it has ended
//	daemon NAME | pinned NAME        a pod of a controller like DaemonSets', and of one that selects the node by name, runs there
//	promise NAME | withdraw NAME     a pod is promised the node; the pod is deleted
//	unshown NAME | pod NAME          a pod is promised the node that the cache does not show; it shows it
//	unneeded NAME | needed NAME      whether the buffer has room planned on it
//	expires NAME                     it expires soon
//	image NAME | unknown             the image of the buffer's pods; the buffer is not known
//	capacity N                       EC2 has capacity for so many starts
//	fail CALL N                      so many calls fail for a reason that passes
//	started NAME                     another starts the instance
//	hibernate [REASON]               the class wants hibernation, which EC2 does not have for a reason
//	begin N                          so many terminations fail to begin
//	restart                          the process ends, and another begins
//	run DURATION                     time goes by
//	show                             NodeClaims, instances and Nodes
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t)
			datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string { return s.command(d) })
		})
	})
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{
		Scene: scenariotest.New(t, &karpv1.NodeClaim{}, &corev1.Node{}), t: t, ec2: memory.New(memory.Config{HibernateAfter: 2 * time.Minute}), unneeded: map[string]bool{}, expires: map[string]bool{},
		images: []string{"r.io/web:1"},
	}
	s.restart()
	return s
}

func (s *scene) restart() { s.serve(s.API, s.ec2) }

// serve begins a process.
func (s *scene) serve(api client.Client, ec2 standby.Cloud) {
	var err error
	s.subject, err = standby.New(standby.Config{
		Client: api, Pods: index.ListPods(api), Cloud: ec2, Ender: s, Guard: leadershiptest.Always{}, Events: s, Registerer: prometheus.NewRegistry(),
		Ours: func(c *karpv1.NodeClaim) bool { return c.Labels["foreign"] == "" },
		Needed: func(c *karpv1.NodeClaim) string {
			if s.unneeded[c.Name] {
				return ""
			}
			return "CapacityBuffer shop/spare keeps room on it"
		},
		Disk: func(string) (*corev1.Pod, time.Duration) {
			if s.images == nil {
				return nil, 0
			}
			return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: s.images[0]}}}}, time.Minute
		},
		Hibernation: func(context.Context, *karpv1.NodeClaim) (bool, string, error) { return s.hibernate, s.cannot, nil },
		ExpiresSoon: func(_ context.Context, c *karpv1.NodeClaim) (bool, error) { return s.expires[c.Name], nil },
		Failed: func(c *karpv1.NodeClaim, reason, message string) {
			s.LogTimed("failed %s %s: %s", c.Name, reason, message)
		},
	})
	s.Must(err)
}

// Eventf implements announce.EventRecorder.
func (s *scene) Eventf(o runtime.Object, _, reason, format string, args ...any) {
	s.LogTimed("event %s %s: %s", o.(client.Object).GetName(), reason, fmt.Sprintf(format, args...))
}

func (s *scene) command(d *datadriven.TestData) string {
	name := ""
	if len(d.CmdArgs) > 0 {
		name = d.CmdArgs[0].Key
	}
	switch d.Cmd {
	case "claim":
		s.claim(d, name)
	case "node":
		s.node(d, name)
	case "promise", "unshown", "pod", "withdraw":
		s.promise(d.Cmd, name)
	case "occupied", "freed", "daemon", "pinned":
		s.occupy(d.Cmd, name)
	case "unneeded", "needed", "expires":
		s.mark(d.Cmd, name)
	case "image", "unknown":
		s.images = map[string][]string{"image": {name}}[d.Cmd]
	case "capacity", "fail", "begin":
		s.faults(d)
	case "started":
		s.ec2.StartInstances(s.t.Context(), []cloud.Instance{{ID: s.instance(name).ID}})
	case "hibernate":
		s.hibernate, s.cannot = true, name
	case "restart":
		s.restart()
	case "run":
		_ = s.Run(s, s.Duration(name)) // A Begin that fails is in the trace.
	case "show":
		s.show()
	default:
		s.t.Fatalf("unknown command %s", d.Cmd)
	}
	return s.TakeTrace()
}

// mark notes whether the buffer has room planned on the instance of a claim, or that it expires soon.
func (s *scene) mark(as, name string) {
	if as == "expires" {
		s.expires[name] = true
		return
	}
	s.unneeded[name] = as == "unneeded"
}

// faults sets what EC2 has, and how many calls fail.
func (s *scene) faults(d *datadriven.TestData) {
	n := 0
	_, err := fmt.Sscan(d.CmdArgs[len(d.CmdArgs)-1].Key, &n)
	s.Must(err)
	switch d.Cmd {
	case "capacity":
		s.ec2.SetCapacity(memory.Offering{InstanceType: "m7g.large", Zone: "us-east-1a", CapacityType: "on-demand"}, n)
	case "begin":
		s.Fails = n
	default:
		for range n {
			s.ec2.Fail(memory.Call(d.CmdArgs[0].Key), errors.New("InternalError"))
		}
	}
}

// promise promises a node to a pod; as unshown without the pod, and as pod creates it alone.
func (s *scene) promise(as, name string) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "pod-" + name, UID: types.UID("pod-" + name)}}
	if as == "withdraw" {
		s.Must(s.API.Delete(s.t.Context(), pod))
		return
	}
	if as != "unshown" {
		s.Must(client.IgnoreAlreadyExists(s.API.Create(s.t.Context(), pod)))
	}
	if as != "pod" {
		s.change(name, func(c *karpv1.NodeClaim) { c.Annotations[catalog.PodsAnnotation] = `[{"uids":["pod-` + name + `"]}]` })
	}
}

// nodes returns how many Nodes there are.
func (s *scene) nodes() int {
	nodes := &corev1.NodeList{}
	s.Must(s.API.List(s.t.Context(), nodes))
	return len(nodes.Items)
}
