package disruption_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-k8s/slipway/internal/disruption"
)

// surging is a Deployment of one replica, its ReplicaSet and its pod, which may run beside its replacement.
type surging struct {
	deployment *appsv1.Deployment
	set        *appsv1.ReplicaSet
	pod        *corev1.Pod
	claims     []*corev1.PersistentVolumeClaim
	budgets    []policyv1.PodDisruptionBudget
}

// guard gives the pod a PodDisruptionBudget.
func (s *surging) guard(name string, spec policyv1.PodDisruptionBudgetSpec) {
	spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	s.budgets = append(s.budgets, policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
}

// mount gives the pod a volume. Without access modes its PersistentVolumeClaim does not exist.
func (s *surging) mount(name string, modes ...corev1.PersistentVolumeAccessMode) {
	source := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}
	s.pod.Spec.Volumes = append(s.pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: source}})
	if len(modes) > 0 {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
		claim.Spec.AccessModes = modes
		s.claims = append(s.claims, claim)
	}
}

func newSurging() surging {
	const hash = "5d9c"
	labels := map[string]string{"app": "web", appsv1.DefaultDeploymentUniqueLabelKey: hash}
	s := surging{
		deployment: &appsv1.Deployment{},
		set:        &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web-" + hash, UID: "set", ResourceVersion: "100"}},
		pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Labels: labels, OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-" + hash, UID: "set", Controller: new(true)}},
		}},
	}
	s.deployment.Spec.Strategy.Type = appsv1.RollingUpdateDeploymentStrategyType
	s.set.Spec.Replicas = new(int32(1))
	s.set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	s.pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return s
}

