package kube

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
)

// ContainerClaim is a container's reference to a ResourceClaim.
type ContainerClaim struct {
	Container, Claim string
	// Request is the name of the request in the claim that the container uses, or "" if the
	// container uses all requests.
	Request string
}

// Uses reports whether the container uses the devices that are allocated for a request. The request
// parameter may include the name of a subrequest, which c.Request does not include.
func (c *ContainerClaim) Uses(request string) bool {
	main, _, _ := strings.Cut(request, "/")
	return c.Request == "" || c.Request == main
}

// ContainerClaims returns the ResourceClaims that a pod's containers use: claims that the pod
// references, claims that were created from the pod's templates, and the claim for the pod's
// extended resources. ContainerClaims omits init containers that are not sidecars; see
// [isInitOnly].
func ContainerClaims(p *corev1.Pod) []ContainerClaim {
	var claims []ContainerClaim
	add := func(c ContainerClaim) {
		if c.Claim != "" && !isInitOnly(p, c.Container) {
			claims = append(claims, c)
		}
	}
	names := ClaimNames(p)
	for _, container := range gpushare.Containers(p) {
		for _, c := range container.Resources.Claims {
			add(ContainerClaim{container.Name, names[c.Name], c.Request})
		}
	}
	if e := p.Status.ExtendedResourceClaimStatus; e != nil {
		for _, m := range e.RequestMappings {
			add(ContainerClaim{m.ContainerName, e.ResourceClaimName, m.RequestName})
		}
	}
	return claims
}

// ClaimNames returns a map from the claim names in the pod's spec to the names of the
// ResourceClaims.
func ClaimNames(p *corev1.Pod) map[string]string {
	names := map[string]string{}
	for _, c := range p.Spec.ResourceClaims {
		if c.ResourceClaimName != nil {
			names[c.Name] = *c.ResourceClaimName
		}
	}
	for _, c := range p.Status.ResourceClaimStatuses {
		if c.ResourceClaimName != nil {
			names[c.Name] = *c.ResourceClaimName
		}
	}
	return names
}

// isInitOnly reports whether a container is an init container but not a sidecar. Such a container
// ends before the app containers start, and the kubelet does not list its resources.
func isInitOnly(p *corev1.Pod, container string) bool {
	return slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == container && (c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways)
	})
}

// CutHash returns the name of the object that created a ReplicaSet, such as a Deployment. The
// ReplicaSet's name is <name>-<hash>. A label on the ReplicaSet's pods contains the hash.
func CutHash(name, hash string) (string, bool) {
	if hash == "" {
		return "", false
	}
	return strings.CutSuffix(name, "-"+hash)
}
