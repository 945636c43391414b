package index_test

import (
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/slipway-k8s/slipway/launcher/index"
)

// An API server without ResourceSlices of version 1, such as that of Kubernetes 1.33, is no error.
func TestDevicesServed(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	if served, err := index.DevicesServed(mapper); served || err != nil {
		t.Errorf("without ResourceSlices: %t, %v", served, err)
	}
	mapper.Add(resourcev1.SchemeGroupVersion.WithKind("ResourceSlice"), meta.RESTScopeRoot)
	if served, err := index.DevicesServed(mapper); !served || err != nil {
		t.Errorf("with ResourceSlices: %t, %v", served, err)
	}
}
