// Package admission returns pods as the API server's admission would make them: with the defaults of their namespace's
// LimitRanges, the overhead and node selector of their RuntimeClass, and the priority of their PriorityClass. A plan needs it
// for pods that do not exist yet, above all those that a DaemonSet makes for a new node.
//
// It calls the LimitRanger's own functions (k8s.io/kubernetes/plugin/pkg/admission/limitranger). RuntimeClass and
// PriorityClass follow plugin/pkg/admission/runtimeclass and plugin/pkg/admission/priority. Admission webhooks and policies
// cannot be computed; a pod that the DaemonSet has made already shows what they do.
//
// The package is pure: it changes none of its arguments unless its documentation says so, and starts nothing.
package admission
