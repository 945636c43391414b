package input

import (
	"fmt"
	"hash/fnv"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// workload is an object that makes pods.
type workload struct {
	kind     string
	object   metav1.Object
	template corev1.PodTemplateSpec
	// path is the field path of the template in the object.
	path string
	// labels are those that the controller adds.
	labels map[string]string
	// replicas is the name of the ReplicaSet by which a Deployment makes its pods.
	replicas string
	// claims are the volumeClaimTemplates of a StatefulSet.
	claims []corev1.PersistentVolumeClaim
}

// owner names a controller.
type owner struct{ namespace, kind, name string }

// maxReplicas is how many pods of one workload are planned at most: ten times the largest mix of the benchmarks.
const maxReplicas = 100_000

// expander adds the pods of workloads. It counts which pods the controllers have made already.
type expander struct {
	*Reader
	have map[owner]int
	// replicas counts the pods of ReplicaSets, by Deployment. orphans counts pods of ReplicaSets that are not in the input.
	replicas, orphans map[owner]int
	// running are CronJobs with a Job in the input.
	running map[owner]bool
}

// expand adds the pods that the controllers of the input's workloads would add.
func (r *Reader) expand() {
	x := &expander{Reader: r, have: map[owner]int{}, replicas: map[owner]int{}, orphans: map[owner]int{}, running: map[owner]bool{}}
	x.count()
	for _, rs := range r.replicaSets.items {
		n := x.wanted("ReplicaSet", rs, rs.Spec.Replicas)
		if c := metav1.GetControllerOf(rs); c != nil {
			x.replicas[owner{rs.Namespace, c.Kind, c.Name}] += n
		}
		x.numbered(workload{kind: "ReplicaSet", object: rs, template: rs.Spec.Template, path: "spec.template"}, n-x.have[owner{rs.Namespace, "ReplicaSet", rs.Name}])
	}
	for _, rc := range r.controllers.items {
		if rc.Spec.Template != nil {
			n := x.wanted("ReplicationController", rc, rc.Spec.Replicas)
			x.numbered(workload{kind: "ReplicationController", object: rc, template: *rc.Spec.Template, path: "spec.template"}, n-x.have[owner{rc.Namespace, "ReplicationController", rc.Name}])
		}
	}
	for _, d := range r.deployments.items {
		me := owner{d.Namespace, "Deployment", d.Name}
		n := x.wanted("Deployment", d, d.Spec.Replicas) - x.replicas[me] - x.orphans[me]
		w := workload{kind: "Deployment", object: d, template: d.Spec.Template, path: "spec.template"}
		w.labels = map[string]string{"pod-template-hash": hash(d.Namespace + "/" + d.Name)}
		if n > 0 {
			w.replicas = x.replicaSet(d, w.labels)
		}
		x.numbered(w, n)
	}
	x.statefulSets()
	x.batches()
	x.ephemeralClaims()
}

// replicaSet adds the ReplicaSet that the Deployment's controller would make, without replicas of its own, and returns its
// name.
func (x *expander) replicaSet(d *appsv1.Deployment, own map[string]string) string {
	name := d.Name + "-" + own["pod-template-hash"]
	if _, ok := x.replicaSets.get(d.Namespace, name); ok || d.Spec.Selector == nil {
		return name
	}
	selector := d.Spec.Selector.DeepCopy()
	if selector.MatchLabels == nil {
		selector.MatchLabels = map[string]string{}
	}
	maps.Copy(selector.MatchLabels, own)
	x.replicaSets.add(x.Reader, "ReplicaSet", &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: name}, Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(0)), Selector: selector},
	})
	return name
}

// count counts the input's pods and Jobs by their controllers.
func (x *expander) count() {
	known := map[owner]bool{}
	for _, rs := range x.replicaSets.items {
		known[owner{rs.Namespace, "ReplicaSet", rs.Name}] = true
	}
	for _, p := range x.pods.items {
		c := metav1.GetControllerOf(p)
		if c == nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		o := owner{p.Namespace, c.Kind, c.Name}
		x.have[o]++
		if tail := "-" + p.Labels["pod-template-hash"]; c.Kind == "ReplicaSet" && !known[o] && tail != "-" && strings.HasSuffix(c.Name, tail) {
			x.orphans[owner{p.Namespace, "Deployment", strings.TrimSuffix(c.Name, tail)}]++
		}
		if i := strings.LastIndexByte(c.Name, '-'); c.Kind == "Job" && i > 0 {
			x.running[owner{p.Namespace, "CronJob", c.Name[:i]}] = true
		}
	}
	for _, j := range x.jobs.items {
		if c := metav1.GetControllerOf(j); c != nil && !finished(j) {
			x.running[owner{j.Namespace, c.Kind, c.Name}] = true
		}
	}
}

