package variants_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
)

// A cluster whose Services, pods and nodes have IPv6 addresses: pods get nodes that join with the IPv6 address of their instance, and with the
// address of the cluster's DNS, which is not the usual one here. A class of Windows is refused, and disturbs no other.
func TestIPv6Cluster(t *testing.T) {
	const dns = "fd30:1c53:5f8a::35"
	l := newLab(t, sandbox.Config{IPFamily: sandbox.IPv6})
	windows := sandbox.NodeClass("windows")
	windows.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "windows2022@latest"}}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns"}, Spec: corev1.ServiceSpec{
		ClusterIP: dns, Ports: []corev1.ServicePort{{Port: 53, Protocol: corev1.ProtocolUDP}},
	}}
	l.Create(windows, service)
	// The launcher that started without the Service reads it again in a minute.
	l.kill(sandbox.Launcher)
	l.deployment("web", 2, "1300m", nil)
	l.awaitRunning("web", 2)

	for _, p := range l.pods("web") {
		if !isIPv6(p.Object.Status.PodIP) || !isIPv6(p.Object.Status.HostIP) {
			t.Errorf("pod %s has the address %s on host %s", p.Object.Name, p.Object.Status.PodIP, p.Object.Status.HostIP)
		}
	}
	instances := l.AWS().Instances()
	for _, claim := range l.claims() {
		l.joinedWithIPv6(claim.Object.Status.NodeName, dns, instances)
	}
	l.Await("the class of Windows to be refused", func() bool {
		if err := l.API.Get(t.Context(), client.ObjectKeyFromObject(windows), windows); err != nil {
			t.Fatal(err)
		}
		c := windows.StatusConditions().Get(awsv1.ConditionTypeValidationSucceeded)
		return c.IsFalse() && c.Reason == "NotSupported" && strings.Contains(c.Message, "AMI family Windows2022")
	})
	l.logsLack(" is forbidden: User ")
}

// joinedWithIPv6 holds that the Node has the IPv6 address of its instance, which knows the cluster's DNS.
func (l *lab) joinedWithIPv6(name, dns string, instances []aws.Instance) {
	l.t.Helper()
	i := slices.IndexFunc(instances, func(i aws.Instance) bool { return i.PrivateDNSName == name })
	if i < 0 {
		l.t.Fatalf("Node %q has no instance", name)
	}
	var node corev1.Node
	if err := l.API.Get(l.t.Context(), client.ObjectKey{Name: name}, &node); err != nil {
		l.t.Fatal(err)
	}
	var internal []string
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			internal = append(internal, a.Address)
		}
	}
	if !slices.Equal(internal, []string{instances[i].IPv6}) || !isIPv6(instances[i].IPv6) {
		l.t.Errorf("Node %s has the addresses %v, and its instance %q", name, node.Status.Addresses, instances[i].IPv6)
	}
	for _, want := range []string{dns, "cidr: fd30:1c53:5f8a::/108"} {
		if !strings.Contains(instances[i].UserData, want) {
			l.t.Errorf("user data of %s lacks %s:\n%s", name, want, instances[i].UserData)
		}
	}
}

func isIPv6(text string) bool {
	ip, err := netip.ParseAddr(text)
	return err == nil && ip.Is6()
}
