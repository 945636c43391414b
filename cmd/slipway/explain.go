package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/internal/progress"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/view"
	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/simulate"
	"github.com/slipway-k8s/slipway/plugin/simulate/edits"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
)

// newExplain returns the command explain: for a pod of the cluster, or offline for those of files.
func newExplain(o *options) *cobra.Command {
	s := &simulation{}
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Explain why a pod is pending or runs on its node, or what happened to a node",
		Example: `  slipway explain pod default/web-0
  slipway explain node default-x7k2p
  slipway explain -f manifests/
  slipway explain -f manifests/ pod default/web-0`,
		Annotations: map[string]string{takesNamespace: "of the pod"},
		Args:        cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && s.offline() {
				if cmd.Flags().Changed(namespaceFlag) {
					return errors.New("--namespace: it is the namespace of a pod that is named, without one all pods are explained")
				}
				return s.explain(cmd, o, "")
			}
			// As kubectl's TYPE/NAME.
			switch kind, name, _ := strings.Cut(strings.Join(args, ""), "/"); {
			case name == "":
			case slices.Contains([]string{"pod", "pods", "po"}, kind):
				return s.explainPod(cmd, o, name)
			case slices.Contains([]string{"node", "nodes", "no", "nodeclaim", "nodeclaims"}, kind):
				return o.explainNode(cmd, name)
			}
			return errors.New("explain what? give pod NAMESPACE/NAME, node NAME, or -f for the pods of files")
		},
	}
	s.addFlags(cmd.PersistentFlags())
	cmd.AddCommand(&cobra.Command{
		Use:         "pod [NAMESPACE/]NAME",
		Short:       "Explain why a pod is pending, or why it runs on its node",
		Annotations: map[string]string{takesNamespace: "of the pod"},
		Args:        cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.explainPod(cmd, o, args[0])
		},
	})
	cmd.AddCommand(&cobra.Command{
		Use:   "node NAME",
		Short: "Explain what a node costs, what it was launched for, and what happened to it",
		Long: `Explain what a node costs, what it was launched for, and what happened to it.

NAME is that of the node or of its NodeClaim.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.explainNode(cmd, args[0]) },
	})
	return cmd
}

// explainNode explains one node of the cluster.
func (o *options) explainNode(cmd *cobra.Command, name string) error {
	if err := refuseUnused(cmd); err != nil {
		return err
	}
	c, _, err := o.client()
	if err != nil {
		return err
	}
	in, err := objects(cmd.Context(), c)
	if err != nil {
		return err
	}
	in.Now = time.Now()
	return view.ExplainNode(cmd.OutOrStdout(), name, in)
}

// refuseUnused returns an error that names a flag of pods which was given to explain a node.
func refuseUnused(cmd *cobra.Command) error {
	ofPods := pflag.NewFlagSet("", pflag.ContinueOnError)
	(&simulation{}).addFlags(ofPods)
	ofPods.String(namespaceFlag, "", "")
	var err error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err == nil && ofPods.Lookup(f.Name) != nil {
			err = fmt.Errorf("--%s: it is for pods, a node is explained by what the cluster has of it", f.Name)
		}
	})
	return err
}

// explainPod explains one pod: of files, or else of the cluster.
func (s *simulation) explainPod(cmd *cobra.Command, o *options, arg string) error {
	if s.offline() {
		return s.explain(cmd, o, named(arg, o.namespace).String())
	}
	return s.explainLive(cmd, o, arg)
}

// named returns the pod of an argument, NAME or NAMESPACE/NAME.
func named(arg, namespace string) types.NamespacedName {
	if in, name, ok := strings.Cut(arg, "/"); ok {
		return types.NamespacedName{Namespace: in, Name: name}
	}
	if namespace == "" {
		namespace = corev1.NamespaceDefault
	}
	return types.NamespacedName{Namespace: namespace, Name: arg}
}

func (s *simulation) offline() bool { return len(s.files) > 0 || s.fromCluster }

func (s *simulation) explain(cmd *cobra.Command, o *options, pod string) error {
	w, outcome, err := s.run(cmd, o)
	if err != nil {
		return err
	}
	return errors.Join(outcome.Explain(cmd.Context(), cmd.OutOrStdout(), pod), writeEdits(cmd, w, outcome, pod), input.Refused(outcome.Problems))
}

// writeEdits prints the smallest edits that help the pod, or all pods if it is empty.
func writeEdits(cmd *cobra.Command, w edits.World, outcome *simulate.Outcome, pod string) error {
	_, err := progress.During(reporting(cmd), "looking for edits that help", func() (any, error) {
		return nil, edits.Write(cmd.Context(), cmd.OutOrStdout(), w, outcome, pod)
	})
	return err
}

// explainLive explains a pod of the cluster: its condition, its events and its NodeClaim and, while it has no node, what each NodePool would
// do with it.
func (s *simulation) explainLive(cmd *cobra.Command, o *options, arg string) error {
	c, namespace, err := o.client()
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	pod, err := explainPod(cmd.Context(), c, named(arg, namespace), out)
	if err != nil || pod.Spec.NodeName != "" || len(pod.Spec.SchedulingGates) > 0 || view.Unserved(pod, time.Now()) != "" {
		return err
	}
	refused := perPool(out, pod)
	s.fromCluster = true
	w, outcome, err := s.run(cmd, o)
	switch {
	case err != nil && (refused || apierrors.IsForbidden(err)):
		cmd.PrintErrf("Edits that would help were not looked for: %v\n", err)
		return nil
	case err != nil:
		return err
	}
	name := pod.Namespace + "/" + pod.Name
	if !refused {
		fmt.Fprintln(out, ifPlanned(pod))
		if err := outcome.Explain(cmd.Context(), out, name); err != nil {
			return err
		}
	}
	return writeEdits(cmd, w, outcome, name)
}

// ifPlanned is the line above what slipway would plan for a pod. A pod does not show whether its scheduler is slipway's, which may run under any name.
func ifPlanned(pod *corev1.Pod) string {
	return fmt.Sprintf("Its scheduler is %s: a node comes only if that is slipway's. If it were planned now, with the other pending pods:", pod.Spec.SchedulerName)
}

// perPool prints the scheduler's reason for each NodePool; false if there is none yet.
func perPool(w io.Writer, pod *corev1.Pod) bool {
	refusal, ok := explain.Read(pod)
	if !ok {
		return false
	}
	fmt.Fprintln(w, "Why no node is launched for it:")
	for _, r := range refusal.Reasons {
		if len(r.NodePools) == 0 {
			fmt.Fprintf(w, "  %s\n", r.Text())
		}
		for _, pool := range r.NodePools {
			fmt.Fprintf(w, "  NodePool %s: %s\n", pool, r.Text())
		}
	}
	if refusal.More > 0 {
		fmt.Fprintf(w, "  and %s more\n", catalog.CountText(refusal.More, "reason"))
	}
	return true
}

func explainPod(ctx context.Context, c client.Client, name types.NamespacedName, w io.Writer) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := c.Get(ctx, name, pod); err != nil {
		return nil, err
	}
	var events corev1.EventList
	unread := c.List(ctx, &events, client.InNamespace(pod.Namespace),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("involvedObject.uid", string(pod.UID))})
	if unread != nil && !apierrors.IsForbidden(unread) {
		return nil, unread
	}
	// Who has rights in the pod's namespace alone sees what the pod itself says.
	in, _, err := visible(ctx, c)
	if err != nil {
		return nil, err
	}
	if unread != nil {
		in.Unread = append(in.Unread, view.UnreadEvents)
	}
	view.ExplainPod(w, brief(pod, events.Items), in, events.Items, time.Now())
	return pod, nil
}

// brief leaves the reasons per NodePool to perPool: it removes them from the message of the returned pod's condition PodScheduled, and
// from events with the same text. A message that does not end with them, or has another reason, stays whole.
func brief(pod *corev1.Pod, events []corev1.Event) *corev1.Pod {
	out := pod.DeepCopy()
	refusal, ok := explain.Read(pod)
	if !ok {
		return out
	}
	below := func(message string) string {
		if verdict, ok := refusal.CutFrom(message); ok && strings.HasPrefix(refusal.Text(), "no node can be launched") {
			return strings.TrimSpace(verdict + " No node can be launched: see below.")
		}
		return message
	}
	if c := conditions.Pod(out, corev1.PodScheduled); c != nil {
		c.Message = below(c.Message)
	}
	for i := range events {
		events[i].Message = below(events[i].Message)
	}
	return out
}
