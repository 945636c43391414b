package day

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	pluginnames "k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/slipway-k8s/slipway/manifests"
	"github.com/slipway-k8s/slipway/plugin/simulate"
	"github.com/slipway-k8s/slipway/plugin/simulate/apiserver"
	"github.com/slipway-k8s/slipway/plugin/verify"
)

// kubeScheduler binds pods to nodes that have room, by the filters and scores of a profile.
type kubeScheduler struct {
	framework framework.Framework
	seen      *swapped
}

// swapped is the snapshot of the pod that is bound.
type swapped struct{ fwk.SharedLister }

// newKubeScheduler returns one with the profile of slipway's sample configuration. Slipway's plugins score none of the pods that are bound here, and no pod has
// devices: these plugins are left out. packed means that it prefers the fullest nodes.
func newKubeScheduler(ctx context.Context, packed bool) (*kubeScheduler, error) {
	documents, err := manifests.Documents("scheduler/replace.yaml")
	if err != nil {
		return nil, err
	}
	read, err := simulate.ReadScheduler(documents[0])
	if err != nil {
		return nil, err
	}
	sets, err := replicaSets()
	if err != nil {
		return nil, err
	}
	client, err := apiserver.NewClient(map[string]apiserver.Resource{"replicasets": sets})
	if err != nil {
		return nil, err
	}
	metrics.Register()
	factory := informers.NewSharedInformerFactory(client, 0)
	s := &kubeScheduler{seen: &swapped{cache.NewEmptySnapshot()}}
	s.framework, err = frameworkruntime.NewFramework(ctx, frameworkplugins.NewInTreeRegistry(), scoring(&read.Profiles()[0], packed),
		frameworkruntime.WithSnapshotSharedLister(s.seen), frameworkruntime.WithInformerFactory(factory), frameworkruntime.WithClientSet(client),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()), frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
		frameworkruntime.WithParallelism(1))
	if err != nil {
		return nil, fmt.Errorf("scheduler configuration: %w", err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return s, nil
}

// scoring leaves of a profile the plugins that filter and score pods of the day.
func scoring(of *config.KubeSchedulerProfile, packed bool) *config.KubeSchedulerProfile {
	out := verify.Stripped(of, func(name string) bool { return name == pluginnames.DynamicResources })
	for i := range out.PluginConfig {
		if fit, ok := out.PluginConfig[i].Args.(*config.NodeResourcesFitArgs); ok && packed {
			fit.ScoringStrategy.Type = config.MostAllocated
		}
	}
	return out
}

// choose returns the node that the pod is bound to; empty if none has room. Of nodes with equal scores it is the first by name; kube-scheduler draws one.
func (s *kubeScheduler) choose(ctx context.Context, pod *corev1.Pod, nodes []*corev1.Node, bound []*corev1.Pod) (string, error) {
	snapshot := cache.NewSnapshot(bound, nodes)
	s.seen.SharedLister = snapshot
	all, err := snapshot.NodeInfos().List()
	if err != nil {
		return "", err
	}
	slices.SortFunc(all, func(a, b fwk.NodeInfo) int { return strings.Compare(a.Node().Name, b.Node().Name) })
	state := framework.NewCycleState()
	if _, status, _ := s.framework.RunPreFilterPlugins(ctx, state, pod); !status.IsSuccess() && !status.IsSkip() {
		return "", status.AsError()
	}
	var room []fwk.NodeInfo
	for _, n := range all {
		if s.framework.RunFilterPlugins(ctx, state, pod, n).IsSuccess() {
			room = append(room, n)
		}
	}
	if len(room) == 0 {
		return "", nil
	}
	if status := s.framework.RunPreScorePlugins(ctx, state, pod, room); !status.IsSuccess() {
		return "", status.AsError()
	}
	scores, status := s.framework.RunScorePlugins(ctx, state, pod, room)
	if !status.IsSuccess() {
		return "", status.AsError()
	}
	best := slices.MaxFunc(scores, func(a, b fwk.NodePluginScores) int { return cmp.Compare(a.TotalScore, b.TotalScore) })
	return best.Name, nil
}

// bind returns the nodes of the pods that have come, by their names. Those for which no node has room are not among them.
func (s *kubeScheduler) bind(ctx context.Context, come []*corev1.Pod, nodes []*corev1.Node, pods []*corev1.Pod) (map[string]string, error) {
	out := map[string]string{}
	for _, p := range come {
		name, err := s.choose(ctx, p, nodes, pods)
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", p.Name, err)
		}
		if name != "" {
			out[p.Name] = name
			pods = append(pods, boundTo(p, name))
		}
	}
	return out, nil
}

// boundTo is the pod as it is once it is bound.
func boundTo(p *corev1.Pod, node string) *corev1.Pod {
	out := *p
	out.Spec.NodeName = node
	return &out
}

// replicaSets are those of the services: kube-scheduler spreads their pods by default.
func replicaSets() (apiserver.Resource, error) {
	var out []*appsv1.ReplicaSet
	for _, s := range services() {
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: s.name, UID: types.UID(s.name)}}
		set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": s.name}}
		out = append(out, set)
	}
	return apiserver.NewResource(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), out)
}
