package parity_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/slipway-k8s/slipway/plugin/provision/podclass"
	"github.com/slipway-k8s/slipway/plugin/verify"
)

// lab is what all cases of one synctest bubble share: our verifier, and the scheduler's own framework for the judge,
// both over informers whose objects change from case to case.
type lab struct {
	sources  map[string]*source
	loaded   map[string][]runtime.Object
	volumes  *podclass.Volumes
	verifier *verify.Verifier
	judge    framework.Framework
	view     *view
	csi      *csi
	// alone lets one case at a time be measured; nil where no others run.
	alone *crowd
}

// csi is the CSI manager that verification asks about nodes that exist.
type csi struct{ *view }

// source is a fake API server for one kind.
type source struct {
	*cachetesting.FakeControllerSource
}

// IsWatchListSemanticsUnSupported makes informers list before they watch.
func (source) IsWatchListSemanticsUnSupported() bool { return true }

// newLab must be called in a bubble; it ends with the context, after which close must be called.
func newLab(ctx context.Context, tb testing.TB) *lab {
	tb.Helper()
	metrics.Register()
	cfg, err := latest.Default()
	if err != nil {
		tb.Fatal(err)
	}
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	l := &lab{sources: map[string]*source{}, loaded: map[string][]runtime.Object{}, view: &view{}, csi: &csi{&view{}}}
	for kind, one := range map[string]runtime.Object{
		"namespaces": &corev1.Namespace{}, "volumes": &corev1.PersistentVolume{},
		"claims": &corev1.PersistentVolumeClaim{}, "classes": &storagev1.StorageClass{},
	} {
		src := &source{cachetesting.NewFakeControllerSource()}
		l.sources[kind] = src
		factory.InformerFor(one, func(clientset.Interface, time.Duration) cache.SharedIndexInformer {
			return cache.NewSharedIndexInformer(src, one, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		})
	}
	l.volumes = podclass.NewVolumes(factory)
	if l.verifier, err = verify.New(ctx, verify.Config{Profiles: cfg.Profiles, Informers: factory, Client: client, CSI: l.csi}); err != nil {
		tb.Fatal(err)
	}
	l.judge = newJudge(ctx, tb, cfg.Profiles[0].DeepCopy(), frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithClientSet(client), frameworkruntime.WithSnapshotSharedLister(l.view), frameworkruntime.WithSharedCSIManager(l.view))
	factory.Start(ctx.Done())
	synctest.Wait()
	return l
}

// newJudge is the scheduler's default profile, PreFilter and Filter as they are.
func newJudge(ctx context.Context, tb testing.TB, profile *config.KubeSchedulerProfile, options ...frameworkruntime.Option) framework.Framework {
	tb.Helper()
	profile.Plugins.PostFilter.Disabled = []config.Plugin{{Name: "*"}}
	profile.Plugins.MultiPoint.Enabled = without(profile.Plugins.MultiPoint.Enabled, names.DynamicResources)
	options = append(options, frameworkruntime.WithParallelism(1),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()), frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()))
	fw, err := frameworkruntime.NewFramework(ctx, frameworkplugins.NewInTreeRegistry(), profile, options...)
	if err != nil {
		tb.Fatal(err)
	}
	return fw
}

func without(list []config.Plugin, name string) []config.Plugin {
	var out []config.Plugin
	for _, p := range list {
		if p.Name != name {
			out = append(out, p)
		}
	}
	return out
}

func (l *lab) close() {
	for _, s := range l.sources {
		s.Shutdown()
	}
}

// load makes the informers show the objects of the case.
func (l *lab) load(c *cluster) {
	want := map[string][]runtime.Object{}
	for _, o := range c.namespaces {
		want["namespaces"] = append(want["namespaces"], o.DeepCopy())
	}
	for _, o := range c.volumes {
		want["volumes"] = append(want["volumes"], o.DeepCopy())
	}
	for _, o := range c.claims {
		want["claims"] = append(want["claims"], o.DeepCopy())
	}
	for _, o := range c.classes {
		want["classes"] = append(want["classes"], o.DeepCopy())
	}
	for kind, src := range l.sources {
		for _, o := range l.loaded[kind] {
			src.Delete(o)
		}
		for _, o := range want[kind] {
			src.Add(o)
		}
		l.loaded[kind] = want[kind]
	}
	synctest.Wait()
}
