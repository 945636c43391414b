package plugin

const (
	// NodeLaunchName is the name of the plugin in KubeSchedulerConfiguration.
	NodeLaunchName = "NodeLaunch"
	// NodeReserveName is the name of the plugin in KubeSchedulerConfiguration.
	NodeReserveName = "NodeReserve"

	// nodePoolLabel is on every node that was launched for a NodePool.
	nodePoolLabel = "karpenter.sh/nodepool"
	// initializedLabel is on a node from when the launcher has found that it is initialized.
	initializedLabel = "karpenter.sh/initialized"
)
