package parity_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

const doNotDisrupt, doNotEvict = "karpenter.sh/do-not-disrupt", "karpenter.sh/do-not-evict"

// rules change a fleet, each in one way that decides whether a node goes, by name. The name ends with the nodes of the NodePool
// default that go then.
func rules() map[string]func(*fleet) {
	out := map[string]func(*fleet){"nothing keeps them: subject and third": func(*fleet) {}}
	for _, of := range []map[string]func(*fleet){protected(), guarded(), podKinds(), nodeStates(), empties(), nodePools()} {
		maps.Copy(out, of)
	}
	return out
}

// web is the subject's first pod; one is added where there is none.
func (f *fleet) web() *corev1.Pod {
	if len(f.subject.pods) == 0 {
		f.subject.pods = []*corev1.Pod{newPod("web-"+f.subject.node.Name, f.subject.node.Name)}
	}
	return f.subject.pods[0]
}

// add puts another pod on the subject's node.
func (f *fleet) add(name string) *corev1.Pod {
	p := newPod(fmt.Sprintf("%s-%s-%d", name, f.subject.node.Name, len(f.subject.pods)), f.subject.node.Name)
	f.subject.pods = append(f.subject.pods, p)
	return p
}

func protected() map[string]func(*fleet) {
	return map[string]func(*fleet){
		"do-not-disrupt on a pod: third":                 func(f *fleet) { annotated(f.web(), doNotDisrupt, "true") },
		"do-not-disrupt for 48h: third":                  func(f *fleet) { annotated(f.web(), doNotDisrupt, "48h") },
		"do-not-disrupt for 1h, over: subject and third": func(f *fleet) { annotated(f.web(), doNotDisrupt, "1h") },
		"do-not-disrupt that cannot be read: subject and third": func(f *fleet) {
			annotated(f.web(), doNotDisrupt, "soon")
		},
		"do-not-evict on a pod: third":               func(f *fleet) { annotated(f.web(), doNotEvict, "true") },
		"do-not-evict false: subject and third":      func(f *fleet) { annotated(f.web(), doNotEvict, "false") },
		"do-not-disrupt on the Node: third":          func(f *fleet) { annotated(f.subject.node, doNotDisrupt, "true") },
		"do-not-evict on the Node: third":            func(f *fleet) { annotated(f.subject.node, doNotEvict, "true") },
		"do-not-disrupt on the NodeClaim: third":     func(f *fleet) { annotated(f.subject.claim, doNotDisrupt, "true") },
		"do-not-disrupt on a daemon's pod: third":    func(f *fleet) { annotated(daemon(f.add("agent")), doNotDisrupt, "true") },
		"do-not-evict on a daemon's pod: third":      func(f *fleet) { annotated(daemon(f.add("agent")), doNotEvict, "true") },
		"a pod with a day to end: subject and third": func(f *fleet) { f.web().Spec.TerminationGracePeriodSeconds = new(int64(24 * 3600)) },
		"a pod with years to end: third":             func(f *fleet) { f.web().Spec.TerminationGracePeriodSeconds = new(int64(1e9)) },
		"a daemon's pod with years to end: third":    func(f *fleet) { daemon(f.add("agent")).Spec.TerminationGracePeriodSeconds = new(int64(1e9)) },
		"do-not-disrupt on a mirror pod: third":      func(f *fleet) { annotated(mirror(f.add("static")), doNotDisrupt, "true") },
		"do-not-disrupt on a terminal pod: subject and third": func(f *fleet) {
			annotated(f.add("done"), doNotDisrupt, "true").Status.Phase = corev1.PodSucceeded
		},
	}
}

