package kube

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

func TestContainerClaims(t *testing.T) {
	var pod corev1.Pod
	require.NoError(t, yaml.UnmarshalStrict([]byte(`
spec:
  resourceClaims:
  - {name: named, resourceClaimName: one}
  - {name: made, resourceClaimTemplateName: t}
  - {name: not-made-yet, resourceClaimTemplateName: t}
  initContainers:
  - {name: setup, resources: {claims: [{name: named}]}}
  - {name: sidecar, restartPolicy: Always, resources: {claims: [{name: named}]}}
  containers:
  - {name: main, resources: {claims: [{name: named}, {name: made, request: small}, {name: not-made-yet}, {name: unknown}]}}
  - {name: other}
status:
  resourceClaimStatuses: [{name: made, resourceClaimName: p-made-x}, {name: not-made-yet}]
  extendedResourceClaimStatus:
    resourceClaimName: p-extended-y
    requestMappings:
    - {containerName: setup, requestName: request-0, resourceName: nvidia.com/gpu}
    - {containerName: other, requestName: request-1, resourceName: nvidia.com/gpu}
`), &pod))
	assert.Equal(t, []ContainerClaim{
		{"sidecar", "one", ""},
		{"main", "one", ""},
		{"main", "p-made-x", "small"},
		{"other", "p-extended-y", "request-1"},
	}, ContainerClaims(&pod))
}

func TestAContainerUsesTheSubrequestsOfItsRequest(t *testing.T) {
	for _, tc := range []struct {
		names, request string
		uses           bool
	}{
		{"", "gpu", true},
		{"", "gpu/small", true},
		{"gpu", "gpu", true},
		{"gpu", "gpu/small", true},
		{"gpu", "gpu2", false},
		{"gpu", "other/gpu", false},
	} {
		c := ContainerClaim{Request: tc.names}
		assert.Equal(t, tc.uses, c.Uses(tc.request), "request %q, container's request %q", tc.request, tc.names)
	}
}
