package sandbox

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

//go:embed addons.yaml
var addons string

// startAddons creates what EKS runs in every cluster, if asked for, and does not wait for its pods.
func (s *Sandbox) startAddons(ctx context.Context) (string, error) {
	if !s.cfg.Addons {
		return "", nil
	}
	for document := range bytes.SplitSeq([]byte(addons), []byte("\n---\n")) {
		var meta metav1.TypeMeta
		if err := yaml.Unmarshal(document, &meta); err != nil {
			return "", err
		}
		var err error
		if meta.Kind == "DaemonSet" {
			err = createDaemonSet(ctx, s.client, document)
		} else {
			err = createDeployment(ctx, s.client, document)
		}
		if err != nil {
			return "", fmt.Errorf("creating %s: %w", meta.Kind, err)
		}
	}
	return "aws-node and kube-proxy on every node, coredns", nil
}

func createDaemonSet(ctx context.Context, client kubernetes.Interface, document []byte) error {
	var set appsv1.DaemonSet
	if err := yaml.UnmarshalStrict(document, &set); err != nil {
		return err
	}
	_, err := client.AppsV1().DaemonSets(set.Namespace).Create(ctx, &set, metav1.CreateOptions{})
	return err
}

func createDeployment(ctx context.Context, client kubernetes.Interface, document []byte) error {
	var deployment appsv1.Deployment
	if err := yaml.UnmarshalStrict(document, &deployment); err != nil {
		return err
	}
	_, err := client.AppsV1().Deployments(deployment.Namespace).Create(ctx, &deployment, metav1.CreateOptions{})
	return err
}