func guarded() map[string]func(*fleet) {
	unhealthy := func(policy policyv1.UnhealthyPodEvictionPolicyType, healthy int32) func(*fleet) {
		return func(f *fleet) {
			b := f.guard("pdb-"+f.web().Name, unready(f.web()).Labels["app"], 0)
			b.Spec.UnhealthyPodEvictionPolicy = &policy
			b.Status.DesiredHealthy, b.Status.CurrentHealthy = 2, healthy
		}
	}
	return map[string]func(*fleet){
		"a PodDisruptionBudget of 0: third":             func(f *fleet) { f.guard("pdb-"+f.web().Name, f.web().Labels["app"], 0) },
		"a PodDisruptionBudget of 1: subject and third": func(f *fleet) { f.guard("pdb-"+f.web().Name, f.web().Labels["app"], 1) },
		"a PodDisruptionBudget of another namespace: subject and third": func(f *fleet) {
			f.guard("far-"+f.web().Name, f.web().Labels["app"], 0).Namespace = "far"
		},
		"two PodDisruptionBudgets: third": func(f *fleet) {
			f.guard("one-"+f.web().Name, f.web().Labels["app"], 1)
			f.guard("two-"+f.web().Name, f.web().Labels["app"], 1)
		},
		"not ready, AlwaysAllow: subject and third":                     unhealthy(policyv1.AlwaysAllow, 1),
		"not ready, IfHealthyBudget, others unhealthy: third":           unhealthy(policyv1.IfHealthyBudget, 1),
		"not ready, IfHealthyBudget, others healthy: subject and third": unhealthy(policyv1.IfHealthyBudget, 2),
		"ready, AlwaysAllow: third": func(f *fleet) {
			unhealthy(policyv1.AlwaysAllow, 1)(f)
			f.web().Status.Conditions[0].Status = corev1.ConditionTrue
		},
		"a pending pod of a PodDisruptionBudget of 0: subject and third": func(f *fleet) {
			f.guard("pdb-"+f.web().Name, f.web().Labels["app"], 0)
			f.web().Status = corev1.PodStatus{Phase: corev1.PodPending}
		},
		"a daemon's pod of a PodDisruptionBudget of 0: third": func(f *fleet) {
			agent := daemon(f.add("agent"))
			f.guard("pdb-"+agent.Name, agent.Labels["app"], 0)
		},
		"a tolerating daemon's pod of a PodDisruptionBudget of 0: subject and third": func(f *fleet) {
			agent := daemon(f.add("agent"))
			agent.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
			f.guard("pdb-"+agent.Name, agent.Labels["app"], 0)
		},
		"a mirror pod of a PodDisruptionBudget of 0: subject and third": func(f *fleet) {
			static := mirror(f.add("static"))
			f.guard("pdb-"+static.Name, static.Labels["app"], 0)
		},
	}
}

func podKinds() map[string]func(*fleet) {
	return map[string]func(*fleet){
		"a pod without a controller: third": func(f *fleet) { f.web().OwnerReferences = nil },
		"a pod without a controller that ends with its node: subject and third": func(f *fleet) {
			f.web().OwnerReferences, f.disruptBare = nil, true
		},
		"a terminal pod without a controller: subject and third": func(f *fleet) {
			done := f.add("done")
			done.OwnerReferences, done.Status.Phase = nil, corev1.PodFailed
		},
		"a pod without a controller that tolerates the taint: subject and third": func(f *fleet) {
			f.web().OwnerReferences = nil
			f.web().Spec.Tolerations = []corev1.Toleration{{Key: karpv1.DisruptedTaintKey, Operator: corev1.TolerationOpExists}}
		},
		"a terminating pod: third":                                func(f *fleet) { terminating(f.web(), -minutes(1)) },
		"a pod stuck in termination: third":                       func(f *fleet) { terminating(f.web(), minutes(5)) },
		"a terminating pod of a daemon: subject and third":        func(f *fleet) { terminating(daemon(f.add("agent")), -minutes(1)) },
		"a daemon's pod and a mirror pod more: subject and third": func(f *fleet) { daemon(f.add("agent")); mirror(f.add("static")) },
	}
}

