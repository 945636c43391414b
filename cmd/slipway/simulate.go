package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/internal/progress"
	"github.com/slipway-k8s/slipway/launcher/aws"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/interruption"
	"github.com/slipway-k8s/slipway/plugin/simulate"
	"github.com/slipway-k8s/slipway/plugin/simulate/edits"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
	"github.com/slipway-k8s/slipway/plugin/simulate/market"
	"github.com/slipway-k8s/slipway/plugin/simulate/report"
)

// simulation holds the flags of the commands that plan offline.
type simulation struct {
	files                        []string
	fromCluster                  bool
	fromAWS                      bool
	instanceTypes, prices, zones string
	commitments, interruptions   string
	interruptionCost             float64
	// fromAccount asks AWS for commitments, of which the cluster has a share.
	fromAccount     bool
	commitmentShare float64
	config          string
	options         simulate.Options
	// known reads the launcher's ConfigMaps, with --from-cluster and of the page.
	known known
}

func (s *simulation) addFlags(f *pflag.FlagSet) {
	f.StringSliceVarP(&s.files, "filename", "f", nil, "files or directories with Kubernetes objects in YAML or JSON; - for standard input. With --from-cluster they take the place of the cluster's objects of their kinds and names")
	f.BoolVar(&s.fromCluster, "from-cluster", false, "take the objects of the current kubeconfig context too, and what its launcher knows of commitments and interruptions")
	f.StringVar(&s.known.namespace, "slipway-namespace", slipwayNamespace, "namespace that slipway runs in, with --from-cluster")
	s.addPlanFlags(f)
}

// addPlanFlags adds the flags of what can be bought and of the planner.
func (s *simulation) addPlanFlags(f *pflag.FlagSet) {
	f.BoolVar(&s.fromAWS, "aws", false, "ask EC2 for the region's instance types and for today's on-demand and spot prices, with your AWS credentials and AWS_REGION")
	f.StringVar(&s.instanceTypes, "instance-types", "", "file with the output of aws ec2 describe-instance-types (default: the built-in catalogue)")
	f.StringVar(&s.prices, "prices", "", `file with prices in USD per hour: {"on-demand": {TYPE: PRICE}, "spot": {ZONE: {TYPE: PRICE}}, "usage": {USAGE TYPE: PRICE}} (default: the built-in on-demand prices)`)
	f.StringVar(&s.zones, "zones", "", "file with a JSON list of zone names (default: those of the spot prices, else those of the objects)")
	f.StringVar(&s.commitments, "commitments", "", "file with a list of Savings Plans and Reserved Instances, in YAML or JSON (default: those of the cluster, or none)")
	f.BoolVar(&s.fromAccount, "commitments-from-aws", false, "ask AWS for the account's Savings Plans and Reserved Instances as well, with your AWS credentials and AWS_REGION")
	f.Float64Var(&s.commitmentShare, "commitment-share", 1, "share of each commitment that the cluster may use, above 0 to 1, as the launcher's setting commitmentShare")
	f.StringVar(&s.interruptions, "interruptions", "", "file with the ConfigMap slipway-interruptions, in YAML or JSON: expected interruptions are a part of what spot nodes cost (default: those of the cluster, or they are left out)")
	f.Float64Var(&s.interruptionCost, "interruption-cost", 0.005, "what a pod costs whose spot node EC2 takes back, in USD, with --interruptions")
	f.StringVar(&s.config, "config", "", "file with the scheduler's KubeSchedulerConfiguration: its plugins and default constraints (default: kube-scheduler's default profile)")
	f.BoolVar(&s.options.MinValuesBestEffort, "min-values-best-effort", false, "keep as many of a NodePool's minValues as can be had, instead of launching nothing without them")
	f.Float64Var(&s.options.PreferenceShare, "preference-share", 0.1, "how much more preferences may cost than the pods that have them cost without; 0 to ignore preferences")
	f.Float64Var(&s.options.Plan.SpotShare, "spot-share", 0.5, "largest share of the pods on spot instances of one type in one zone; 1 for no limit")
	f.Float64Var(&s.options.Plan.SpotPremium, "spot-premium", 0.1, "how much more a node may cost because of --spot-share, or to be no bare metal")
	f.Float64Var(&s.options.Plan.NodeShare, "node-share", 0, "largest share of the pods on one node; 0 for no limit")
	f.Float64Var(&s.options.Plan.Budget, "budget", 1, "how much work planning may be, as a multiple of the default: a higher budget never gives a more expensive plan")
}

