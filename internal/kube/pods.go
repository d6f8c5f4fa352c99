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
	// Request is the request that the container uses, or "" if it uses all requests in the claim.
	Request string
}

// Uses reports whether the container uses the devices of a request. The container's spec contains
// the name of the request without the subrequest.
func (c *ContainerClaim) Uses(request string) bool {
	main, _, _ := strings.Cut(request, "/")
	return c.Request == "" || c.Request == main
}

// ContainerClaims returns the ResourceClaims of a pod's containers: claims that the pod references,
// claims from the pod's templates, and claims for its extended resources. It omits init containers
// that are not sidecars; see [isInitOnly].
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

// ClaimNames maps the claim names in the pod's spec to the names of the ResourceClaims.
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
// has ended before the app containers start, and the kubelet does not list it.
func isInitOnly(p *corev1.Pod, container string) bool {
	return slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == container && (c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways)
	})
}

// CutHash returns the name of the object that created a ReplicaSet. The ReplicaSet's name is
// <name>-<hash>, and its pods have the hash as the value of a label.
func CutHash(name, hash string) (string, bool) {
	if hash == "" {
		return "", false
	}
	return strings.CutSuffix(name, "-"+hash)
}