// wanted returns a number of replicas, one by default.
func (x *expander) wanted(kind string, object metav1.Object, replicas *int32) int {
	switch {
	case replicas == nil:
		return 1
	case *replicas < 0:
		x.problem(nameOf(kind, object), "spec.replicas", "%d: must be zero or more", *replicas)
		return 0
	case *replicas > maxReplicas:
		x.problem(nameOf(kind, object), "spec.replicas", "%d: more than a simulation takes, %d are planned", *replicas, maxReplicas)
		return maxReplicas
	}
	return int(*replicas)
}

func (x *expander) statefulSets() {
	for _, s := range x.Reader.statefulSets.items {
		first := 0
		if s.Spec.Ordinals != nil {
			first = int(s.Spec.Ordinals.Start)
		}
		w := workload{kind: "StatefulSet", object: s, template: s.Spec.Template, path: "spec.template", claims: s.Spec.VolumeClaimTemplates}
		maker := x.maker(w)
		if maker == nil {
			continue
		}
		for i := range x.wanted("StatefulSet", s, s.Spec.Replicas) {
			name := fmt.Sprintf("%s-%d", s.Name, first+i)
			if _, ok := x.pods.get(s.Namespace, name); !ok {
				maker.make(name, map[string]string{
					"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": fmt.Sprint(first + i),
				})
			}
		}
	}
}

func (x *expander) batches() {
	for _, j := range x.jobs.items {
		x.numbered(jobWorkload("Job", j, j.Spec.Template, "spec.template"), parallel(j)-x.have[owner{j.Namespace, "Job", j.Name}])
	}
	for _, c := range x.cronJobs.items {
		if x.running[owner{c.Namespace, "CronJob", c.Name}] || c.Spec.Suspend != nil && *c.Spec.Suspend {
			continue
		}
		one := &batchv1.Job{ObjectMeta: *c.ObjectMeta.DeepCopy(), Spec: c.Spec.JobTemplate.Spec}
		x.numbered(jobWorkload("CronJob", c, one.Spec.Template, "spec.jobTemplate.spec.template"), parallel(one))
	}
}

func jobWorkload(kind string, object metav1.Object, template corev1.PodTemplateSpec, path string) workload {
	return workload{kind: kind, object: object, template: template, path: path, labels: map[string]string{
		"batch.kubernetes.io/job-name": object.GetName(), "job-name": object.GetName(),
	}}
}

func finished(j *batchv1.Job) bool {
	for _, c := range j.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// parallel returns how many pods of a Job run at one time.
func parallel(j *batchv1.Job) int {
	if finished(j) || j.Spec.Suspend != nil && *j.Spec.Suspend {
		return 0
	}
	n := 1
	if j.Spec.Parallelism != nil {
		n = int(*j.Spec.Parallelism)
	}
	if j.Spec.Completions != nil {
		n = min(n, int(*j.Spec.Completions)-int(j.Status.Succeeded))
	}
	return min(max(n, 0), maxReplicas)
}

// maker makes the pods of one workload.
type maker struct {
	x    *expander
	w    workload
	spec *sharedSpec
	meta *sharedMeta
}

// maker prepares the template. It returns nil if the API server would refuse its pods.
func (x *expander) maker(w workload) *maker {
	s := &sharedSpec{id: len(x.specs) + 1, spec: w.template.Spec}
	x.specs[fmt.Sprintf("alone %d", s.id)] = s
	x.prepare(s)
	for _, f := range s.faults {
		x.problem(nameOf(w.kind, w.object), w.path+"."+f.Field, "%s", f.Message)
	}
	if len(s.faults) > 0 {
		return nil
	}
	m := &sharedMeta{id: len(x.metas) + 1, meta: metav1.ObjectMeta{
		Namespace: w.object.GetNamespace(), Labels: maps.Clone(w.labels), Annotations: w.template.Annotations,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: apiVersionOf(w.kind), Kind: w.kind, Name: w.object.GetName(), UID: w.object.GetUID(), Controller: new(true),
		}},
	}}
	if w.replicas != "" {
		m.meta.OwnerReferences[0].Kind, m.meta.OwnerReferences[0].Name = "ReplicaSet", w.replicas
	}
	if m.meta.Labels == nil {
		m.meta.Labels = map[string]string{}
	}
	maps.Copy(m.meta.Labels, w.template.Labels)
	x.metas[fmt.Sprintf("alone %d", m.id)] = m
	return &maker{x: x, w: w, spec: s, meta: m}
}

