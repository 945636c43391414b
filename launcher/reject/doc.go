// Package reject handles pods that a kubelet rejected at admission. Such a pod is Failed permanently: it never ran, and Kubernetes leaves it
// to its controller to create another. A pod that slipway bound ahead of the scheduler is deleted. A pod that the scheduler bound stays, as
// in any cluster, and so does one without a controller, which slipway never binds.
//
// A rejection for lack of resources means that a node of its instance type and AMI has less capacity than planned. The actual capacity is
// recorded with the sizes that nodes report (EC2NodeClass, annotation slipway.dev/learned-sizes), and the next node of this type and AMI is
// planned with it. Package health counts the rejection, and disables pre-binding if rejections continue.
//
// Judge is pure; Controller is the edge. All effects run under leadership.
package reject
