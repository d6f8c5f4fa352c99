// Package cluster has the watchdog's requests to the API server: its permissions, the state of a
// pod, the eviction and the Event about it.
package cluster

import (
	"context"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/utils/ptr"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/decide"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// ProtectedLabel on a pod, with any value, keeps it from being evicted.
const ProtectedLabel = "otelcol-gpu/protected"

// CallTimeout bounds one request to the API server.
const CallTimeout = 10 * time.Second

// eventSource is the component that Events come from.
const eventSource = "otelcol-gpu-watchdog"

// Options say what is to be done.
type Options struct {
	// DryRun says that nothing will be done.
	DryRun bool
	// Delete pods instead of evicting them.
	Delete bool
	// Budgets configures where to find a pod's budgets.
	Budgets gpushare.BudgetOptions
}

// Cluster speaks to the API server. It reads pods when they are about to be judged,
// by name: a cache of all of them would be older, and need the permission to list.
type Cluster struct {
	client  kubernetes.Interface
	options Options

	// Evict posts an eviction once. It is a field for tests with a fake client,
	// which cannot take what it posts.
	Evict func(ctx context.Context, e *policyv1.Eviction) error
}

// New returns a Cluster that uses the client.
func New(client kubernetes.Interface, o Options) *Cluster {
	return &Cluster{client: client, options: o, Evict: evictOnce(client)}
}

// evictOnce returns a request for an eviction that is not repeated: client-go
// would wait and ask again for minutes where the API server says Retry-After.
func evictOnce(client kubernetes.Interface) func(context.Context, *policyv1.Eviction) error {
	return func(ctx context.Context, e *policyv1.Eviction) error {
		return client.CoreV1().RESTClient().Post().Namespace(e.Namespace).Resource("pods").Name(e.Name).SubResource("eviction").
			Body(e).MaxRetries(0).Do(ctx).Error()
	}
}

// permission is one that the options need.
type permission struct{ verb, resource, subresource string }

func (p permission) String() string {
	return strings.TrimSuffix(p.verb+" "+p.resource+"/"+p.subresource, "/")
}

func (o *Options) permissions() []permission {
	needed := []permission{{"get", "pods", ""}}
	switch {
	case o.DryRun: // what is not done needs no permission
	case o.Delete:
		needed = append(needed, permission{"delete", "pods", ""})
	default:
		needed = append(needed, permission{"create", "pods", "eviction"})
	}
	return needed
}

// Missing returns, by namespace, a permission that is not granted, such as "create pods/eviction".
// It asks for a permission in all namespaces first, and then in each of these.
func (c *Cluster) Missing(ctx context.Context, namespaces []string) (map[string]string, error) {
	missing := map[string]string{}
	for _, p := range c.options.permissions() {
		if len(namespaces) > 1 {
			everywhere, err := c.allowed(ctx, p, metav1.NamespaceAll)
			if err != nil {
				return nil, err
			}
			if everywhere {
				continue
			}
		}
		for _, namespace := range namespaces {
			if missing[namespace] != "" {
				continue
			}
			ok, err := c.allowed(ctx, p, namespace)
			if err != nil {
				return nil, err
			}
			if !ok {
				missing[namespace] = p.String()
			}
		}
	}
	return missing, nil
}

func (c *Cluster) allowed(ctx context.Context, p permission, namespace string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	review, err := c.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Resource: p.resource, Subresource: p.subresource, Verb: p.verb,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}

// Pod asks what a pod is. One that does not exist is no error.
func (c *Cluster) Pod(ctx context.Context, namespace, name string) (decide.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	pod, err := c.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return decide.Pod{}, nil
	case err != nil:
		return decide.Pod{}, err
	}
	return c.facts(pod), nil
}

func (c *Cluster) facts(pod *corev1.Pod) decide.Pod {
	owner, kind := owner(pod)
	facts := decide.Pod{
		Found: true, UID: string(pod.UID), Node: pod.Spec.NodeName,
		Running:     pod.Status.Phase == corev1.PodRunning,
		Terminating: pod.DeletionTimestamp != nil,
		Owner:       owner, OwnerKind: kind,
		Priority: ptr.Deref(pod.Spec.Priority, 0),
	}
	// A budget that cannot be read counts as not declared: the pod then declares less than
	// telemetry shows.
	facts.Budgets, _ = gpushare.Budgets(pod, c.options.Budgets)
	if pod.Status.StartTime != nil {
		facts.Started = pod.Status.StartTime.Time
	}
	_, facts.Mirror = pod.Annotations[corev1.MirrorPodAnnotationKey]
	_, facts.Protected = pod.Labels[ProtectedLabel]
	return facts
}

// owner returns the pod's controller as namespace/kind/name, and its kind; both are empty when there
// is none. For a ReplicaSet of a Deployment it returns the Deployment, because each rollout makes a
// new ReplicaSet.
func owner(pod *corev1.Pod) (owner, kind string) {
	controller := metav1.GetControllerOfNoCopy(pod)
	if controller == nil {
		return "", ""
	}
	kind, name := controller.Kind, controller.Name
	if deployment, ok := kube.CutHash(name, pod.Labels[kube.DeploymentHash]); ok && kind == "ReplicaSet" {
		kind, name = "Deployment", deployment
	}
	return pod.Namespace + "/" + kind + "/" + name, kind
}

// Act evicts or deletes the pod, if it still is the one with that UID. It tells
// how that ended, whether it was done or may have been, and the error if it did not succeed.
func (c *Cluster) Act(ctx context.Context, a *decide.Action) (_ decide.Reason, done bool, _ error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	uid := types.UID(a.UID)
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
	var err error
	if c.options.Delete {
		err = c.client.CoreV1().Pods(a.Namespace).Delete(ctx, a.Pod, options)
	} else {
		err = c.Evict(ctx, &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Pod},
			DeleteOptions: &options,
		})
	}
	switch {
	case err == nil:
		return decide.Evicted, true, nil
	case apierrors.IsTooManyRequests(err):
		return decide.Refused, false, err
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return decide.Forbidden, false, err
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return decide.PodGone, false, err
	case apierrors.IsBadRequest(err), apierrors.IsInvalid(err), apierrors.IsMethodNotSupported(err):
		return decide.ActionFailed, false, err
	default: // nobody knows whether it was done
		return decide.ActionFailed, true, err
	}
}

// Event tells of a decision at the pod.
func (c *Cluster) Event(ctx context.Context, v *decide.Victim, node, reason, message string, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	at := metav1.NewTime(now)
	_, err := c.client.CoreV1().Events(v.Namespace).Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: v.Namespace,
			Name:      util.GenerateEventName(v.Pod, now.UnixNano()),
		},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: v.Namespace, Name: v.Pod, UID: types.UID(v.UID),
		},
		Reason: reason, Message: message, Type: corev1.EventTypeWarning,
		Source:         corev1.EventSource{Component: eventSource, Host: node},
		FirstTimestamp: at, LastTimestamp: at, Count: 1,
	}, metav1.CreateOptions{})
	return err
}
