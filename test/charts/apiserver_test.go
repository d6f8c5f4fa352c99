package charts

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// createNamespaces creates the namespaces that rendered manifests use, with the given Pod Security
// level.
func createNamespaces(t *testing.T, plane *controlplane.Plane, objects []*unstructured.Unstructured, level string) {
	t.Helper()
	created := map[string]bool{}
	for _, obj := range objects {
		if name := obj.GetNamespace(); name != "" && !created[name] {
			created[name] = true
			plane.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": level},
			}})
		}
	}
}

// createKinds registers the custom resource kinds of the Prometheus Operator and cert-manager, with
// schemas that do not define any fields.
func createKinds(t *testing.T, plane *controlplane.Plane) {
	t.Helper()
	for kind, group := range map[string]string{
		"PodMonitor": "monitoring.coreos.com", "ServiceMonitor": "monitoring.coreos.com", "PrometheusRule": "monitoring.coreos.com",
		"Certificate": "cert-manager.io", "Issuer": "cert-manager.io",
	} {
		plural := strings.ToLower(kind) + "s"
		plane.Apply(t, fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.%[3]s}
spec:
  group: %[3]s
  scope: Namespaced
  names: {kind: %[2]s, plural: %[1]s}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, plural, kind, group))
		require.Eventually(t, func() bool {
			resources, err := plane.Admin().Discovery().ServerResourcesForGroupVersion(group + "/v1")
			return err == nil && slices.ContainsFunc(resources.APIResources, func(r metav1.APIResource) bool { return r.Name == plural })
		}, processtest.Patience, 50*time.Millisecond)
	}
}

func TestTheAPIServerAcceptsEveryManifest(t *testing.T) {
	plane := controlplane.Start(t)
	createKinds(t, plane)
	for where, args := range documented(t) {
		t.Run(where, func(t *testing.T) {
			manifests := renderDocumented(t, args)
			createNamespaces(t, plane, decode(t, manifests), "privileged")
			plane.Apply(t, manifests)
		})
	}
}

func TestTheAPIServerAcceptsThePermissionsForTheOperator(t *testing.T) {
	plane := controlplane.Start(t)
	content, err := os.ReadFile(root + "/examples/operator/rbac.yaml")
	require.NoError(t, err)
	plane.Apply(t, string(content))
}

// The chart's README lists how the pods violate the strictest Pod Security level.
func TestThePodsRequestOnlyWhatTheyNeed(t *testing.T) {
	plane := controlplane.Start(t)
	const root = `runAsNonRoot != true (pod or container "otelcol-gpu" must set securityContext.runAsNonRoot=true), ` +
		`runAsUser=0 (pod must not set runAsUser=0)`
	for variant, want := range map[string]map[string]string{
		"an_agent_and_a_cluster_collector_with_a_backend": {
			"agent":   `restricted volume types (volumes "state", "pod-resources" use restricted volume type "hostPath"), ` + root,
			"cluster": "",
		},
		"no_component_needs_root_or_host_access": {"agent": "", "cluster": "", "gateway": "", "view": ""},
		"webhooks_complete_and_validate_pods_that_share_gpus": {
			"agent":   `restricted volume types (volumes "state", "pod-resources" use restricted volume type "hostPath"), ` + root,
			"cluster": "", "view": "", "admission": "",
		},
		"nvml_replaces_an_exporter": {
			"agent": `host namespaces (hostPID=true), restricted volume types (volume "state" uses restricted volume type "hostPath"), ` + root,
		},
	} {
		t.Run(variant, func(t *testing.T) {
			objects := decode(t, renderVariant(t, filepath.Join("testdata", variant)))
			createNamespaces(t, plane, objects[:1], "restricted")
			got := map[string]string{}
			for component, template := range podTemplates(t, objects) {
				template.Spec.ServiceAccountName = ""
				// Clear these fields, because the test does not create the objects that they refer
				// to.
				template.Spec.RuntimeClassName, template.Spec.PriorityClassName = nil, ""
				_, err := plane.Admin().CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: component}, Spec: template.Spec,
				}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				got[component] = ""
				if err != nil {
					_, violations, found := strings.Cut(err.Error(), `violates PodSecurity "restricted:latest": `)
					require.True(t, found, "%v", err)
					got[component] = violations
				}

				container := template.Spec.Containers[0]
				assert.True(t, *container.SecurityContext.ReadOnlyRootFilesystem, component)
				assert.NotEmpty(t, container.Resources.Limits, component)
				for _, mount := range container.VolumeMounts {
					assert.Equal(t, mount.Name != "state", mount.ReadOnly, "%s: %s", component, mount.Name)
				}
			}
			assert.Equal(t, want, got)
		})
	}
}