func nodeStates() map[string]func(*fleet) {
	return map[string]func(*fleet){
		"not initialized: third": func(f *fleet) { f.subject.claim.Status.Conditions = nil },
		"not Ready: third":       func(f *fleet) { f.subject.ready(corev1.ConditionFalse) },
		"Ready unknown: third":   func(f *fleet) { f.subject.ready(corev1.ConditionUnknown) },
		"the NodeClaim is being deleted: third": func(f *fleet) {
			terminating(f.subject.claim, minutes(1))
		},
		"the Node is being deleted: third": func(f *fleet) { terminating(f.subject.node, minutes(1)) },
		"cordoned by kubectl: third":       func(f *fleet) { f.subject.node.Spec.Unschedulable = true },
		"cordoned by a move: third": func(f *fleet) {
			f.subject.node.Spec.Taints = []corev1.Taint{karpv1.DisruptedNoScheduleTaint}
		},
		"a pod came within consolidateAfter: third": func(f *fleet) {
			f.subject.claim.Status.LastPodEventTime = ago(30 * time.Second)
			_ = f.subject.claim.StatusConditions().Clear(karpv1.ConditionTypeConsolidatable)
		},
		"bought 5 minutes ago: subject and third": func(f *fleet) { f.subject.node.CreationTimestamp = ago(minutes(5)) },
		"bought 5 minutes ago, an age of 10: third": func(f *fleet) {
			annotated(f.pool, catalog.NodeAgeAnnotation, "10m")
			f.subject.node.CreationTimestamp = ago(minutes(5))
		},
	}
}

func empties() map[string]func(*fleet) {
	empty := func(change func(*fleet)) func(*fleet) {
		return func(f *fleet) {
			f.subject.empty(time.Hour)
			change(f)
		}
	}
	return map[string]func(*fleet){
		"empty: subject and third":                             empty(func(*fleet) {}),
		"empty but for daemons and mirrors: subject and third": empty(func(f *fleet) { daemon(f.add("agent")); mirror(f.add("static")) }),
		"empty, do-not-disrupt on a daemon's pod: third": empty(func(f *fleet) {
			annotated(daemon(f.add("agent")), doNotDisrupt, "true")
		}),
		"empty, do-not-disrupt on a mirror pod: third": empty(func(f *fleet) {
			annotated(mirror(f.add("static")), doNotDisrupt, "true")
		}),
		"empty, do-not-disrupt for 1h on a daemon's pod, over: subject and third": empty(func(f *fleet) {
			annotated(daemon(f.add("agent")), doNotDisrupt, "1h")
		}),
		"empty, a daemon's pod of a PodDisruptionBudget of 0: third": empty(func(f *fleet) {
			agent := daemon(f.add("agent"))
			f.guard("pdb-"+agent.Name, agent.Labels["app"], 0)
		}),
		"empty, a tolerating daemon's pod of a PodDisruptionBudget of 0: subject and third": empty(func(f *fleet) {
			agent := daemon(f.add("agent"))
			agent.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
			f.guard("pdb-"+agent.Name, agent.Labels["app"], 0)
		}),
		"empty, do-not-disrupt on the Node: third":       empty(func(f *fleet) { annotated(f.subject.node, doNotDisrupt, "true") }),
		"empty, do-not-evict on the NodeClaim: third":    empty(func(f *fleet) { annotated(f.subject.claim, doNotEvict, "true") }),
		"empty, bought 5 minutes ago: subject and third": empty(func(f *fleet) { f.subject.node.CreationTimestamp = ago(minutes(5)) }),
		"empty, for 30 s: third":                         empty(func(f *fleet) { f.subject.empty(30 * time.Second) }),
		"empty, not initialized: third":                  empty(func(f *fleet) { f.subject.claim.Status.Conditions = nil }),
		"empty, not Ready: subject and third":            empty(func(f *fleet) { f.subject.ready(corev1.ConditionFalse) }),
		"empty, not Ready, a budget of 1: subject": empty(func(f *fleet) {
			f.subject.ready(corev1.ConditionFalse)
			f.pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "1"}}
		}),
		"empty, both not Ready, a budget of 1: none": empty(func(f *fleet) {
			f.third.empty(time.Hour)
			f.subject.ready(corev1.ConditionFalse)
			f.third.ready(corev1.ConditionFalse)
			f.pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "1"}}
		}),
		"empty, cordoned by kubectl: subject and third": empty(func(f *fleet) { f.subject.node.Spec.Unschedulable = true }),
		"empty, cordoned by a move: third": empty(func(f *fleet) {
			f.subject.node.Spec.Taints = []corev1.Taint{karpv1.DisruptedNoScheduleTaint}
		}),
		"empty, launched a minute ago for others: third": empty(func(f *fleet) {
			annotated(f.subject.claim, "slipway.dev/replaces", "old")
			f.subject.claim.Status.LastPodEventTime = metav1.Time{}
			f.subject.set(karpv1.ConditionTypeInitialized, time.Minute)
		}),
		"empty, launched long ago for others: subject and third": empty(func(f *fleet) {
			annotated(f.subject.claim, "slipway.dev/replaces", "old")
			f.subject.claim.Status.LastPodEventTime = metav1.Time{}
		}),
		"empty, its NodeClaim is being deleted: third": empty(func(f *fleet) { terminating(f.subject.claim, minutes(1)) }),
	}
}

