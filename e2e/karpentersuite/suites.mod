module github.com/slipway-k8s/slipway/karpentersuite

go 1.26.6

toolchain go1.26.8

require sigs.k8s.io/karpenter v1.14.1
