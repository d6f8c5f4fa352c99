// Package kubetest provides a fake API server for tests of components that use a cache. Tests that
// depend on the API server's behavior use a real API server instead.
package kubetest

import (
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// NewClient returns a fake client that contains the given objects and serves resource.k8s.io/v1.
// The fake client ignores field selectors.
func NewClient(objects ...runtime.Object) *fake.Clientset {
	client := fake.NewClientset(objects...)
	served := &metav1.APIResourceList{GroupVersion: resourcev1.SchemeGroupVersion.String()}
	for _, k := range []kube.Kind{kube.ResourceSlices, kube.ResourceClaims, kube.DeviceClasses, kube.ResourceClaimTemplates, kube.DeviceTaintRules} {
		served.APIResources = append(served.APIResources, metav1.APIResource{Name: k.String()})
	}
	client.Resources = []*metav1.APIResourceList{served}
	return client
}
