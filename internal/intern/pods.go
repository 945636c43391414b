package intern

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// tokenVolume is the prefix of the volume that every pod gets for its service account's token. Its suffix is random
	// (plugin/pkg/admission/serviceaccount, ServiceAccountVolumeName), and nothing refers to it from outside of the pod.
	tokenVolume = "kube-api-access-"
	// sharedToken is its name in all pods.
	sharedToken = tokenVolume + "token"
)

func (o *Objects) pod(pod *corev1.Pod) {
	o.identity(&pod.ObjectMeta)
	o.spec(&pod.Spec)
	o.podStatus(&pod.Status)
}

// podStatus shares the texts of a status.
func (o *Objects) podStatus(s *corev1.PodStatus) {
	s.Conditions = fit(s.Conditions)
	for i := range s.Conditions {
		c := &s.Conditions[i]
		condition(o, &c.Type, &c.Status, &c.Reason, &c.Message)
	}
	for _, containers := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for i := range containers {
			text(o, &containers[i].Name)
			text(o, &containers[i].Image)
			text(o, &containers[i].ImageID)
		}
	}
}

// identity shares what the pods of one owner have in common.
func (o *Objects) identity(m *metav1.ObjectMeta) {
	common := metav1.ObjectMeta{
		GenerateName: m.GenerateName, Namespace: m.Namespace, Labels: m.Labels, Annotations: m.Annotations, OwnerReferences: m.OwnerReferences, Finalizers: m.Finalizers,
	}
	key, size, ok := o.key(&common)
	if !ok {
		return
	}
	common = o.identities.share(key, size, common)
	m.GenerateName, m.Namespace, m.Labels, m.Annotations = common.GenerateName, common.Namespace, common.Labels, common.Annotations
	m.OwnerReferences, m.Finalizers = common.OwnerReferences, common.Finalizers
}

// spec shares what is left of a spec without the parts that differ between the pods of one owner: the host, the volumes of a StatefulSet, and the node
// affinity of a DaemonSet.
func (o *Objects) spec(s *corev1.PodSpec) {
	renameToken(s)
	volumes := o.part(&o.volumes, corev1.PodSpec{Volumes: s.Volumes}).Volumes
	affinity := o.part(&o.affinities, corev1.PodSpec{Affinity: s.Affinity}).Affinity
	node, host := s.NodeName, s.Hostname
	s.NodeName, s.Hostname, s.Volumes, s.Affinity = "", "", nil, nil
	*s = o.part(&o.specs, *s)
	s.NodeName, s.Hostname, s.Volumes, s.Affinity = node, host, volumes, affinity
}

func (o *Objects) part(of *part[corev1.PodSpec], s corev1.PodSpec) corev1.PodSpec {
	key, size, ok := o.key(&s)
	if !ok {
		return s
	}
	return of.share(key, size, s)
}

// renameToken gives the volume of the token, and its mounts, a name that is the same in all pods.
func renameToken(s *corev1.PodSpec) {
	from := ""
	for i := range s.Volumes {
		if v := &s.Volumes[i]; v.Projected != nil && strings.HasPrefix(v.Name, tokenVolume) {
			from, v.Name = v.Name, sharedToken
			break
		}
	}
	if from == "" {
		return
	}
	for _, containers := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range containers {
			for j := range containers[i].VolumeMounts {
				if m := &containers[i].VolumeMounts[j]; m.Name == from {
					m.Name = sharedToken
				}
			}
		}
	}
}
