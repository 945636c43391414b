package plan

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// needs is every field of a pod that scheduling looks at, in a form that prints the same for equal needs.
type needs struct {
	Namespace, Scheduler, RuntimeClass, NodeName string
	Priority                                     int32
	Preemption                                   *corev1.PreemptionPolicy
	Labels, NodeSelector                         map[string]string
	Requests                                     []string
	NodeAffinity                                 *corev1.NodeAffinity
	PodAffinity                                  *corev1.PodAffinity
	PodAntiAffinity                              *corev1.PodAntiAffinity
	Tolerations                                  []corev1.Toleration
	Spread                                       []corev1.TopologySpreadConstraint
	Ports                                        []string
	Volumes                                      []corev1.Volume
	Claims                                       []corev1.PodResourceClaim
	Gates                                        []corev1.PodSchedulingGate
	OS                                           *corev1.PodOS
	HostUsers                                    *bool
	HostNetwork                                  bool
	// GangSize may differ among pods that are alike otherwise: the largest counts, whichever pod stands for the class.
	GangSize int `json:",omitempty"`
	// Invalid is why the requests cannot be counted: a negative one may hide in a sum that others have too.
	Invalid string `json:",omitempty"`
}

// ClassKey is equal for pods of identical scheduling needs: namespace, scheduler, priority, labels, size of the gang, requests, node
// selector, affinities, tolerations, spread, host ports, volumes that are not made from the pod's own spec, resource
// claims, runtime class and operating system. Labels that only number the pods of a StatefulSet or an indexed Job do not
// count, unless one of the pod's own selectors names them: see Selected for those of other pods.
func ClassKey(pod *corev1.Pod) string {
	s := &pod.Spec
	n := needs{
		Namespace: pod.Namespace, Scheduler: s.SchedulerName, NodeName: s.NodeName,
		Preemption: s.PreemptionPolicy, NodeSelector: s.NodeSelector, Tolerations: s.Tolerations,
		Spread: s.TopologySpreadConstraints, Volumes: realVolumes(s.Volumes), Claims: s.ResourceClaims,
		Gates: s.SchedulingGates, OS: s.OS, HostUsers: s.HostUsers, HostNetwork: s.HostNetwork, GangSize: GangOf(pod).Size,
	}
	if s.RuntimeClassName != nil {
		n.RuntimeClass = *s.RuntimeClassName
	}
	if s.Priority != nil {
		n.Priority = *s.Priority
	}
	if s.Affinity != nil {
		n.NodeAffinity, n.PodAffinity, n.PodAntiAffinity = s.Affinity.NodeAffinity, s.Affinity.PodAffinity, s.Affinity.PodAntiAffinity
	}
	requests := PodRequests(pod)
	n.Invalid = invalidRequest(s, requests)
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		q := requests[name]
		n.Requests = append(n.Requests, string(name)+"="+q.String())
	}
	for at, ips := range hostPorts(s) {
		for ip := range ips {
			n.Ports = append(n.Ports, ip+"/"+string(at.protocol)+"/"+itoa(int64(at.number)))
		}
	}
	slices.Sort(n.Ports)
	rest, err := json.Marshal(n)
	if err != nil {
		// Only a channel or a function cannot be marshalled, and a pod has none: the pod's own name keeps it apart.
		rest = []byte(pod.Namespace + "/" + pod.Name + "/" + string(pod.UID))
	}
	text, err := json.Marshal(labelsThatCount(pod.Labels, rest))
	if err != nil {
		text = []byte(pod.Name)
	}
	sum := sha256.New()
	sum.Write(rest)
	sum.Write([]byte{'\n'})
	sum.Write(text)
	return hex.EncodeToString(sum.Sum(nil)[:12])
}

// labelsThatCount returns the labels without those that only distinguish the pod from its siblings, and that its needs, as text, do not name.
func labelsThatCount(all map[string]string, needs []byte) map[string]string {
	out := all
	for k := range all {
		if isIdentity(k) && !bytes.Contains(needs, []byte(k)) {
			if len(out) == len(all) {
				out = maps.Clone(all)
			}
			delete(out, k)
		}
	}
	if len(out) == 0 {
		return map[string]string{} // None and an empty map are the same.
	}
	return out
}

// realVolumes leaves out those that any node can serve.
func realVolumes(in []corev1.Volume) []corev1.Volume {
	var out []corev1.Volume
	for _, v := range in {
		switch {
		case v.ConfigMap != nil, v.Secret != nil, v.DownwardAPI != nil, v.Projected != nil, v.EmptyDir != nil, v.HostPath != nil, v.Image != nil:
		default:
			out = append(out, v)
		}
	}
	return out
}
