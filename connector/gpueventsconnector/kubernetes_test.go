package gpueventsconnector

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/otelcol-gpu/otelcol-gpu/internal/events"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubetest"
)

// Returns three values: a kubeEvents that writes to a fake API server, a client for that server,
// and a function that returns the Events written so far.
func written(t *testing.T, result func(error)) (*kubeEvents, *fake.Clientset, func() map[string]corev1.Event) {
	t.Helper()
	client := kubetest.NewClient()
	k := newKubeEvents(nil, client, result)
	t.Cleanup(k.stop)
	return k, client, func() map[string]corev1.Event {
		list, err := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		out := map[string]corev1.Event{}
		for _, e := range list.Items {
			out[e.InvolvedObject.Kind+" "+e.InvolvedObject.Name+" "+e.Reason] = e
		}
		return out
	}
}

var somewhere = gpudata.Place{Node: "n1"}

func TestRecordsAboveInfoAreEventsOfTheNodeAndItsOnlyHolder(t *testing.T) {
	k, _, got := written(t, func(err error) { assert.NoError(t, err) })
	k.add([]events.Event{
		{Name: events.XID, Place: somewhere, Severity: events.Err, Body: "GPU-1: 1 x xid_79.", Holder: gpudata.Holder{Namespace: "ns", Pod: "p", UID: "u"}},
		{Name: events.StatusChange, Place: somewhere, Severity: events.Info, Body: "ok again"},
		{Name: events.ThrottleEnd, Place: somewhere, Severity: events.Warn, Body: "no reason"},
		{Name: events.DeviceLost, Severity: events.Err, Body: "of no node"},
		{Name: events.DeviceLost, Place: somewhere, Severity: events.Err, Body: strings.Repeat("x", 2000), Holder: gpudata.Holder{Job: "42"}},
	})
	require.Eventually(t, func() bool { return len(got()) == 3 }, 10*time.Second, 10*time.Millisecond)
	all := got()
	pod := all["Pod p GPUXidError"]
	assert.Equal(t, "ns", pod.Namespace)
	assert.Equal(t, corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "ns", Name: "p", UID: "u"}, pod.InvolvedObject)
	assert.Equal(t, corev1.EventSource{Component: "otelcol-gpu", Host: "n1"}, pod.Source)
	assert.Equal(t, "Warning GPU-1: 1 x xid_79.", pod.Type+" "+pod.Message)
	assert.Equal(t, "default", all["Node n1 GPUXidError"].Namespace)
	assert.Len(t, all["Node n1 GPULost"].Message, 1024)
}

// In JSON, each invalid byte becomes a replacement character, which has three bytes.
func TestALongMessageIsNotCutWithinACharacter(t *testing.T) {
	k, _, got := written(t, func(err error) { assert.NoError(t, err) })
	k.add([]events.Event{
		{Name: events.DeviceLost, Place: somewhere, Severity: events.Err, Body: "GPU " + strings.Repeat("é", 600) + " was lost."},
		{Name: events.StatusChange, Place: somewhere, Severity: events.Err, Body: "GPU 1" + strings.Repeat("é", 600) + " changed."},
	})
	require.Eventually(t, func() bool { return len(got()) == 2 }, 10*time.Second, 10*time.Millisecond)
	assert.Equal(t, "GPU "+strings.Repeat("é", 510), got()["Node n1 GPULost"].Message)
	assert.Equal(t, "GPU 1"+strings.Repeat("é", 509), got()["Node n1 GPUStatusChanged"].Message)
}

func TestARejectedEventIsReported(t *testing.T) {
	results := make(chan error, 9)
	k, client, _ := written(t, func(err error) { results <- err })
	client.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("events"), "", nil)
	})
	k.add([]events.Event{{Name: events.Error, Place: somewhere, Severity: events.Warn, Body: "a"}})
	assert.True(t, apierrors.IsForbidden(<-results))
}

func TestWithoutAnAPIServerNoEventIsWritten(t *testing.T) {
	for _, auth := range []string{kube.AuthNone, kube.AuthServiceAccount} { // outside a cluster
		k, err := startKubeEvents(kube.Config{AuthType: auth}, componenttest.NewNopTelemetrySettings(), nil)
		require.NoError(t, err)
		assert.Nil(t, k)
		k.add([]events.Event{{Name: events.XID, Place: somewhere, Severity: events.Err}})
		k.stop()
	}
	_, err := startKubeEvents(kube.Config{AuthType: kube.AuthKubeConfig, KubeConfig: "/nowhere"}, componenttest.NewNopTelemetrySettings(), nil)
	assert.ErrorContains(t, err, `kubeconfig is "/nowhere"`)
}
