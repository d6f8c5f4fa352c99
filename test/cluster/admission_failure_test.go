package cluster

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	admission "github.com/otelcol-gpu/otelcol-gpu/extension/gpushareadmissionextension"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/certtest"
)

// Because no controllers run in this test, the test creates the pods of a Deployment's ReplicaSet
// and of a Job itself. Like the controllers, the test uses the pod template and sets an owner
// reference.
func TestPodsOfDeploymentsAndJobsAreCompleted(t *testing.T) {
	w := startWebhooks(t)
	w.register("Fail")
	labels := map[string]string{"app": "trainer"}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{shareContainer("main", "gpu=50")}},
	}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	meta := metav1.ObjectMeta{Namespace: w.namespace, Name: "trainer", Labels: labels}
	ofJob := template.DeepCopy()
	ofJob.Spec.RestartPolicy = corev1.RestartPolicyNever
	deployment := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}}
	set := &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template}}
	job := &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: *ofJob}}
	before := w.answered()
	for _, obj := range []client.Object{deployment, set, job} {
		w.plane.Create(t, obj)
	}
	assert.Equal(t, before, w.answered(), "the webhooks do not change templates")
	assert.Equal(t, shareContainer("main", "gpu=50").Resources.Limits, deployment.Spec.Template.Spec.Containers[0].Resources.Limits)

	for owner, kind := range map[client.Object]schema.GroupVersionKind{
		set: appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
		job: batchv1.SchemeGroupVersion.WithKind("Job"),
	} {
		spec := template.Spec
		if kind.Kind == "Job" {
			spec = job.Spec.Template.Spec
		}
		pod, err := w.create(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				GenerateName: "trainer-", Labels: labels, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)},
			},
			Spec: spec,
		})
		require.NoError(t, err)
		assert.Equal(t, "gpu-core=50 gpu-memory-ratio=50 gpu.shared=1", requested(pod), kind.Kind)
		assert.Equal(t, kind.Kind, pod.OwnerReferences[0].Kind)
	}
}

func TestPodsOfOthersAndOfExcludedNamespacesAreNotSent(t *testing.T) {
	w := startWebhooks(t)
	w.register("Fail")
	before := w.answered()
	for _, limits := range []string{"", "nvidia.com/gpu=1", "example.com/gpumem=5000", "koordinator.sh/rdma=1"} {
		_, err := w.create(sharePod("other", limits))
		require.NoError(t, err)
	}
	pod := sharePod("excluded", "gpu-core=50")
	pod.Namespace = metav1.NamespaceSystem
	w.plane.Create(t, pod)
	assert.Equal(t, "gpu-core=50", requested(pod))
	assert.Equal(t, before, w.answered())
}

func TestWithoutAnAnswerTheFailurePolicyDecides(t *testing.T) {
	for policy, blocked := range map[string]bool{"Fail": true, "Ignore": false} {
		t.Run(policy, func(t *testing.T) {
			w := startWebhooks(t)
			w.register(policy)
			running, err := w.create(sharePod("running", "gpu-memory=4Gi"))
			require.NoError(t, err)
			w.stop()

			pod, err := w.create(sharePod("pod", "gpu-memory=4Gi"))
			if blocked {
				require.ErrorContains(t, err, `failed calling webhook "mutate.gpu-share-admission.otelcol-gpu"`)
			} else {
				require.NoError(t, err)
				assert.Equal(t, "gpu-memory=4Gi", requested(pod), "the pod is stored unchanged")
			}
			_, err = w.create(sharePod("vendor", "nvidia.com/gpu=1"))
			require.NoError(t, err, "pods of vendors never depend on the webhooks")
			_, err = w.plane.Admin().CoreV1().Pods(w.namespace).Patch(t.Context(), running.Name, types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"team":"a"}}}`), metav1.PatchOptions{})
			require.NoError(t, err, "labels never depend on the webhooks")
		})
	}
}

// recorder records the warnings in an API server's responses.
type recorder struct {
	mu       sync.Mutex
	warnings []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (r *recorder) HandleWarningHeader(_ int, _, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.warnings = append(r.warnings, text)
}

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.warnings...)
}

func TestWithoutEnforcementTheUserIsWarned(t *testing.T) {
	w := startWebhooks(t, func(cfg *admission.Config) { cfg.Enforce = false })
	w.register("Fail")
	config, err := clientcmd.BuildConfigFromFlags("", w.plane.KubeConfig(t))
	require.NoError(t, err)
	var warnings recorder
	config.WarningHandler = &warnings
	user, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)

	pod, err := user.CoreV1().Pods(w.namespace).Create(t.Context(), sharePod("pod", "gpu-core=50"), metav1.CreateOptions{})
	require.NoError(t, err)
	assert.Equal(t, "gpu-core=50 gpu.shared=1", requested(pod))
	require.Len(t, warnings.all(), 2)
	assert.Contains(t, warnings.all()[0], `core_without_memory: container "main": spec.containers[0].resources.requests[koordinator.sh/gpu-core] is 50: `)
}

// The certificate and its certificate authority are replaced at the same time. After the
// replacement, only the new certificate is valid, so the API server must reconnect.
func TestAReplacedCertificateServesTheAPIServerWithoutARestart(t *testing.T) {
	w := startWebhooks(t)
	w.register("Fail")
	w.ca = certtest.NewAuthority(t)
	w.ca.Write(t, w.dir)
	w.apply("Fail")
	w.eventually("does not accept the new certificate", func() bool {
		pod, err := w.try(sharePod("probe", "gpu=50"))
		return err == nil && requested(pod) == "gpu-core=50 gpu-memory-ratio=50 gpu.shared=1"
	})
	_, err := w.create(sharePod("pod", "gpu-core=50"))
	denied(t, err, "core_without_memory")

	renewed := w.ca
	w.ca = certtest.NewAuthority(t)
	w.apply("Fail")
	w.eventually("accepts any certificate", func() bool {
		_, err := w.try(sharePod("probe", "gpu=50"))
		return err != nil
	})
	_, err = w.try(sharePod("probe", "gpu=50"))
	require.ErrorContains(t, err, "x509: certificate signed by unknown authority")
	w.ca = renewed
	w.apply("Fail")
}
