package charts

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestTheWebhooksUseACertificateOfASecret(t *testing.T) {
	objects := decode(t, render(t, "", `backend.endpoint="http://backend"`, "admission.enabled=true",
		`admission.secretName="webhook"`, `admission.caBundle="QUJD"`))
	webhooks := 0
	for _, obj := range objects {
		assert.NotEqual(t, "cert-manager.io", obj.GroupVersionKind().Group, obj.GetKind())
		list, _, err := unstructured.NestedSlice(obj.Object, "webhooks")
		require.NoError(t, err)
		for _, webhook := range list {
			webhooks++
			bundle, _, err := unstructured.NestedString(webhook.(map[string]any), "clientConfig", "caBundle")
			require.NoError(t, err)
			assert.Equal(t, "QUJD", bundle, obj.GetKind())
			assert.NotContains(t, obj.GetAnnotations(), "cert-manager.io/inject-ca-from", obj.GetKind())
		}
	}
	assert.Equal(t, 2, webhooks)
	var secrets []string
	for _, volume := range podTemplates(t, objects)["admission"].Spec.Volumes {
		if volume.Secret != nil {
			secrets = append(secrets, volume.Secret.SecretName)
		}
	}
	assert.Equal(t, []string{"webhook"}, secrets)
}

func TestTheAdmissionCollectorIsGrantedNothingAndHasNoToken(t *testing.T) {
	objects := decode(t, render(t, "", `backend.endpoint="http://backend"`, "admission.enabled=true", "admission.certManager.enabled=true"))
	assert.NotEmpty(t, granted(t, objects, release+"-agent"), "the agent may do something")
	assert.Empty(t, granted(t, objects, release+"-admission"))
	pod := podTemplates(t, objects)["admission"].Spec
	assert.Equal(t, release+"-admission", pod.ServiceAccountName)
	assert.False(t, *pod.AutomountServiceAccountToken)
}
