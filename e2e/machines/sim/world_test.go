package sim_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/slipway-k8s/slipway/e2e/machines/delay"
	"github.com/slipway-k8s/slipway/e2e/machines/instance"
	"github.com/slipway-k8s/slipway/e2e/machines/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const nodeName = "ip-10-0-1-7.ec2.internal"

// world is an API server's memory with simulated machines on it, in a synctest bubble. The fake client knows neither
// admission nor field selectors nor graceful deletion; tests against the real one are in package e2e_test.
type world struct {
	t      *testing.T
	ctx    context.Context
	client *fake.Clientset
	sim    *sim.Sim
	holds  instance.Holds
	start  time.Time
	wg     sync.WaitGroup
	cancel context.CancelFunc
}

// inBoth runs f with machines of both sorts.
func inBoth(t *testing.T, f func(w *world)) {
	t.Helper()
	t.Run("own goroutines", func(t *testing.T) { inWorld(t, f) })
	t.Run("light", func(t *testing.T) { inLightWorld(t, f) })
}

// inWorld runs f in a bubble; every delay is fixed: kubelet after 30 s, network 8 s later, pulls 3 s, containers 0.5 s.
func inWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	inWorldOf(t, false, f)
}

// inLightWorld does the same with light machines.
func inLightWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	inWorldOf(t, true, f)
}

func inWorldOf(t *testing.T, light bool, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, client: fake.NewClientset(), start: time.Now()}
		w.ctx, w.cancel = context.WithCancel(t.Context())
		var err error
		w.sim, err = sim.New(sim.Config{
			Client:     w.client,
			NodeClient: func(string) (kubernetes.Interface, error) { return w.client, nil },
			Cluster:    "sandbox",
			Times:      fixedTimes(),
			Holds:      &w.holds,
			Light:      light,
		})
		if err != nil {
			t.Fatal(err)
		}
		w.wg.Go(func() {
			if err := w.sim.Run(w.ctx); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait() // The informers have listed: tests add reactors.
		f(w)
		w.cancel()
		w.wg.Wait()
	})
}

func fixedTimes() delay.Times {
	s := func(d time.Duration) delay.Distribution { return delay.Distribution{Min: d, Mode: d, Max: d} }
	return delay.Times{
		Kubelet: s(30 * time.Second), Network: s(8 * time.Second), Devices: s(12 * time.Second),
		Restart: s(12 * time.Second), NetworkAgain: s(3 * time.Second), Resume: s(8 * time.Second), NetworkResumed: s(time.Second),
		PullSmall: s(time.Second), PullMedium: s(3 * time.Second), PullLarge: s(30 * time.Second),
		Sandbox: s(400 * time.Millisecond), Resync: s(600 * time.Millisecond), Container: s(500 * time.Millisecond),
		Init: s(2 * time.Second), Stop: s(time.Second),
	}
}

func machine() instance.Instance {
	return instance.Instance{
		ID: "i-0123", Type: "m7g.large", Arch: "arm64", CPUs: 2, MemoryMiB: 8192, PodLimit: 29,
		Region: "us-east-1", Zone: "us-east-1a", PrivateIP: "10.0.1.7", PrivateDNSName: nodeName,
		Launched: time.Now(), State: instance.Running, UserData: userData,
	}
}

const userData = `apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: sandbox, apiServerEndpoint: "https://127.0.0.1:1", certificateAuthority: Y2E=, cidr: 10.100.0.0/16}
  kubelet:
    config:
      registerWithTaints: [{key: slipway.dev/starting, effect: NoSchedule}]
    flags: ['--node-labels=karpenter.sh/nodepool=default']
`

// boot starts the machine and returns its power switch.
func (w *world) boot(m instance.Instance) context.CancelFunc {
	ctx, off := context.WithCancel(w.ctx)
	w.wg.Go(func() {
		if err := w.sim.Machine(ctx, m); err != nil {
			w.t.Error(err)
		}
	})
	return off
}

// at lets the time pass until d after the test's start.
func (w *world) at(d time.Duration) {
	time.Sleep(time.Until(w.start.Add(d)))
	synctest.Wait()
}

func (w *world) node() *corev1.Node {
	w.t.Helper()
	node, err := w.client.CoreV1().Nodes().Get(w.ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return node
}

func (w *world) createNode(node *corev1.Node) {
	w.t.Helper()
	if _, err := w.client.CoreV1().Nodes().Create(w.ctx, node, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// bind creates a pod that is bound to the node already.
func (w *world) bind(pod *corev1.Pod) {
	w.t.Helper()
	pod.Namespace, pod.UID, pod.Spec.NodeName = "default", types.UID(pod.Name), nodeName
	pod.CreationTimestamp = metav1.Now()
	if _, err := w.client.CoreV1().Pods("default").Create(w.ctx, pod, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func (w *world) pod(name string) *corev1.Pod {
	w.t.Helper()
	pod, err := w.client.CoreV1().Pods("default").Get(w.ctx, name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return pod
}

// pod returns a pod that asks for cpu and mounts a service-account token, as nearly every pod does.
func pod(name, cpu string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways,
			Volumes: []corev1.Volume{{
				Name:         "kube-api-access",
				VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}},
			}},
			Containers: []corev1.Container{{
				Name: "app", Image: "nginx",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
			}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

func ready(node *corev1.Node) string {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return fmt.Sprintf("%s/%s", c.Status, c.Reason)
		}
	}
	return ""
}
