package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
)

var errNotServed = errors.New("the API server serves no supported version of the API")

// A source lists and watches the objects of one kind. A source uses the newest API version that
// both the server and this package support.
type source struct {
	kind      Kind
	example   runtime.Object // an empty object, which informers require
	discovery discovery.DiscoveryInterfaceWithContext
	versions  []apiVersion // in order of preference
	restrict  func(*metav1.ListOptions)
}

// apiVersion describes how to read objects of a kind in one version of its API group.
type apiVersion struct {
	groupVersion string // "" if the server always serves the version, so that discovery is not needed
	list         func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch        func(context.Context, metav1.ListOptions) (watch.Interface, error)
	convert      func(runtime.Object) (runtime.Object, error) // converts an object to v1; nil if no conversion is needed
}

// typedClient has the methods that the typed clients of all kinds share.
type typedClient[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

func newVersion[L runtime.Object](
	groupVersion string,
	client typedClient[L],
	convert func(runtime.Object) (runtime.Object, error),
) apiVersion {
	return apiVersion{
		groupVersion: groupVersion,
		list: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, options)
		},
		watch:   client.Watch,
		convert: convert,
	}
}

func newSource(client kubernetes.Interface, o Options, k Kind) source {
	s := source{kind: k, discovery: client.Discovery()}
	v1, v1beta2, v1beta1 := client.ResourceV1(), client.ResourceV1beta2(), client.ResourceV1beta1()
	gv1, gv1beta2, gv1beta1 := resourcev1.SchemeGroupVersion.String(),
		resourcev1beta2.SchemeGroupVersion.String(), resourcev1beta1.SchemeGroupVersion.String()
	field, label := "", ""
	switch k {
	case Pods:
		s.example = &corev1.Pod{}
		s.versions = []apiVersion{newVersion("", client.CoreV1().Pods(o.Namespace), nil)}
		field, label = "spec.nodeName", o.LabelSelector
	case Nodes:
		s.example = &corev1.Node{}
		s.versions = []apiVersion{newVersion("", client.CoreV1().Nodes(), nil)}
		field = "metadata.name"
	case ResourceSlices:
		s.example = &resourcev1.ResourceSlice{}
		s.versions = []apiVersion{
			newVersion(gv1, v1.ResourceSlices(), nil),
			newVersion(gv1beta2, v1beta2.ResourceSlices(), convertJSON[resourcev1.ResourceSlice]),
			newVersion(gv1beta1, v1beta1.ResourceSlices(), convertWithMoves(moveDevices)),
		}
		field = "spec.nodeName"
	case ResourceClaims:
		s.example = &resourcev1.ResourceClaim{}
		s.versions = []apiVersion{
			newVersion(gv1, v1.ResourceClaims(o.Namespace), nil),
			newVersion(gv1beta2, v1beta2.ResourceClaims(o.Namespace), convertJSON[resourcev1.ResourceClaim]),
			newVersion(gv1beta1, v1beta1.ResourceClaims(o.Namespace), convertWithMoves(moveClaimRequests)),
		}
	case DeviceClasses:
		s.example = &resourcev1.DeviceClass{}
		s.versions = []apiVersion{
			newVersion(gv1, v1.DeviceClasses(), nil),
			newVersion(gv1beta2, v1beta2.DeviceClasses(), convertJSON[resourcev1.DeviceClass]),
			newVersion(gv1beta1, v1beta1.DeviceClasses(), convertJSON[resourcev1.DeviceClass]),
		}
	case Jobs:
		s.example = &batchv1.Job{}
		s.versions = []apiVersion{newVersion("", client.BatchV1().Jobs(o.Namespace), nil)}
	case ResourceClaimTemplates:
		s.example = &resourcev1.ResourceClaimTemplate{}
		s.versions = []apiVersion{
			newVersion(gv1, v1.ResourceClaimTemplates(o.Namespace), nil),
			newVersion(gv1beta2, v1beta2.ResourceClaimTemplates(o.Namespace), convertJSON[resourcev1.ResourceClaimTemplate]),
			newVersion(gv1beta1, v1beta1.ResourceClaimTemplates(o.Namespace), convertWithMoves(moveTemplateRequests)),
		}
	case DeviceTaintRules:
		s.example = &resourcev1.DeviceTaintRule{}
		// v1alpha3 is not supported, because rules in v1alpha3 can contain selectors that do not
		// exist in later versions. Without those selectors, a rule would select too many devices.
		s.versions = []apiVersion{
			newVersion(gv1, v1.DeviceTaintRules(), nil),
			newVersion(gv1beta2, v1beta2.DeviceTaintRules(), convertJSON[resourcev1.DeviceTaintRule]),
		}
	}
	s.restrict = func(options *metav1.ListOptions) {
		options.LabelSelector = label
		if o.NodeName != "" && field != "" {
			options.FieldSelector = fields.OneTermEqualSelector(field, o.NodeName).String()
		}
	}
	return s
}

