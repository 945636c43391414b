package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
	"github.com/slipway-k8s/slipway/launcher/commitments"
	"github.com/slipway-k8s/slipway/plugin/simulate/market"
)

// slipwayNamespace is the usual namespace that slipway runs in.
const slipwayNamespace = "kube-system"

// known reads what the launcher of a cluster plans with beside prices: commitments, and what it learned of interruptions.
type known struct {
	// reader returns a client of the cluster; nil without a cluster.
	reader func() (client.Client, string, error)
	// namespace that slipway runs in.
	namespace string
}

// add adds the ConfigMaps of the launcher where no file was named, with a note for each. One that does not exist or cannot be read is left out.
func (k *known) add(ctx context.Context, to *market.Files) error {
	if k.reader == nil || len(to.Commitments) > 0 && len(to.Interruptions) > 0 {
		return nil
	}
	c, _, err := k.reader()
	if err != nil {
		return err
	}
	if len(to.Commitments) == 0 {
		k.use(ctx, c, "commitments", to, func(object *corev1.ConfigMap) error {
			text := []byte(object.Data[commitments.Key])
			if _, _, err := commitment.Parse(text, to.Now); err != nil {
				return err
			}
			to.Commitments = text
			return nil
		})
	}
	if len(to.Interruptions) == 0 {
		k.use(ctx, c, "interruptions", to, func(object *corev1.ConfigMap) (err error) {
			to.Interruptions, err = yaml.Marshal(&corev1.ConfigMap{Data: object.Data})
			return err
		})
	}
	return nil
}

// use reads one ConfigMap and notes whether it is used.
func (k *known) use(ctx context.Context, c client.Reader, what string, to *market.Files, read func(*corev1.ConfigMap) error) {
	name, object := types.NamespacedName{Namespace: k.namespace, Name: "slipway-" + what}, corev1.ConfigMap{}
	err := c.Get(ctx, name, &object)
	if apierrors.IsNotFound(err) {
		return
	}
	if err == nil {
		err = read(&object)
	}
	note := fmt.Sprintf("%s: those of ConfigMap %s", what, name)
	if err != nil {
		note += fmt.Sprintf(" are left out: %v", err)
	}
	to.Notes = append(to.Notes, note)
}
