package kube

import (
	"encoding/json"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The JSON format is the same in all versions of resource.k8s.io, with two exceptions in v1beta1.
// In v1beta1, a device's attributes are inside a "basic" field, and a request's fields are directly
// in the request, whereas later versions have them inside an "exactly" field.

// objectPointer is a pointer to type T that implements runtime.Object.
type objectPointer[T any] interface {
	*T
	runtime.Object
}

// convertJSON converts an object to type T. The object's type and T must have the same JSON format.
func convertJSON[T any, P objectPointer[T]](from runtime.Object) (runtime.Object, error) {
	to := P(new(T))
	if err := copyJSON(from, to); err != nil {
		return nil, err
	}
	// Clear the GroupVersionKind, as typed clients do.
	to.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return to, nil
}

func copyJSON(from, to any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}

// convertWithMoves returns a function that first calls convertJSON and then calls the move
// function, which copies the fields that have a different path in the JSON format of type Old.
func convertWithMoves[Old, T any, P objectPointer[T]](move func(from *Old, to P) error) func(runtime.Object) (runtime.Object, error) {
	return func(from runtime.Object) (runtime.Object, error) {
		converted, err := convertJSON[T, P](from)
		if err != nil {
			return nil, err
		}
		old, known := any(from).(*Old)
		to, ok := converted.(P)
		if !known || !ok {
			return nil, fmt.Errorf("a %T where a %T was expected", from, old)
		}
		return to, move(old, to)
	}
}

func moveDevices(from *resourcev1beta1.ResourceSlice, to *resourcev1.ResourceSlice) error {
	for i := range from.Spec.Devices {
		if basic := from.Spec.Devices[i].Basic; basic != nil {
			if err := copyJSON(basic, &to.Spec.Devices[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func moveClaimRequests(from *resourcev1beta1.ResourceClaim, to *resourcev1.ResourceClaim) error {
	return moveRequests(from.Spec.Devices.Requests, to.Spec.Devices.Requests)
}

func moveTemplateRequests(from *resourcev1beta1.ResourceClaimTemplate, to *resourcev1.ResourceClaimTemplate) error {
	return moveRequests(from.Spec.Spec.Devices.Requests, to.Spec.Spec.Devices.Requests)
}

// moveRequests copies the fields of v1beta1 requests that have a different path in v1. If a request
// consists of alternatives, the request itself does not contain the fields that moveRequests
// copies.
func moveRequests(from []resourcev1beta1.DeviceRequest, to []resourcev1.DeviceRequest) error {
	for i := range from {
		if len(from[i].FirstAvailable) > 0 {
			continue
		}
		to[i].Exactly = &resourcev1.ExactDeviceRequest{}
		if err := copyJSON(&from[i], to[i].Exactly); err != nil {
			return err
		}
	}
	return nil
}
