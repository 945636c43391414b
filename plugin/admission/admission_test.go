package admission_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiadmission "k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1conversion "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"
	"k8s.io/kubernetes/plugin/pkg/admission/priority"
	"k8s.io/kubernetes/plugin/pkg/admission/runtimeclass"

	"github.com/slipway-k8s/slipway/plugin/admission"
)

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// limits is a LimitRange as the API server stores it.
func limits(namespace, name string, item corev1.LimitRangeItem) *corev1.LimitRange {
	out := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{item}}}
	corev1conversion.SetObjectDefaults_LimitRange(out)
	return out
}

func agent(change func(*corev1.PodSpec)) *appsv1.DaemonSet {
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "agent", UID: "agent", Annotations: map[string]string{appsv1.DeprecatedTemplateGeneration: "2"},
	}}
	ds.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "agent"}}
	if change != nil {
		change(&ds.Spec.Template.Spec)
	}
	corev1conversion.SetDefaults_PodSpec(&ds.Spec.Template.Spec)
	return ds
}

func cluster() admission.Rules {
	return admission.Rules{
		LimitRanges: []*corev1.LimitRange{
			limits("ns", "defaults", corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Default: list("cpu", "2"), DefaultRequest: list("cpu", "1500m")}),
			limits("ns", "most", corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Max: list("memory", "1Gi"), Min: list("memory", "16Mi")}),
			limits("other", "defaults", corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Default: list("cpu", "7")}),
		},
		RuntimeClasses: []*nodev1.RuntimeClass{
			{
				ObjectMeta: metav1.ObjectMeta{Name: "kata"}, Handler: "kata", Overhead: &nodev1.Overhead{PodFixed: list("cpu", "250m", "memory", "100Mi")},
				Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{"kata": "yes"}, Tolerations: []corev1.Toleration{{Key: "kata", Operator: corev1.TolerationOpExists}}},
			},
			{ObjectMeta: metav1.ObjectMeta{Name: "plain"}, Handler: "plain"},
		},
		PriorityClasses: []*schedulingv1.PriorityClass{
			{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000000},
			{ObjectMeta: metav1.ObjectMeta{Name: "usual"}, Value: 7, GlobalDefault: true},
			{ObjectMeta: metav1.ObjectMeta{Name: "usual-2"}, Value: 9, GlobalDefault: true},
			{ObjectMeta: metav1.ObjectMeta{Name: "system-node-critical"}, Value: 2000001000},
		},
	}
}

// TestAsTheAPIServer checks that a template is completed as the API server's own plugins complete the pod, and refused where
// they refuse it.
func TestAsTheAPIServer(t *testing.T) {
	rules := cluster()
	admit := apiServer(t, &rules)
	for name, change := range map[string]func(*corev1.PodSpec){
		"no requests":         nil,
		"requests":            func(s *corev1.PodSpec) { s.Containers[0].Resources.Requests = list("cpu", "100m") },
		"limits alone":        func(s *corev1.PodSpec) { s.Containers[0].Resources.Limits = list("cpu", "300m", "memory", "64Mi") },
		"beyond the bounds":   func(s *corev1.PodSpec) { s.Containers[0].Resources.Limits = list("memory", "2Gi") },
		"init containers":     func(s *corev1.PodSpec) { s.InitContainers = []corev1.Container{{Name: "init"}} },
		"pod-level resources": func(s *corev1.PodSpec) { s.Resources = &corev1.ResourceRequirements{Requests: list("cpu", "3")} },
		"RuntimeClass":        func(s *corev1.PodSpec) { s.RuntimeClassName = new("kata") },
		"RuntimeClass with a selector of its own": func(s *corev1.PodSpec) {
			s.RuntimeClassName, s.NodeSelector = new("kata"), map[string]string{"a": "b", "kata": "yes"}
		},
		"RuntimeClass that contradicts": func(s *corev1.PodSpec) {
			s.RuntimeClassName, s.NodeSelector = new("kata"), map[string]string{"kata": "no"}
		},
		"RuntimeClass without scheduling": func(s *corev1.PodSpec) { s.RuntimeClassName = new("plain") },
		"RuntimeClass that is missing":    func(s *corev1.PodSpec) { s.RuntimeClassName = new("none") },
		"PriorityClass":                   func(s *corev1.PodSpec) { s.PriorityClassName = "high" },
		"system PriorityClass":            func(s *corev1.PodSpec) { s.PriorityClassName = "system-node-critical" },
		"PriorityClass that is missing":   func(s *corev1.PodSpec) { s.PriorityClassName = "none" },
	} {
		t.Run(name, func(t *testing.T) {
			ds := agent(change)
			before := ds.DeepCopy()
			got, err := rules.DaemonSet(ds, nil)
			want, refused := admit(ds)
			if (err != nil) != (refused != nil) {
				t.Fatalf("refused: %v, the API server says %v", err, refused)
			}
			if err != nil {
				return
			}
			if diff := cmp.Diff(seen(want), seen(&got.Spec.Template.Spec), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-API server +ours:\n%s", diff)
			}
			if !equality.Semantic.DeepEqual(ds, before) {
				t.Error("the DaemonSet itself was changed")
			}
		})
	}
}

