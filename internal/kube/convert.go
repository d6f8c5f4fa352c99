package kube

import (
	"encoding/json"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The versions of resource.k8s.io have the same JSON, except for v1beta1: there the attributes
// of a device are in a field basic, and those of a request are in the request itself instead of
// in a field exactly.

// object is a pointer to an API object's type.
type object[T any] interface {
	*T
	runtime.Object
}

// convertJSON converts an object to one of type T with the same JSON.
func convertJSON[T any, P object[T]](from runtime.Object) (runtime.Object, error) {
	to := P(new(T))
	if err := viaJSON(from, to); err != nil {
		return nil, err
	}
	// As a typed client leaves it.
	to.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return to, nil
}

func viaJSON(from, to any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}

func convertSliceV1beta1(from runtime.Object) (runtime.Object, error) {
	old, ok := from.(*resourcev1beta1.ResourceSlice)
	if !ok {
		return nil, fmt.Errorf("a %T where a ResourceSlice of v1beta1 was expected", from)
	}
	converted, err := convertJSON[resourcev1.ResourceSlice](old)
	if err != nil {
		return nil, err
	}
	slice := converted.(*resourcev1.ResourceSlice) //nolint:forcetypeassert // convertJSON returns this type.
	for i := range old.Spec.Devices {
		if basic := old.Spec.Devices[i].Basic; basic != nil {
			if err := viaJSON(basic, &slice.Spec.Devices[i]); err != nil {
				return nil, err
			}
		}
	}
	return slice, nil
}

func convertClaimV1beta1(from runtime.Object) (runtime.Object, error) {
	old, ok := from.(*resourcev1beta1.ResourceClaim)
	if !ok {
		return nil, fmt.Errorf("a %T where a ResourceClaim of v1beta1 was expected", from)
	}
	converted, err := convertJSON[resourcev1.ResourceClaim](old)
	if err != nil {
		return nil, err
	}
	claim := converted.(*resourcev1.ResourceClaim) //nolint:forcetypeassert // convertJSON returns this type.
	return claim, convertRequestsV1beta1(old.Spec.Devices.Requests, claim.Spec.Devices.Requests)
}

func convertTemplateV1beta1(from runtime.Object) (runtime.Object, error) {
	old, ok := from.(*resourcev1beta1.ResourceClaimTemplate)
	if !ok {
		return nil, fmt.Errorf("a %T where a ResourceClaimTemplate of v1beta1 was expected", from)
	}
	converted, err := convertJSON[resourcev1.ResourceClaimTemplate](old)
	if err != nil {
		return nil, err
	}
	template := converted.(*resourcev1.ResourceClaimTemplate) //nolint:forcetypeassert // convertJSON returns this type.
	return template, convertRequestsV1beta1(old.Spec.Spec.Devices.Requests, template.Spec.Spec.Devices.Requests)
}

// convertRequestsV1beta1 fills in what the JSON of a v1beta1 request has in
// another place. A request with alternatives asks for nothing itself.
func convertRequestsV1beta1(from []resourcev1beta1.DeviceRequest, to []resourcev1.DeviceRequest) error {
	for i := range from {
		if len(from[i].FirstAvailable) > 0 {
			continue
		}
		to[i].Exactly = &resourcev1.ExactDeviceRequest{}
		if err := viaJSON(&from[i], to[i].Exactly); err != nil {
			return err
		}
	}
	return nil
}
