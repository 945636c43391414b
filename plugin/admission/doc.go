// Package admission returns pods as the API server's admission would make them: with the defaults of their namespace's
// LimitRanges, the overhead and node selector of their RuntimeClass, and the priority of their PriorityClass. Plans need it
// for pods that do not exist yet, such as those of DaemonSets on a new node.
//
// It calls the LimitRanger's own functions (k8s.io/kubernetes/plugin/pkg/admission/limitranger). RuntimeClass and
// PriorityClass follow plugin/pkg/admission/runtimeclass and plugin/pkg/admission/priority. The effects of admission
// webhooks and policies cannot be computed. They are read from an existing pod of the DaemonSet.
//
// The package is pure. It changes no arguments unless its documentation states it, and starts nothing.
package admission