// formatHTML is the value of --output for a page of package report.
const formatHTML = "html"

// newSimulate returns the command simulate.
func newSimulate(o *options) *cobra.Command {
	s, moves, format, buffers := &simulation{}, newConsolidation(), "table", false
	cmd := &cobra.Command{
		Use:   "simulate -f FILE_OR_DIRECTORY...",
		Short: "Show what slipway would launch for pending pods, offline",
		Example: `  slipway simulate -f manifests/
  kubectl get nodepools,ec2nodeclasses,nodes,pods,daemonsets -A -o yaml | slipway simulate -f - -o json
  slipway simulate --from-cluster
  slipway simulate --from-cluster --consolidate
  slipway simulate --from-cluster --buffers
  slipway simulate --from-cluster --consolidate -o html > saving.html`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains([]string{"table", "json", "yaml", formatHTML}, format) {
				return fmt.Errorf("--output %s: table, json, yaml or html is expected", format)
			}
			s.files = append(s.files, args...)
			if buffers {
				return s.answerBuffers(cmd, o, format)
			}
			if moves.on {
				return moves.run(cmd, o, s, format)
			}
			w, outcome, err := s.run(cmd, o)
			if err != nil {
				return err
			}
			_, err = progress.During(reporting(cmd), "computing the lower bound", func() (any, error) {
				if format == formatHTML {
					return nil, report.Plan(cmd.Context(), cmd.OutOrStdout(), outcome, w.Objects.Ignored)
				}
				return nil, outcome.Write(cmd.Context(), cmd.OutOrStdout(), format)
			})
			return errors.Join(err, input.Refused(outcome.Problems))
		},
	}
	s.addFlags(cmd.Flags())
	moves.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&buffers, "buffers", false, "with --from-cluster: show what buffers would have cost and saved in the last day, instead of planning")
	cmd.Flags().StringVarP(&format, "output", "o", format, "table, json, yaml or html: one file for a browser, with nothing outside of it")
	return cmd
}

// reporting returns what writes a line about work that goes on, to standard error.
func reporting(cmd *cobra.Command) func(string) {
	return func(line string) { cmd.PrintErrln(line) }
}

// validate returns an error that names a flag with a number that is not expected.
func (s *simulation) validate() error {
	for name, share := range map[string]float64{
		"preference-share": s.options.PreferenceShare, "node-share": s.options.Plan.NodeShare, "budget": s.options.Plan.Budget,
	} {
		if share < 0 || math.IsNaN(share) {
			return fmt.Errorf("--%s %g: zero or more is expected", name, share)
		}
	}
	// Zero is the planner's default of these, and the scheduler's arguments begin at 1%.
	for name, share := range map[string]float64{"spot-share": s.options.Plan.SpotShare, "spot-premium": s.options.Plan.SpotPremium} {
		if !(share > 0) {
			return fmt.Errorf("--%s %g: more than zero is expected, such as 0.01 for 1%%", name, share)
		}
	}
	if !(s.interruptionCost >= 0 && s.interruptionCost <= interruption.MostCost) {
		return fmt.Errorf("--interruption-cost %g: USD from 0 to %d are expected", s.interruptionCost, interruption.MostCost)
	}
	if !(s.commitmentShare > 0 && s.commitmentShare <= 1) {
		return fmt.Errorf("--commitment-share %g: a share above 0, at most 1, is expected", s.commitmentShare)
	}
	return nil
}