// The test compares the complete lists of permissions, so a new permission must be added both to
// the chart and to this test.
func TestAnAccountHasExactlyThesePermissions(t *testing.T) {
	const (
		pods, nodes = "list,watch pods", "list,watch nodes"
		resources   = "list,watch resource.k8s.io/resourceslices"
		claims      = "list,watch resource.k8s.io/resourceclaims"
	)
	watchdog := []string{"gpu_k8s.budget={}", "gpu_watchdog.enabled=true", `gpu_watchdog.namespaces=["training"]`}
	record := []string{
		"create coordination.k8s.io/leases in " + namespace,
		"get,update coordination.k8s.io/leases named otelcol-gpu-watchdog in " + namespace,
	}
	watching := append([]string{pods, nodes, resources, "get pods in training", "create events in training"}, record...)
	for name, tc := range map[string]struct {
		set  []string
		want []string
	}{
		"by default":                {nil, []string{pods, nodes, resources}},
		"without DRA":               {[]string{"gpu_k8s.sources.dra.enabled=false"}, []string{pods, nodes}},
		"with claims":               {[]string{"gpu_k8s.claims=true"}, []string{pods, nodes, resources, claims}},
		"with budgets from claims":  {[]string{`gpu_k8s.budget={"sources":{"dra":{"enabled":true}}}`}, []string{pods, nodes, resources, claims}},
		"with other budgets":        {[]string{`gpu_k8s.budget={"sources":{"dra":{"enabled":false}}}`}, []string{pods, nodes, resources}},
		"discovery alone":           {[]string{"gpu_k8s.enabled=false"}, []string{pods}},
		"a known exporter alone":    {[]string{"gpu_k8s.enabled=false", `dcgm.endpoints=["http://localhost:9400"]`}, nil},
		"no discovery":              {[]string{"dcgm.enabled=false", "nvml.enabled=true"}, []string{pods, nodes, resources}},
		"usage by labels alone":     {[]string{`gpu_k8s={"usage":{},"kubernetes":{"auth_type":"none"}}`, `dcgm.endpoints=["http://localhost:9400"]`}, nil},
		"on OpenShift":              {[]string{"openshift.enabled=true"}, []string{pods, nodes, resources, "use security.openshift.io/securitycontextconstraints named otelcol-gpu-agent in " + namespace}},
		"Kubernetes Events":         {[]string{"gpu_events.enabled=true", `gpu_events.kubernetes_events={"auth_type":"serviceAccount"}`}, []string{pods, nodes, resources, "create,patch events"}},
		"roles made by others":      {[]string{"rbac.create=false"}, nil},
		"a watchdog that only says": {watchdog, watching},
		"a record in another Lease": {
			append(slices.Clone(watchdog), `gpu_watchdog.shared_record={"name":"record","namespace":"other"}`),
			[]string{
				pods, nodes, resources, "get pods in training", "create events in training",
				"create coordination.k8s.io/leases in other",
				"get,update coordination.k8s.io/leases named record in other",
			},
		},
		"no record": {
			append(slices.Clone(watchdog), "gpu_watchdog.shared_record.enabled=false"),
			[]string{pods, nodes, resources, "get pods in training", "create events in training"},
		},
		"an elected watchdog": {
			append(slices.Clone(watchdog), `gpu_watchdog.leader_election={"enabled":true}`),
			append(slices.Clone(watching),
				"create coordination.k8s.io/leases in "+namespace,
				"get,update coordination.k8s.io/leases named otelcol-gpu-watchdog-election in "+namespace),
		},
		"an armed watchdog": {
			append(slices.Clone(watchdog), "gpu_watchdog.dry_run=false"),
			append(slices.Clone(watching), "create pods/eviction in training"),
		},
		"an armed watchdog that deletes": {
			append(slices.Clone(watchdog), "gpu_watchdog.dry_run=false", `gpu_watchdog.action="delete"`),
			append(slices.Clone(watching), "delete pods in training"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := decode(t, render(t, "", append(tc.set, `backend.endpoint="http://backend"`)...))
			got := granted(t, objects, release+"-agent")
			assert.ElementsMatch(t, tc.want, got)
			agent := podTemplates(t, objects)["agent"].Spec
			assert.Equal(t, len(tc.want) > 0 || name == "roles made by others", *agent.AutomountServiceAccountToken,
				"the token is mounted only if permissions are granted")
		})
	}
}

