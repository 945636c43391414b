// Package reject sees to pods that a kubelet said no to when they were bound to it. Such a pod is Failed for good: it never ran, and
// Kubernetes leaves it to its controller to make another. One that slipway bound ahead of the scheduler is deleted, so that nothing
// is left of it; one that the scheduler bound stays, as in any cluster, and so does one without a controller, which slipway never
// binds itself.
//
// A rejection for want of room says that a node of its instance type and AMI has less room than was planned with. What it has is
// written down where the sizes that nodes report are (EC2NodeClass, annotation slipway.dev/learned-sizes), and the next node of the
// kind is planned with that. Package health hears of it, and switches pre-binding off where it goes on.
//
// Judge is pure; Controller is the edge. All effects run under leadership.
package reject
