package catalog

import "strconv"

// The labels of nodes in a placement group (karpenter.k8s.aws/v1).
const (
	LabelPlacementGroupID        = "karpenter.k8s.aws/placement-group-id"
	LabelPlacementGroupPartition = "karpenter.k8s.aws/placement-group-partition"
)

// PlacementGroup is an EC2 placement group. The zero value is none.
type PlacementGroup struct {
	// ID such as pg-0123456789abcdef0.
	ID string
	// Strategy is cluster, partition or spread.
	Strategy string
	// Partitions is the number of partitions of a group with the strategy partition; 0 for the others.
	Partitions int64
}

// PartitionNames returns the values of LabelPlacementGroupPartition in a group of n partitions: 1 to n.
func PartitionNames(n int64) []string {
	var out []string
	for i := range min(n, mostPartitions) {
		out = append(out, strconv.FormatInt(i+1, 10))
	}
	return out
}

// mostPartitions bounds an answer: EC2 has at most seven partitions in a zone.
const mostPartitions = 100