// The cluster collector may write only its lease and the objects that its enabled features need to
// write.
func TestTheClusterCollectorIsGrantedThisAndNothingElse(t *testing.T) {
	reads := []string{
		"list,watch pods,nodes",
		"list,watch resource.k8s.io/deviceclasses,devicetaintrules,resourceclaims,resourceclaimtemplates,resourceslices",
		"create coordination.k8s.io/leases in " + namespace,
		"get,update coordination.k8s.io/leases named otelcol-gpu-cluster in " + namespace,
	}
	for name, tc := range map[string]struct {
		set  []string
		want []string
	}{
		"by default":          {nil, reads},
		"without an election": {[]string{"gpu_cluster.leader_election.enabled=false"}, reads[:2]},
		"with another Lease": {
			[]string{`gpu_cluster.leader_election={"name":"leader","namespace":"other"}`},
			append(slices.Clone(reads[:2]), "create coordination.k8s.io/leases in other", "get,update coordination.k8s.io/leases named leader in other"),
		},
		"with a memory resource": {[]string{"gpu_memory_resource.enabled=true", `gpu_memory_resource.resource="example.com/gpumem"`}, append(slices.Clone(reads), "patch nodes/status")},
	} {
		t.Run(name, func(t *testing.T) {
			objects := decode(t, render(t, "", append(tc.set, `backend.endpoint="http://backend"`)...))
			assert.ElementsMatch(t, tc.want, granted(t, objects, release+"-cluster"))
		})
	}
}

// The chart and the plain manifests run the same collectors, so they must grant the same
// permissions by default.
func TestTheDefaultPermissionsAreThoseOfTheManifests(t *testing.T) {
	var manifests []*unstructured.Unstructured
	for _, file := range []string{"10-agent-rbac.yaml", "20-cluster-rbac.yaml"} {
		content, err := os.ReadFile(filepath.Join(root, "examples", "kubernetes", file))
		require.NoError(t, err)
		manifests = append(manifests, decode(t, string(content))...)
	}
	rendered := decode(t, render(t, "", `backend.endpoint="http://backend"`))
	for _, account := range []string{"otelcol-gpu-agent", "otelcol-gpu-cluster"} {
		assert.ElementsMatch(t, granted(t, manifests, account), granted(t, rendered, account), account)
	}
}

// granted returns the permissions that the manifests grant to a service account, each as a
// sentence.
func granted(t *testing.T, objects []*unstructured.Unstructured, account string) []string {
	t.Helper()
	roles := map[string]rbacv1.Role{}
	for _, obj := range objects {
		if strings.HasSuffix(obj.GetKind(), "Role") {
			var role rbacv1.Role
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &role))
			roles[role.Namespace+"/"+role.Name] = role
		}
	}
	var sentences []string
	for _, obj := range objects {
		if !strings.HasSuffix(obj.GetKind(), "RoleBinding") {
			continue
		}
		var binding rbacv1.RoleBinding
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &binding))
		role, ok := roles[binding.Namespace+"/"+binding.RoleRef.Name]
		require.True(t, ok, "%s binds %s", binding.Name, binding.RoleRef.Name)
		if binding.Subjects[0].Name != account {
			continue
		}
		for _, rule := range role.Rules {
			sentence := strings.Join(rule.Verbs, ",") + " "
			if group := strings.Join(rule.APIGroups, ","); group != "" {
				sentence += group + "/"
			}
			sentence += strings.Join(rule.Resources, ",")
			if len(rule.ResourceNames) > 0 {
				sentence += " named " + strings.Join(rule.ResourceNames, ",")
			}
			if role.Namespace != "" {
				sentence += " in " + role.Namespace
			}
			sentences = append(sentences, sentence)
		}
	}
	return sentences
}

// Helm refuses to adopt an object of another release, so the objects of two releases in the same
// cluster must have different names.
func TestTwoReleasesShareNoObject(t *testing.T) {
	objects := func(name string) []string {
		output, err := helm(t, "template", name, chartDir, "--namespace", namespace, "--values",
			"testdata/gateways_compute_windows_and_a_page_shows_them/values.yaml")
		require.NoError(t, err, "%s", output)
		var names []string
		for _, obj := range decode(t, output) {
			names = append(names, obj.GetKind()+" "+obj.GetName())
		}
		return names
	}
	other := objects("other")
	for _, name := range objects(release) {
		assert.NotContains(t, other, name)
	}
}