func nodePools() map[string]func(*fleet) {
	budgets := func(list ...karpv1.Budget) func(*fleet) {
		return func(f *fleet) { f.pool.Spec.Disruption.Budgets = slices.Clone(list) }
	}
	at := func(schedule string) karpv1.Budget {
		return karpv1.Budget{Nodes: "0", Schedule: &schedule, Duration: &metav1.Duration{Duration: time.Hour}}
	}
	of := func(nodes string, reasons ...karpv1.DisruptionReason) karpv1.Budget {
		return karpv1.Budget{Nodes: nodes, Reasons: reasons}
	}
	return map[string]func(*fleet){
		"WhenEmpty: none": func(f *fleet) { f.pool.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmpty },
		"WhenEmpty, one is empty: subject": func(f *fleet) {
			f.pool.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmpty
			f.subject.empty(time.Hour)
		},
		"consolidateAfter Never: none": func(f *fleet) {
			f.pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("Never")
			f.subject.empty(time.Hour)
		},
		"a fixed number of nodes: none": func(f *fleet) {
			f.pool.Spec.Replicas = new(int64(2))
			f.subject.empty(time.Hour)
		},
		"left alone for 48h by annotation: none": func(f *fleet) { annotated(f.pool, "slipway.dev/consolidation-node-age", "48h") },
		"left alone for 1m by annotation: subject and third": func(f *fleet) {
			annotated(f.pool, "slipway.dev/consolidation-node-age", "1m")
			f.subject.node.CreationTimestamp = ago(minutes(5))
		},
		"a budget of 0: none":                                    budgets(of("0")),
		"a budget of 0 for Underutilized: none":                  budgets(of("0", karpv1.DisruptionReasonUnderutilized)),
		"a budget of 0 for Empty and Drifted: subject and third": budgets(of("0", karpv1.DisruptionReasonEmpty), of("0", karpv1.DisruptionReasonDrifted)),
		"a budget of 0 for Empty, one is empty: third": func(f *fleet) {
			budgets(of("0", karpv1.DisruptionReasonEmpty))(f)
			f.subject.empty(time.Hour)
		},
		"a budget of 1, one is empty: subject": func(f *fleet) {
			budgets(of("1"))(f)
			f.subject.empty(time.Hour)
		},
		"a budget of 1, one is not Ready: none": func(f *fleet) {
			budgets(of("1"))(f)
			f.subject.ready(corev1.ConditionFalse)
		},
		"a budget of 1, one is being deleted: none": func(f *fleet) {
			budgets(of("1"))(f)
			terminating(f.subject.claim, minutes(1))
		},
		"a budget of 50%, one is not initialized: third": func(f *fleet) {
			budgets(of("50%"))(f)
			f.subject.claim.Status.Conditions = nil
		},
		"a budget of 0 by schedule, active: none":                  budgets(of("100%"), at("30 11 * * *")),
		"a budget of 0 by schedule, not active: subject and third": budgets(of("100%"), at("30 10 * * *")),
		"a budget that cannot be read: none":                       budgets(of("100%"), at("whenever")),
		"no budget, 10% by default, one is not Ready: none": func(f *fleet) {
			budgets()(f)
			f.subject.ready(corev1.ConditionFalse)
		},
	}
}
