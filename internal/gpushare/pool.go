package gpushare

import (
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
)

// CurrentSlices returns a pool's current slices, which are the slices with the highest generation.
// The slices of an older generation or an incomplete pool must not be used, because their device
// names may refer to different devices. If slices are missing or contradict each other,
// CurrentSlices returns nil. Like the scheduler, CurrentSlices ignores a pool if the pool's slices
// contain different slice counts or if a device occurs twice.
func CurrentSlices(all []*resourcev1.ResourceSlice) []*resourcev1.ResourceSlice {
	var newest []*resourcev1.ResourceSlice
	for _, s := range all {
		if len(newest) > 0 && s.Spec.Pool.Generation > newest[0].Spec.Pool.Generation {
			newest = nil
		}
		if len(newest) == 0 || s.Spec.Pool.Generation == newest[0].Spec.Pool.Generation {
			newest = append(newest, s)
		}
	}
	seen := map[string]bool{}
	for _, s := range newest {
		if s.Spec.Pool.ResourceSliceCount != int64(len(newest)) {
			return nil
		}
		for i := range s.Spec.Devices {
			name := s.Spec.Devices[i].Name
			if seen[name] {
				return nil
			}
			seen[name] = true
		}
	}
	return newest
}

// ClassOf returns the device class of a request in a claim, or "" if the claim has no such request.
// For a subrequest, the request parameter has the form <request>/<subrequest>.
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