// servedVersion returns the first version in the list that the server serves. Unless the server
// always serves the first version, each call sends a discovery request, because an upgraded server
// may serve different versions.
func (s *source) servedVersion(ctx context.Context) (apiVersion, error) {
	for _, v := range s.versions {
		if v.groupVersion == "" {
			return v, nil
		}
		resources, err := s.discovery.ServerResourcesForGroupVersionWithContext(ctx, v.groupVersion)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case apierrors.IsForbidden(err):
			// By default, all users may use discovery, but an administrator may have revoked the
			// permission.
			return v, nil
		case err != nil:
			return apiVersion{}, err
		}
		for _, r := range resources.APIResources {
			if r.Name == s.kind.String() {
				return v, nil
			}
		}
	}
	return apiVersion{}, fmt.Errorf("%s: %w", s.kind, errNotServed)
}

func (s *source) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	v, err := s.servedVersion(ctx)
	if err != nil {
		return nil, err
	}
	s.restrict(&options)
	objects, err := v.list(ctx, options)
	if err != nil || v.convert == nil {
		return objects, err
	}
	return convertList(objects, v.convert)
}

func (s *source) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	v, err := s.servedVersion(ctx)
	if err != nil {
		return nil, err
	}
	s.restrict(&options)
	w, err := v.watch(ctx, options)
	if err != nil || v.convert == nil {
		return w, err
	}
	return convertWatch(w, v.convert), nil
}

// converter reads the events of a watch and converts the objects in them.
type converter struct {
	from    watch.Interface
	convert func(runtime.Object) (runtime.Object, error)
}

func convertWatch(from watch.Interface, convert func(runtime.Object) (runtime.Object, error)) watch.Interface {
	return watch.NewStreamWatcher(converter{from, convert}, apierrors.NewClientErrorReporter(http.StatusInternalServerError, "watch", "Conversion"))
}

// Decode implements [watch.Decoder].
func (c converter) Decode() (watch.EventType, runtime.Object, error) {
	e, open := <-c.from.ResultChan()
	switch {
	case !open:
		return "", nil, io.EOF
	case e.Type == watch.Error: // the object is a Status, which must not be converted
		return e.Type, e.Object, nil
	}
	object, err := c.convert(e.Object)
	return e.Type, object, err
}

// Close implements [watch.Decoder].
func (c converter) Close() { c.from.Stop() }

// convertList converts the items of a list and keeps the list's metadata.
func convertList(objects runtime.Object, convert func(runtime.Object) (runtime.Object, error)) (runtime.Object, error) {
	from, err := meta.ListAccessor(objects)
	if err != nil {
		return nil, err
	}
	to := &metav1.List{ListMeta: metav1.ListMeta{
		ResourceVersion:    from.GetResourceVersion(),
		Continue:           from.GetContinue(),
		RemainingItemCount: from.GetRemainingItemCount(),
	}}
	err = meta.EachListItem(objects, func(object runtime.Object) error {
		converted, err := convert(object)
		to.Items = append(to.Items, runtime.RawExtension{Object: converted})
		return err
	})
	if err != nil {
		return nil, err
	}
	return to, nil
}