func apiVersionOf(kind string) string {
	switch kind {
	case "Job", "CronJob":
		return "batch/v1"
	case "ReplicationController":
		return "v1"
	}
	return "apps/v1"
}

// numbered makes n pods named after the workload with the next free numbers.
func (x *expander) numbered(w workload, n int) {
	if n <= 0 {
		return
	}
	maker := x.maker(w)
	if maker == nil {
		return
	}
	prefix := w.object.GetName() + "-"
	for i := 0; n > 0; i++ {
		name := fmt.Sprint(prefix, i)
		if _, taken := x.pods.get(w.object.GetNamespace(), name); !taken {
			maker.make(name, nil)
			n--
		}
	}
}

// make adds the pod with a name. own are the labels that no other pod of the workload has.
func (m *maker) make(name string, own map[string]string) {
	pod := &corev1.Pod{ObjectMeta: m.meta.meta, Spec: m.spec.spec}
	pod.Name = name
	pod.UID = types.UID(pod.Namespace + "/" + name)
	pod.Status.Phase = corev1.PodPending
	if len(own) > 0 {
		pod.Labels = maps.Clone(pod.Labels)
		maps.Copy(pod.Labels, own)
	}
	meta, spec := m.meta.id, m.spec.id
	if len(m.w.claims) > 0 {
		pod.Spec.Volumes = m.volumes(pod)
		// Each pod has its own claims, so its shape is its own.
		spec = len(m.x.specs) + 1
		m.x.specs[fmt.Sprintf("alone %d", spec)] = &sharedSpec{id: spec}
	}
	m.x.pods.add(m.x.Reader, "Pod", Pod{Pod: pod, Shape: m.x.shape(spec, meta), unseen: true})
}

// volumes returns those of the template with the claims that the StatefulSet makes for the pod.
func (m *maker) volumes(pod *corev1.Pod) []corev1.Volume {
	var out []corev1.Volume
	made := map[string]bool{}
	for _, t := range m.w.claims {
		made[t.Name] = true
		claim := t.DeepCopy()
		claim.Namespace, claim.Name = pod.Namespace, t.Name+"-"+pod.Name
		claim.UID = types.UID("claim/" + claim.Namespace + "/" + claim.Name)
		if _, ok := m.x.claims.get(claim.Namespace, claim.Name); !ok {
			m.x.claims.add(m.x.Reader, "PersistentVolumeClaim", claim)
		}
		out = append(out, corev1.Volume{Name: t.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}})
	}
	for _, v := range pod.Spec.Volumes {
		if !made[v.Name] {
			out = append(out, v)
		}
	}
	return out
}

// ephemeralClaims adds the claims that the ephemeral volume controller would make.
func (x *expander) ephemeralClaims() {
	for _, p := range x.pods.items {
		for _, v := range p.Spec.Volumes {
			if v.Ephemeral == nil || v.Ephemeral.VolumeClaimTemplate == nil {
				continue
			}
			name := p.Name + "-" + v.Name
			if _, ok := x.claims.get(p.Namespace, name); ok {
				continue
			}
			x.claims.add(x.Reader, "PersistentVolumeClaim", &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: p.Namespace, Name: name, UID: types.UID("claim/" + p.Namespace + "/" + name),
					Labels:          v.Ephemeral.VolumeClaimTemplate.Labels,
					OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: new(true)}},
				},
				Spec: v.Ephemeral.VolumeClaimTemplate.Spec,
			})
		}
	}
}

// hash returns a short text for a longer one.
func hash(text string) string {
	h := fnv.New32a()
	// A hash takes any bytes.
	_, _ = h.Write([]byte(text))
	return fmt.Sprintf("%08x", h.Sum32())
}
