package gpushare

import (
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
)

// WholePool returns the slices of a pool that count, of all that there are: those of its highest
// generation. In a lower one, and in half a pool, a name can mean another device by now. It returns
// nil where slices are missing or contradict each other: the scheduler uses no pool whose slices
// differ in how many they are, or name a device twice.
func WholePool(all []*resourcev1.ResourceSlice) []*resourcev1.ResourceSlice {
	var newest []*resourcev1.ResourceSlice
	for _, s := range all {
		if len(newest) > 0 && s.Spec.Pool.Generation > newest[0].Spec.Pool.Generation {
			newest = nil
		}
		if len(newest) == 0 || s.Spec.Pool.Generation == newest[0].Spec.Pool.Generation {
			newest = append(newest, s)
		}
	}
	named := map[string]bool{}
	for _, s := range newest {
		if s.Spec.Pool.ResourceSliceCount != int64(len(newest)) {
			return nil
		}
		for i := range s.Spec.Devices {
			name := s.Spec.Devices[i].Name
			if named[name] {
				return nil
			}
			named[name] = true
		}
	}
	return newest
}

// ClassOf returns the class of a request of a claim, a subrequest being <request>/<subrequest>; empty
// when the claim has no such request.
func ClassOf(c *resourcev1.ResourceClaim, request string) string {
	request, sub, _ := strings.Cut(request, "/")
	for _, r := range c.Spec.Devices.Requests {
		if r.Name != request {
			continue
		}
		if r.Exactly != nil && sub == "" {
			return r.Exactly.DeviceClassName
		}
		for _, s := range r.FirstAvailable {
			if s.Name == sub {
				return s.DeviceClassName
			}
		}
	}
	return ""
}
