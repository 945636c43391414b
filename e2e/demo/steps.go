package demo

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/objects"
	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/launcher/view"
)

//go:embed manifests
var manifests embed.FS

const namespace = "default"

// apply creates the objects of one of the demo's manifests.
func (s *story) apply(ctx context.Context, file string) error {
	f, err := manifests.Open("manifests/" + file)
	if err != nil {
		return err
	}
	all, err := objects.Read(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("decoding %s: %w", file, err)
	}
	for _, obj := range all {
		if obj.GetKind() == "Deployment" || obj.GetKind() == "Pod" {
			obj.SetNamespace(namespace)
		}
		if err := s.client.Create(ctx, obj); err != nil {
			return fmt.Errorf("creating %s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
	return nil
}

func (s *story) pool(ctx context.Context) (string, error) {
	if err := s.apply(ctx, "pool.yaml"); err != nil {
		return "", err
	}
	for {
		var pool karpv1.NodePool
		if err := s.client.Get(ctx, client.ObjectKey{Name: "default"}, &pool); err != nil {
			return "", err
		}
		if pool.StatusConditions().Root().IsTrue() {
			return "NodePool default is Ready: spot and on-demand, amd64 and arm64, categories c, m and r, at most 1000 cores", nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("waiting for the NodePool: it is not Ready: %s", pool.StatusConditions().Root().Message)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// scaleUp scales all Deployments at once and waits until every pod runs.
func (s *story) scaleUp(ctx context.Context) (string, error) {
	if err := s.apply(ctx, "workload.yaml"); err != nil {
		return "", err
	}
	var err error
	s.report.Pods.Wanted, err = s.scale(ctx, func(d *appsv1.Deployment) (int, error) {
		return strconv.Atoi(d.Annotations["demo/replicas"])
	})
	if err != nil {
		return "", err
	}
	if err := s.awaitRunning(ctx); err != nil {
		return "", err
	}
	overview := s.recorder.Overview(namespace)
	s.report.Pods.Running = overview.Pods.Running
	s.report.CostPerHour = overview.CostPerHour
	for _, n := range overview.Nodes {
		s.report.Nodes = append(s.report.Nodes, Node{
			Name: n.Node, InstanceType: n.InstanceType, Zone: n.Zone, CapacityType: n.CapacityType, Price: n.Price, Pods: n.Pods,
		})
	}
	if err := s.measure(ctx); err != nil {
		return "", err
	}
	s.screen.keep(s.table())
	return fmt.Sprintf("%d pods run on %d nodes for %.4f USD per hour; lower bound %.4f, first-fit %.4f",
		s.report.Pods.Running, len(overview.Nodes), s.report.CostPerHour, s.report.LowerBoundPerHour, s.report.FirstFitPerHour), nil
}

// scale sets the replicas of all Deployments and returns their sum.
func (s *story) scale(ctx context.Context, replicas func(*appsv1.Deployment) (int, error)) (int, error) {
	var list appsv1.DeploymentList
	if err := s.client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return 0, err
	}
	sum := 0
	for i := range list.Items {
		d := &list.Items[i]
		n, err := replicas(d)
		if err != nil {
			return 0, fmt.Errorf("scaling Deployment %s: %w", d.Name, err)
		}
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n))
		if err := s.client.Patch(ctx, d, patch); err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// awaitRunning waits until all wanted pods run, and shows the table meanwhile.
func (s *story) awaitRunning(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return s.watching(ctx, fmt.Sprintf("%d running pods", s.report.Pods.Wanted), func() bool {
		return s.running() == s.report.Pods.Wanted
	})
}

func (s *story) running() int {
	n := 0
	for _, p := range s.recorder.Pods() {
		alive := !p.Deleted.Seen() && !p.Terminating.Seen()
		if alive && p.Object.Namespace == namespace && p.Object.Status.Phase == corev1.PodRunning {
			n++
		}
	}
	return n
}

// watching waits until done returns true, and redraws the table at most ten times a second.
func (s *story) watching(ctx context.Context, what string, done func() bool) error {
	for !done() {
		s.screen.progress(s.table())
		change := s.recorder.Changed()
		select {
		case <-change:
		case <-time.After(time.Second):
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w; now: %s", what, ctx.Err(), s.recorder.Overview(namespace).Pods)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return nil
}

func (s *story) table() string {
	var b strings.Builder
	if err := s.recorder.Overview(namespace).Write(&b, view.FormatTable); err != nil {
		return err.Error()
	}
	return b.String()
}

// unplaceable waits until the pod's condition names the NodePool and the reason.
func (s *story) unplaceable(ctx context.Context) (string, error) {
	if err := s.apply(ctx, "stuck.yaml"); err != nil {
		return "", err
	}
	message := ""
	err := s.recorder.Await(ctx, "a reason in the pod's condition", func() bool {
		for _, p := range s.recorder.Pods() {
			if p.Object.Name == "too-big" {
				message = conditionMessage(p)
			}
		}
		return strings.Contains(message, "default") && strings.Contains(message, "500")
	})
	if err != nil {
		return "", fmt.Errorf("%w; the condition says %q", err, message)
	}
	stuck := &corev1.Pod{}
	stuck.Namespace, stuck.Name = namespace, "too-big"
	if err := s.client.Delete(ctx, stuck, client.GracePeriodSeconds(0)); err != nil {
		return "", err
	}
	return "its condition says: " + message, nil
}

func conditionMessage(p observe.Pod) string {
	for _, c := range p.Object.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c.Message
		}
	}
	return ""
}
