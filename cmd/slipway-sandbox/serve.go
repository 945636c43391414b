package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/clock"
	"github.com/slipway-k8s/slipway/e2e/sandbox/control"
)

// target is the AWS that a command controls.
type target struct {
	// sandbox is the name of a running sandbox, endpoint the URL of an AWS that was started with serve.
	sandbox  *string
	endpoint string
}

func (t *target) client() (*aws.Client, error) {
	if t.endpoint != "" {
		return aws.NewClient(t.endpoint), nil
	}
	state, err := control.Find(*t.sandbox)
	if err != nil {
		return nil, err
	}
	return aws.NewClient(state.AWS), nil
}

// newServeCommand returns the command that runs the AWS alone: no cluster, and no machine for an instance.
func newServeCommand() *cobra.Command {
	var listen, cluster string
	divisor := speed(1)
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Run the sandbox's AWS alone on a port, without a cluster and without machines",
		Example: "  slipway-sandbox aws serve --listen 127.0.0.1:4566 --cluster prod\n  slipway-sandbox aws --endpoint http://127.0.0.1:4566 quota on-demand 64",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			server, err := aws.New(aws.Config{Listen: listen, ClusterName: cluster, Clock: clock.New(float64(divisor)), Seed: 1})
			if err != nil {
				return err
			}
			server.SetCluster("https://"+cluster+".example.com", []byte("no cluster is behind this endpoint\n"))
			fmt.Fprintf(cmd.OutOrStdout(), "export AWS_ENDPOINT_URL=%s AWS_REGION=us-east-1 AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test\n", server.URL())
			return server.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address to serve on; port 0 is any free one")
	cmd.Flags().StringVar(&cluster, "cluster", "slipway", "name of the EKS cluster that subnets, security groups, role and queue are for")
	cmd.Flags().Var(&divisor, "speed", "divide all delays by this")
	return cmd
}
