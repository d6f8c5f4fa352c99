// Package cluster sends the watchdog's requests to the API server. The package checks permissions,
// reads and evicts pods, and writes Events about pods.
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

// ProtectedLabel is the key of the pod label that protects a pod from eviction. The value of the
// label does not matter.
const ProtectedLabel = "otelcol-gpu/protected"

// CallTimeout is the timeout for a request to the API server.
const CallTimeout = 10 * time.Second

// eventSource is the name of the component in the source field of Events.
const eventSource = "otelcol-gpu-watchdog"

// Options configures a [Cluster].
type Options struct {
	// DryRun makes Missing ignore the permissions to evict and delete pods. The caller must not
	// call Act in a dry run.
	DryRun bool
	// Delete makes Act delete pods instead of evicting them.
	Delete bool
	// Budgets configures where budgets are declared in a pod.
	Budgets gpushare.BudgetOptions
}

// Cluster sends requests to the API server. Pods are read by name, and only when a decision depends
// on them. A cache of all pods would be less current and would require permission to list pods.
type Cluster struct {
	client  kubernetes.Interface
	options Options

	// Evict requests an eviction and does not retry the request. Tests replace Evict, because the
	// fake client cannot handle evictions.
	Evict func(ctx context.Context, e *policyv1.Eviction) error
}

// New returns a Cluster that uses the client.
func New(client kubernetes.Interface, o Options) *Cluster {
	return &Cluster{client: client, options: o, Evict: evictOnce(client)}
}

// evictOnce returns a function that requests an eviction and does not retry the request. Without
// MaxRetries(0), client-go would retry for minutes if the API server responded with a Retry-After
// header.
func evictOnce(client kubernetes.Interface) func(context.Context, *policyv1.Eviction) error {
	return func(ctx context.Context, e *policyv1.Eviction) error {
		return client.CoreV1().RESTClient().Post().Namespace(e.Namespace).Resource("pods").Name(e.Name).SubResource("eviction").
			Body(e).MaxRetries(0).Do(ctx).Error()
	}
}

// A permission is a Kubernetes permission that the watchdog needs.
type permission struct{ verb, resource, subresource string }

func (p permission) String() string {
	return strings.TrimSuffix(p.verb+" "+p.resource+"/"+p.subresource, "/")
}

func (o *Options) permissions() []permission {
	needed := []permission{{"get", "pods", ""}}
	switch {
	case o.DryRun: // a dry run does not require permission to evict pods
	case o.Delete:
		needed = append(needed, permission{"delete", "pods", ""})
	default:
		needed = append(needed, permission{"create", "pods", "eviction"})
	}
	return needed
}

// Missing checks the permissions in the given namespaces. The returned map contains, for each
// namespace in which a permission is missing, the first missing permission, such as "create
// pods/eviction". If there are several namespaces, Missing first checks whether each permission is
// granted cluster-wide. If a permission is not granted cluster-wide, Missing checks each of the
// given namespaces.
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

// Pod reads a pod from the API server. If the pod does not exist, Pod returns the zero value and no
// error.
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
	// A budget that cannot be parsed is ignored, as if the pod did not declare the budget.
	facts.Budgets, _ = gpushare.Budgets(pod, c.options.Budgets)
	if pod.Status.StartTime != nil {
		facts.Started = pod.Status.StartTime.Time
	}
	_, facts.Mirror = pod.Annotations[corev1.MirrorPodAnnotationKey]
	_, facts.Protected = pod.Labels[ProtectedLabel]
	return facts
}

// The owner function returns the pod's controller in the form namespace/kind/name, and the kind of
// the controller. Both results are empty if the pod has no controller. If the controller is a
// ReplicaSet of a Deployment, owner returns the Deployment, because each rollout creates a new
// ReplicaSet.
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

// Act evicts or deletes the pod if the pod still has the same UID. Act returns the outcome, and
// reports whether the action was carried out or may have been carried out. If the request failed,
// Act also returns an error.
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
	default: // it is unknown whether the action was carried out
		return decide.ActionFailed, true, err
	}
}

// Event writes a Kubernetes Event about a decision. The Event refers to the pod.
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