func TestSole(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*surging)
		want   bool
	}{
		"the only one":       {func(*surging) {}, true},
		"one of two":         {func(s *surging) { s.set.Spec.Replicas = new(int32(2)) }, false},
		"not Ready":          {func(s *surging) { s.pod.Status.Conditions[0].Status = corev1.ConditionFalse }, false},
		"terminating":        {func(s *surging) { s.pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, false},
		"of another set":     {func(s *surging) { s.set.UID = "other" }, false},
		"released by a user": {func(s *surging) { s.pod.OwnerReferences = nil }, false},
	} {
		s := newSurging()
		tc.change(&s)
		if got := disruption.Sole(s.pod, s.set); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestSurgeRefusal(t *testing.T) {
	surge := func(v intstr.IntOrString) func(*surging) {
		return func(s *surging) {
			s.deployment.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &v}
		}
	}
	most := func(v intstr.IntOrString) func(*surging) {
		return func(s *surging) { s.guard("web", policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &v}) }
	}
	least := func(v intstr.IntOrString) func(*surging) {
		return func(s *surging) { s.guard("web", policyv1.PodDisruptionBudgetSpec{MinAvailable: &v}) }
	}
	for name, tc := range map[string]struct {
		change func(*surging)
		want   string
	}{
		"maxUnavailable 0":  {most(intstr.FromInt32(0)), "PodDisruptionBudget web allows no eviction"},
		"maxUnavailable 0%": {most(intstr.FromString("0%")), "PodDisruptionBudget web allows no eviction"},
		"minAvailable 100%": {least(intstr.FromString("100%")), "PodDisruptionBudget web allows no eviction"},
		"minAvailable 1":    {least(intstr.FromInt32(1)), ""},
		"minAvailable 50%":  {least(intstr.FromString("50%")), ""},
		"maxUnavailable 1":  {most(intstr.FromInt32(1)), ""},
		"another pod's budget": {func(s *surging) {
			most(intstr.FromInt32(0))(s)
			s.budgets[0].Spec.Selector.MatchLabels["app"] = "db"
		}, ""},
		"two budgets":                {func(s *surging) { least(intstr.FromInt32(1))(s); s.guard("all", policyv1.PodDisruptionBudgetSpec{}) }, "more than one PodDisruptionBudget (all, web)"},
		"default":                    {func(*surging) {}, ""},
		"one":                        {surge(intstr.FromInt32(1)), ""},
		"a hundredth":                {surge(intstr.FromString("1%")), ""},
		"none":                       {surge(intstr.FromInt32(0)), "maxSurge 0"},
		"unreadable":                 {surge(intstr.FromString("many")), "maxSurge 0"},
		"recreate":                   {func(s *surging) { s.deployment.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType }, "strategy Recreate"},
		"no Deployment":              {func(s *surging) { s.deployment = nil }, "of no Deployment"},
		"hash is not its":            {func(s *surging) { delete(s.set.Spec.Selector.MatchLabels, appsv1.DefaultDeploymentUniqueLabelKey) }, "of no Deployment"},
		"the user's wish":            {func(s *surging) { s.pod.Annotations = map[string]string{disruption.SurgeAnnotation: "false"} }, disruption.SurgeAnnotation},
		"a volume for one node":      {func(s *surging) { s.mount("data", corev1.ReadWriteOnce) }, "PersistentVolumeClaim data"},
		"a volume for one pod":       {func(s *surging) { s.mount("data", corev1.ReadWriteOncePod) }, "PersistentVolumeClaim data"},
		"a volume that is missing":   {func(s *surging) { s.mount("data") }, "PersistentVolumeClaim data"},
		"a volume to share":          {func(s *surging) { s.mount("data", corev1.ReadWriteMany) }, ""},
		"a volume to read":           {func(s *surging) { s.mount("data", corev1.ReadOnlyMany) }, ""},
		"the second is for one node": {func(s *surging) { s.mount("data", corev1.ReadWriteMany); s.mount("own", corev1.ReadWriteOnce) }, "PersistentVolumeClaim own"},
		"a device": {func(s *surging) {
			s.pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{ResourceClaimName: new("gpu")}}
		}, "ResourceClaim gpu"},
	} {
		s := newSurging()
		tc.change(&s)
		if got := disruption.SurgeRefusal(s.pod, s.set, s.deployment, s.claims, disruption.ReadPodBudgets(s.budgets)); got != tc.want && (tc.want == "" || !strings.Contains(got, tc.want)) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestReplaced(t *testing.T) {
	now := time.Date(2026, 11, 26, 11, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		change func(*surging)
		since  time.Duration
		want   bool
	}{
		"the replacement is Ready":  {func(*surging) {}, time.Minute, true},
		"it is not":                 {func(s *surging) { s.set.Status.ReadyReplicas = 0 }, time.Minute, false},
		"not for five minutes":      {func(s *surging) { s.set.Status.ReadyReplicas = 0 }, disruption.SurgePatience, true},
		"released in the future":    {func(s *surging) { s.set.Status.ReadyReplicas = 0 }, -time.Minute, true},
		"the status is an old one":  {func(s *surging) { s.set.ResourceVersion = "99" }, time.Minute, false},
		"the set still controls it": {func(s *surging) { s.pod.OwnerReferences = newSurging().pod.OwnerReferences }, time.Minute, false},
		"the set is gone":           {func(s *surging) { s.set = nil }, time.Minute, true},
		"the set has no replica":    {func(s *surging) { s.set.Spec.Replicas = new(int32(0)) }, time.Minute, true},
	} {
		s := newSurging()
		s.pod.OwnerReferences, s.set.Status.ReadyReplicas = nil, 1
		tc.change(&s)
		from := disruption.Released{Set: "web-5d9c", Version: "99", At: now.Add(-tc.since)}
		s.pod.Annotations = map[string]string{disruption.ReleasedAnnotation: from.String()}
		read, ok := disruption.ReleasedFrom(s.pod)
		if !ok || read != from {
			t.Fatalf("%s: the annotation %s reads as %v", name, from, read)
		}
		if got := disruption.Replaced(s.pod, read, s.set, now); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// A released pod leaves its room once its ReplicaSet has let go of it, and has it again if the set adopts it.
func TestLeaves(t *testing.T) {
	released := map[string]string{disruption.ReleasedAnnotation: disruption.Released{Set: "web-5d9c", Version: "99", At: time.Now()}.String()}
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"it runs":                     {func(*corev1.Pod) {}, false},
		"it is being deleted":         {func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }, true},
		"it has no controller":        {func(p *corev1.Pod) { p.OwnerReferences = nil }, false},
		"its set has not seen that":   {func(p *corev1.Pod) { p.Annotations = released }, false},
		"its set has let go of it":    {func(p *corev1.Pod) { p.Annotations, p.OwnerReferences = released, nil }, true},
		"deleted before the set does": {func(p *corev1.Pod) { p.Annotations, p.DeletionTimestamp = released, new(metav1.Now()) }, true},
	} {
		s := newSurging()
		tc.change(s.pod)
		if got := disruption.Leaves(s.pod); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// A pod's annotations are its owner's to write: nonsense there delays no drain.
func TestUnreadableReleaseDelaysNothing(t *testing.T) {
	for _, text := range []string{"", "web", "web 1 yesterday", "a b c d"} {
		s := newSurging()
		s.pod.Annotations = map[string]string{disruption.ReleasedAnnotation: text}
		from, ok := disruption.ReleasedFrom(s.pod)
		if !ok || !disruption.Replaced(s.pod, from, s.set, time.Unix(1e9, 0)) {
			t.Errorf("%q: %v, %v", text, from, ok)
		}
	}
}
