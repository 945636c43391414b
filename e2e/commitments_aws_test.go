package e2e_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/aws/policy"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/manifests"
)

// allow lets the launcher do what the policy says beside the shipped one, until the test ends.
func (w *world) allow(read func() ([]byte, error)) {
	w.t.Helper()
	shipped, err := sandbox.LauncherPolicy()
	if err != nil {
		w.t.Fatal(err)
	}
	document, err := read()
	if err != nil {
		w.t.Fatal(err)
	}
	more, err := policy.Parse(document)
	if err != nil {
		w.t.Fatal(err)
	}
	both := shipped.With(more)
	shared.AWS().SetPolicy(sandbox.LauncherAccessKey, &both)
	w.t.Cleanup(func() { shared.AWS().SetPolicy(sandbox.LauncherAccessKey, &shipped) })
}

// simulatesHalf checks that a simulation knows half of the account's commitments: of a plan 0.16 USD per hour.
func (w *world) simulatesHalf(plan, reserved string) {
	w.t.Helper()
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": shared.AWSEndpoint(), "AWS_REGION": w.AWSRegion(), "AWS_ACCESS_KEY_ID": "somebody", "AWS_SECRET_ACCESS_KEY": "secret",
	} {
		w.t.Setenv(name, value)
	}
	text := w.slipway("simulate", "--from-cluster", "--aws", "--commitments-from-aws", "--commitment-share", "0.5", "-o", "json")
	if !strings.Contains(text, plan) || !strings.Contains(text, `"amount": 0.16`) || !strings.Contains(text, reserved) {
		w.t.Errorf("simulate does not know half of what AWS has:\n%s", text)
	}
}

// A Savings Plan and Reserved Instances of the account are read from AWS with the rights of the shipped policy, and their nodes are bought on demand
// before spot ones, each as far as this cluster's share of it goes. The ConfigMap's entry of the same ID is used in place of AWS's. Without the rights, an Event says so.
func TestCommitmentsFromAWSAlone(t *testing.T) {
	awaitReady(t)
	w := newWorld(t, "commitments-aws")
	account := shared.AWS().Commitments
	ends := time.Now().Add(24 * time.Hour)
	// m6i.large costs 0.096 on demand, and 0.072 under the plan: the cluster's half of it pays for two, that of the Reserved Instances for one.
	plan := account.AddSavingsPlan(aws.SavingsPlan{Family: "m6i", USDPerHour: 0.32, Discount: 0.25, Ends: ends})
	reserved := account.AddReservedInstances(aws.ReservedInstances{InstanceType: "m6i.large", Count: 2, Zone: "us-east-1a", Ends: ends})
	account.AddSavingsPlan(aws.SavingsPlan{USDPerHour: 5, Discount: 0.25, Ends: time.Now().Add(-time.Hour)})
	account.AddReservedInstances(aws.ReservedInstances{InstanceType: "m6i.large", Count: 5, Product: "Windows", Ends: ends})
	defer func() {
		account.Clear()
		if err := client.IgnoreNotFound(w.client.Delete(t.Context(), commitmentsConfigMap(""))); err != nil {
			t.Error(err)
		}
	}()

	settings := append(launcherSettings(featureGates), "commitmentsFromAWS: true\ncommitmentShare: 0.5\n"...)
	w.restartWith(settings)
	w.await(t, "the missing right to be reported", func() bool {
		return w.told("CommitmentsUnreadable", "AWS: describing Savings Plans: ") && w.gauge("slipway_commitments_aws_unreadable") == 1
	})
	w.allow(manifests.CommitmentsPolicy)
	w.restartWith(settings)
	awaitReady(t) // Before that it serves no metrics.
	w.await(t, "the launcher to read the commitments", func() bool { return w.left(plan) == 0.16 && w.left(reserved) == 1 })
	if got := len(w.launcherMetrics()["slipway_commitment_left"].GetMetric()); got != 2 || w.gauge("slipway_commitments_aws_unreadable") != 0 {
		t.Errorf("%d commitments, want those that are active and for Linux", got)
	}
	w.await(t, "them to be kept for a restart", func() bool {
		key := client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "slipway-account-commitments"}
		return w.client.Get(t.Context(), key, &corev1.ConfigMap{}) == nil
	})

	w.pool(w.name, func(p *karpv1.NodePool) { onlyTypes(p, "m6i.large") })
	w.deployment("web", 4, w.podSpec("1200m", "1Gi", nil))
	w.awaitRunning(4)
	if got := w.bought(); got["on-demand "+plan] != 2 || got["on-demand "+reserved] != 1 || got["spot"] != 1 {
		t.Errorf("bought %v, want 2 nodes of plan %s, 1 of Reserved Instances %s and 1 spot node", got, plan, reserved)
	}
	if text := w.slipway("status", "-o", "wide"); strings.Count(text, "on-demand ("+plan+")") != 2 {
		t.Errorf("status does not show the plan of 2 nodes:\n%s", text)
	}
	w.await(t, "the metric to show what is left", func() bool { left := w.left(plan); return left > 0.0159 && left < 0.0161 && w.left(reserved) == 0 })

	w.await(t, "status to show the share and the use", func() bool {
		text := strings.Join(strings.Fields(w.slipway("status", "-o", "wide")), " ")
		return strings.Contains(text, plan+" EC2InstanceSavingsPlan 50% 0.16 USD/h 90%") && strings.Contains(text, reserved+" ReservedInstances 50% 1 instances 100%")
	})

	w.simulatesHalf(plan, reserved)

	w.commit("- {id: " + plan + ", kind: EC2InstanceSavingsPlan, family: m6i, usdPerHour: 0.64, discountPercent: 25}\n")
	w.await(t, "the ConfigMap's entry to be used", func() bool { left := w.left(plan); return left > 0.1759 && left < 0.1761 && w.left(reserved) == 0 })
}
