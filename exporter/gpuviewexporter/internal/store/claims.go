package store

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// claimKey identifies a combination of a ResourceClaim, a device that is allocated to the claim,
// and a pod that the claim is reserved for.
type claimKey struct{ cluster, claimUID, podUID, deviceID, migUUID string }

// Claim is a ResourceClaim that is reserved for a pod.
type Claim struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Class     string `json:"class,omitempty"`
	Pod       string `json:"pod"`
}

// claimState contains a claim and, if known, the node of the claim's device.
type claimState struct {
	Claim
	node string
	at   int64
}

// classKey identifies a DeviceClass.
type classKey struct{ cluster, class string }

// addClaim stores a device that is allocated to a claim. All claims that gpu_cluster sends at once
// have the same timestamp. A claim with an older timestamp no longer exists.
func (b *Batch) addClaim(place *Place, id string, d *Description, hold *Hold, p *Point) Outcome {
	if id == "" && d.MIGUUID == "" || hold.Claim == "" {
		return Ignored // The point does not identify the device or the claim.
	}
	key := claimKey{place.Cluster, p.Attribute, place.PodUID, id, d.MIGUUID}
	c := b.s.claims[key]
	if c == nil {
		if len(b.s.claims) >= maxClaims {
			return b.refuse(claimLimit)
		}
		c = &claimState{
			Claim: Claim{strings.Clone(place.Namespace), strings.Clone(hold.Claim), strings.Clone(hold.Class), strings.Clone(place.Pod)},
			node:  strings.Clone(place.Node),
		}
		b.s.claims[claimKey{strings.Clone(key.cluster), strings.Clone(key.claimUID), strings.Clone(key.podUID), strings.Clone(id), strings.Clone(d.MIGUUID)}] = c
	}
	c.at = max(c.at, p.End)
	b.s.setClaimsAt(place.Cluster, p.End)
	return Accepted
}

// addClaimCount stores the number of unreserved claims of a DeviceClass.
func (b *Batch) addClaimCount(cluster string, p *Point) Outcome {
	if p.Attribute == "" || p.State != unreservedState {
		return Ignored
	}
	key := classKey{cluster, p.Attribute}
	r := b.s.unreserved[key]
	if r == nil {
		if len(b.s.unreserved) >= maxResources {
			return b.refuse(resourceLimit)
		}
		r = &Reading{}
		b.s.unreserved[classKey{strings.Clone(cluster), strings.Clone(p.Attribute)}] = r
	}
	if p.End >= r.at {
		*r = Reading{p.End, p.Value}
	}
	b.s.setClaimsAt(cluster, p.End)
	return Accepted
}

// unreservedState is the state of unreserved claims, which have devices but are not reserved for
// any pod.
const unreservedState = "allocated"

func (s *Store) setClaimsAt(cluster string, at int64) {
	if at > s.claimsAt[cluster] {
		s.claimsAt[strings.Clone(cluster)] = at
	}
}

// sweepClaims deletes the claims that no longer exist.
func (s *Store) sweepClaims(oldest int64) {
	maps.DeleteFunc(s.claims, func(key claimKey, c *claimState) bool { return c.at < s.claimsAt[key.cluster] || c.at <= oldest })
	maps.DeleteFunc(s.unreserved, func(key classKey, r *Reading) bool { return r.at < s.claimsAt[key.cluster] || r.at <= oldest })
	maps.DeleteFunc(s.claimsAt, func(_ string, at int64) bool { return at <= oldest })
}

// forgetClaims deletes all claims of a cluster.
func (s *Store) forgetClaims(cluster string) {
	maps.DeleteFunc(s.claims, func(key claimKey, _ *claimState) bool { return key.cluster == cluster })
	maps.DeleteFunc(s.unreserved, func(key classKey, _ *Reading) bool { return key.cluster == cluster })
	delete(s.claimsAt, cluster)
}

// isCurrent reports whether a timestamp is recent and equal to the timestamp of the cluster's
// newest list of claims.
func (v *View) isCurrent(cluster string, at int64) bool {
	_, ok := v.fresh(Reading{at: at})
	return ok && at == v.s.claimsAt[cluster]
}

// Claims returns the reserved claims that the device is allocated to, sorted by name. If the
// cluster or node of a claim is unknown, only the ID of the device must match.
func (v *View) Claims(d *Device) []Claim {
	if v.claims == nil {
		v.claims = map[string][]placedClaim{}
		for key, c := range v.s.claims {
			if v.isCurrent(key.cluster, c.at) {
				of := cmp.Or(key.deviceID, key.migUUID)
				v.claims[of] = append(v.claims[of], placedClaim{key.cluster, c})
			}
		}
	}
	var out []Claim
	for _, id := range []string{d.ID, d.MIGUUID} {
		if id == "" {
			continue
		}
		for _, c := range v.claims[id] {
			if (c.cluster == "" || c.cluster == d.Cluster) && (c.node == "" || c.node == d.Node) {
				out = append(out, c.Claim)
			}
		}
	}
	slices.SortFunc(out, func(a, b Claim) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Pod, b.Pod))
	})
	return slices.Compact(out)
}

// placedClaim contains a claim and the cluster that the claim belongs to.
type placedClaim struct {
	cluster string
	*claimState
}

// UnreservedClaims contains the number of unreserved claims of a DeviceClass. An unreserved claim
// has devices but is not reserved for any pod.
type UnreservedClaims struct {
	Cluster string `json:"cluster,omitempty"`
	Class   string `json:"class"`
	Count   int    `json:"count"`
}

// UnreservedClaims returns the number of unreserved claims for each DeviceClass, sorted by cluster
// and class name.
func (v *View) UnreservedClaims() []UnreservedClaims {
	out := []UnreservedClaims{}
	for key, r := range v.s.unreserved {
		if v.isCurrent(key.cluster, r.at) && r.value > 0 {
			out = append(out, UnreservedClaims{key.cluster, key.class, int(r.value)})
		}
	}
	slices.SortFunc(out, func(a, b UnreservedClaims) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Class, b.Class))
	})
	return out
}