// look is what a scheduler reads of a daemon pod.
type look struct {
	Requests corev1.ResourceList
	Priority int32
	Selector map[string]string
}

func seen(s *corev1.PodSpec) look {
	return look{resourcehelper.PodRequests(&corev1.Pod{Spec: *s}, resourcehelper.PodResourcesOptions{}), *s.Priority, s.NodeSelector}
}

// apiServer runs the plugins in the API server's order over the pod that a DaemonSet makes.
func apiServer(t *testing.T, rules *admission.Rules) func(*appsv1.DaemonSet) (*corev1.PodSpec, error) {
	t.Helper()
	var objects []runtime.Object
	for _, o := range rules.LimitRanges {
		objects = append(objects, o)
	}
	for _, o := range rules.RuntimeClasses {
		objects = append(objects, o)
	}
	for _, o := range rules.PriorityClasses {
		objects = append(objects, o)
	}
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	ranger, err := limitranger.NewLimitRanger(nil)
	if err != nil {
		t.Fatal(err)
	}
	chain := []apiadmission.Interface{ranger, priority.NewPlugin(), runtimeclass.NewRuntimeClass()}
	for _, plugin := range chain {
		if p, ok := plugin.(interface {
			SetExternalKubeInformerFactory(informers.SharedInformerFactory)
		}); ok {
			p.SetExternalKubeInformerFactory(factory)
		}
		if p, ok := plugin.(interface{ SetExternalKubeClientSet(kubernetes.Interface) }); ok {
			p.SetExternalKubeClientSet(client)
		}
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	t.Cleanup(factory.Shutdown)
	return func(ds *appsv1.DaemonSet) (*corev1.PodSpec, error) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ds.Namespace, Name: "x"}, Spec: *ds.Spec.Template.Spec.DeepCopy()}
		corev1conversion.SetObjectDefaults_Pod(pod)
		return through(t.Context(), chain, pod)
	}
}

func through(ctx context.Context, chain []apiadmission.Interface, pod *corev1.Pod) (*corev1.PodSpec, error) {
	internal := &core.Pod{}
	if err := corev1conversion.Convert_v1_Pod_To_core_Pod(pod, internal, nil); err != nil {
		return nil, err
	}
	attributes := apiadmission.NewAttributesRecord(internal, nil, core.Kind("Pod").WithVersion("version"), pod.Namespace, pod.Name,
		core.Resource("pods").WithVersion("version"), "", apiadmission.Create, &metav1.CreateOptions{}, false, nil)
	for _, plugin := range chain {
		if p, ok := plugin.(apiadmission.MutationInterface); ok {
			if err := p.Admit(ctx, attributes, nil); err != nil {
				return nil, err
			}
		}
	}
	for _, plugin := range chain {
		if p, ok := plugin.(apiadmission.ValidationInterface); ok {
			if err := p.Validate(ctx, attributes, nil); err != nil {
				return nil, err
			}
		}
	}
	out := &corev1.Pod{}
	return &out.Spec, corev1conversion.Convert_core_Pod_To_v1_Pod(internal, out, nil)
}

// TestMostLimits checks that what a tenant writes into LimitRanges and a template is bounded together: 600 containers with limits of their own are
// read, and refused where the LimitRanges have too many entries for them.
func TestMostLimits(t *testing.T) {
	var spec corev1.PodSpec
	for range 600 {
		spec.Containers = append(spec.Containers, corev1.Container{})
	}
	rules := admission.Rules{}
	for i := range 10 {
		rules.LimitRanges = append(rules.LimitRanges, limits("ns", fmt.Sprint(i), corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, DefaultRequest: list("cpu", "1")}))
	}
	if got, err := rules.Pod("ns", &spec); err != nil || got.Containers[599].Resources.Requests.Cpu().Value() != 1 {
		t.Errorf("12,000 entries: error %v", err)
	}
	for i := range 10 {
		rules.LimitRanges = append(rules.LimitRanges, limits("ns", fmt.Sprint(10+i), corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, DefaultRequest: list("cpu", "1")}))
	}
	want := "the LimitRanges of the namespace have 24000 limits for the pod's containers, at most 16384 are read"
	if _, err := rules.Pod("ns", &spec); err == nil || err.Error() != want {
		t.Errorf("24,000 entries: error %v, want %s", err, want)
	}
	if _, err := rules.Pod("other", &spec); err != nil {
		t.Errorf("another namespace: %v", err)
	}
}
