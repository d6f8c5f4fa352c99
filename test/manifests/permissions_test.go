package manifests

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

const node = "gpu-node"

// The test compares the complete lists of permissions, so a new permission must be added both to
// the manifests and to this test.
func TestAnAccountHasExactlyThesePermissions(t *testing.T) {
	plane := installed(t)
	plane.Create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "nobody"}})
	// Exclude the permissions that every service account has, such as the permission to query its
	// own permissions.
	anybody := rules(t, plane, "nobody", namespace)

	for _, tc := range []struct {
		account, in string
		want        []string
	}{
		{agent, "default", []string{
			"list,watch pods", "list,watch nodes", "list,watch resource.k8s.io/resourceslices",
		}},
		{cluster, "default", []string{
			"list,watch pods,nodes",
			"list,watch resource.k8s.io/deviceclasses,devicetaintrules,resourceclaims,resourceclaimtemplates,resourceslices",
		}},
		{cluster, namespace, []string{
			"list,watch pods,nodes",
			"list,watch resource.k8s.io/deviceclasses,devicetaintrules,resourceclaims,resourceclaimtemplates,resourceslices",
			"create coordination.k8s.io/leases", "get,update coordination.k8s.io/leases named otelcol-gpu-cluster",
		}},
	} {
		t.Run(tc.account+" in "+tc.in, func(t *testing.T) {
			// A new binding takes effect after a short delay, because the API server's authorizer
			// receives bindings through a watch.
			require.EventuallyWithT(t, func(c *assert.CollectT) {
				assert.ElementsMatch(c, slices.Concat(anybody, tc.want), rules(t, plane, tc.account, tc.in))
			}, processtest.Patience, 50*time.Millisecond)
		})
	}

	t.Run("claims are an option", func(t *testing.T) {
		plane.Apply(t, text(t, filepath.Join(manifestsDir, "options", "claims-rbac.yaml")))
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.Contains(c, rules(t, plane, agent, "default"), "list,watch resource.k8s.io/resourceclaims")
		}, processtest.Patience, 50*time.Millisecond)
	})
}

// rules returns the permissions that RBAC grants to a service account in a namespace, each as a
// sentence.
func rules(t *testing.T, plane *controlplane.Plane, account, in string) []string {
	t.Helper()
	client := clientFor(t, plane.ServiceAccountKubeConfig(t, namespace, account))
	review, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(context.WithoutCancel(t.Context()),
		&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: in}}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.False(t, review.Status.Incomplete)
	var granted []string
	for _, rule := range review.Status.ResourceRules {
		sentence := strings.Join(rule.Verbs, ",") + " "
		if group := strings.Join(rule.APIGroups, ","); group != "" {
			sentence += group + "/"
		}
		sentence += strings.Join(rule.Resources, ",")
		if len(rule.ResourceNames) > 0 {
			sentence += " named " + strings.Join(rule.ResourceNames, ",")
		}
		granted = append(granted, sentence)
	}
	for _, rule := range review.Status.NonResourceRules {
		granted = append(granted, fmt.Sprint(rule.Verbs, rule.NonResourceURLs))
	}
	return granted
}

func TestCallsUnderTheAccounts(t *testing.T) {
	plane := installed(t)
	plane.CreateNode(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
	ofNode := metav1.ListOptions{FieldSelector: "spec.nodeName=" + node}

	pods := func(ctx context.Context, c kubernetes.Interface) error {
		_, err := c.CoreV1().Pods("").List(ctx, ofNode)
		return err
	}
	watchPods := func(ctx context.Context, c kubernetes.Interface) error {
		w, err := c.CoreV1().Pods("").Watch(ctx, ofNode)
		if err == nil {
			w.Stop()
		}
		return err
	}
	nodes := func(ctx context.Context, c kubernetes.Interface) error {
		_, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		return err
	}
	slicesOfNode := func(ctx context.Context, c kubernetes.Interface) error {
		_, err := c.ResourceV1().ResourceSlices().List(ctx, ofNode)
		return err
	}
	claims := func(ctx context.Context, c kubernetes.Interface) error {
		_, err := c.ResourceV1().ResourceClaims("").List(ctx, metav1.ListOptions{})
		return err
	}
	secrets := func(ctx context.Context, c kubernetes.Interface) error {
		_, err := c.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
		return err
	}
	configMaps := func(ctx context.Context, c kubernetes.Interface) error {
		_, err := c.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
		return err
	}
	exec := func(ctx context.Context, c kubernetes.Interface) error {
		return c.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").Name("any").SubResource("exec").
			Param("command", "id").Do(ctx).Error()
	}
	deletePod := func(ctx context.Context, c kubernetes.Interface) error {
		return c.CoreV1().Pods(namespace).Delete(ctx, "any", metav1.DeleteOptions{})
	}
	patchNode := func(ctx context.Context, c kubernetes.Interface) error {
		_, err := c.CoreV1().Nodes().Patch(ctx, node, "application/merge-patch+json", []byte(`{}`), metav1.PatchOptions{})
		return err
	}
	type call = func(context.Context, kubernetes.Interface) error
	for _, tc := range []struct {
		account   string
		granted   map[string]call
		forbidden map[string]call
	}{
		{
			agent,
			map[string]call{"pods": pods, "watch pods": watchPods, "nodes": nodes, "slices": slicesOfNode},
			map[string]call{
				"claims": claims, "secrets": secrets, "config maps": configMaps,
				"exec": exec, "delete pod": deletePod, "patch node": patchNode,
			},
		},
		{
			cluster,
			map[string]call{"pods": pods, "watch pods": watchPods, "nodes": nodes, "slices": slicesOfNode, "claims": claims},
			map[string]call{
				"secrets": secrets, "config maps": configMaps,
				"exec": exec, "delete pod": deletePod, "patch node": patchNode,
			},
		},
	} {
		client := clientFor(t, plane.ServiceAccountKubeConfig(t, namespace, tc.account))
		for name, do := range tc.granted {
			t.Run(tc.account+" may "+name, func(t *testing.T) {
				require.EventuallyWithT(t, func(c *assert.CollectT) { assert.NoError(c, do(t.Context(), client)) }, processtest.Patience, 50*time.Millisecond)
			})
		}
		for name, do := range tc.forbidden {
			t.Run(tc.account+" may not "+name, func(t *testing.T) {
				err := do(t.Context(), client)
				assert.True(t, apierrors.IsForbidden(err), "%v", err)
			})
		}
	}
}

func clientFor(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return client
}