// run loads, plans, and prints the problems of the input to standard error.
func (s *simulation) run(cmd *cobra.Command, o *options) (edits.World, *simulate.Outcome, error) {
	objects, m, err := s.load(cmd, o)
	if err != nil {
		return edits.World{}, nil, err
	}
	outcome, err := progress.During(reporting(cmd), "planning "+catalog.CountText(len(objects.Pods), "pod"), func() (*simulate.Outcome, error) {
		return simulate.Run(cmd.Context(), objects, m, s.options)
	})
	if err != nil {
		return edits.World{}, nil, err
	}
	simulate.WriteNotes(cmd.ErrOrStderr(), objects, outcome)
	return edits.World{Objects: objects, Market: m, Options: s.options}, outcome, nil
}

// load reads what the flags name.
func (s *simulation) load(cmd *cobra.Command, o *options) (*input.Objects, *market.Market, error) {
	if !s.offline() {
		return nil, nil, errors.New("nothing to simulate: give -f or --from-cluster")
	}
	if s.fromCluster {
		s.known.reader = o.client
	}
	m, err := s.planner(cmd.Context())
	if err != nil {
		return nil, nil, err
	}
	r := input.NewReader()
	if s.fromCluster {
		err = s.readCluster(cmd, o, r)
	} else {
		err = r.ReadFiles(s.files, cmd.InOrStdin())
	}
	if err != nil {
		return nil, nil, err
	}
	objects := r.Finish()
	return objects, m.AtLaunch(objects, s.options.Now), nil
}

// readCluster reads the cluster, and then the files: each object in them is an edit of the cluster's.
func (s *simulation) readCluster(cmd *cobra.Command, o *options, r *input.Reader) error {
	objects, err := progress.During(reporting(cmd), "reading the cluster", func() ([]runtime.Object, error) { return o.clusterObjects(cmd.Context()) })
	if err != nil {
		return err
	}
	for _, object := range objects {
		r.Add(object)
	}
	return input.EditFiles(r, s.files, cmd.InOrStdin())
}

// planner sets the planner's options, and returns what can be bought.
func (s *simulation) planner(ctx context.Context) (*market.Market, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	thrifty()
	s.options.Log, s.options.Now = klog.Background(), time.Now()
	m, err := s.market(ctx)
	if err != nil || s.config == "" {
		return m, err
	}
	text, err := os.ReadFile(s.config)
	if err != nil {
		return nil, err
	}
	if s.options.Scheduler, err = simulate.ReadScheduler(text); err != nil {
		return nil, fmt.Errorf("%s: %w", s.config, err)
	}
	return m, nil
}

// market returns what can be bought: as EC2 describes it, as the files do, or the built-in catalog.
func (s *simulation) market(ctx context.Context) (*market.Market, error) {
	from, err := s.marketFiles(ctx)
	if err != nil {
		return nil, err
	}
	if s.fromAWS {
		if s.instanceTypes != "" || s.prices != "" || s.zones != "" {
			return nil, errors.New("--aws: the files of --instance-types, --prices and --zones are expected without it")
		}
		cfg, err := aws.LoadConfig(ctx)
		if err != nil {
			return nil, err
		}
		offer, err := aws.ReadOffer(ctx, cfg)
		if err != nil {
			return nil, fmt.Errorf("--aws: %w", err)
		}
		from.Offer = &offer
	}
	m, err := market.Read(from)
	if err != nil {
		return nil, err
	}
	return m, s.commit(ctx, m)
}

// marketFiles returns the texts of the files that flags name, and what the cluster's launcher knows.
func (s *simulation) marketFiles(ctx context.Context) (market.Files, error) {
	from := market.Files{Now: time.Now(), InterruptionCost: s.interruptionCost}
	for _, f := range []struct {
		path string
		text *[]byte
	}{{s.instanceTypes, &from.InstanceTypes}, {s.prices, &from.Prices}, {s.zones, &from.Zones}, {s.commitments, &from.Commitments}, {s.interruptions, &from.Interruptions}} {
		if f.path == "" {
			continue
		}
		var err error
		if *f.text, err = os.ReadFile(f.path); err != nil {
			return market.Files{}, err
		}
	}
	return from, s.known.add(ctx, &from)
}

// thrifty trades memory for CPU while there is plenty: a simulation takes a second and leaves much garbage. A user who sets GOGC or
// GOMEMLIMIT overrides it.
func thrifty() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(400)
		debug.SetMemoryLimit(220 << 20)
	}
}
