package kubetest

import (
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// VersionLeases makes the fake client reject conflicting updates to Leases, as an API server does.
// An update is rejected unless it contains the Lease's current resource version.
func VersionLeases(client *fake.Clientset) {
	resource := coordinationv1.SchemeGroupVersion.WithResource("leases")
	tracker := client.Tracker()
	// No lock is needed, because the client runs one reactor at a time.
	client.PrependReactor("create", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		l := action.(clienttesting.CreateAction).GetObject().(*coordinationv1.Lease).DeepCopy() //nolint:forcetypeassert // the reactor is called only for this verb on Leases
		l.ResourceVersion = "1"
		err := tracker.Create(resource, l, l.Namespace)
		return true, l, err
	})
	client.PrependReactor("update", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		l := action.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease).DeepCopy() //nolint:forcetypeassert // the reactor is called only for this verb on Leases
		stored, err := tracker.Get(resource, l.Namespace, l.Name)
		if err != nil {
			return true, nil, err
		}
		has := stored.(*coordinationv1.Lease).ResourceVersion //nolint:forcetypeassert // this resource contains only Leases
		if l.ResourceVersion != has {
			return true, nil, apierrors.NewConflict(resource.GroupResource(), l.Name, nil)
		}
		version, err := strconv.Atoi(has)
		if err != nil {
			return true, nil, err
		}
		l.ResourceVersion = strconv.Itoa(version + 1)
		err = tracker.Update(resource, l, l.Namespace)
		return true, l, err
	})
}
