package gpueventsconnector

import (
	"context"
	"strings"

	"go.opentelemetry.io/collector/component"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/events"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// eventSource is the source component in the Kubernetes Events that the connector writes.
const eventSource = "otelcol-gpu"

// maxMessage is the maximum length of an Event message, in bytes. Longer messages are truncated.
// The events.k8s.io API has the same limit.
const maxMessage = 1024

// The reasons map contains, for each event name, the reason in the corresponding Kubernetes Event.
// Events with other names are written only as log records.
var reasons = map[string]string{
	events.XID: "GPUXidError", events.Error: "GPUError", events.ThrottleStart: "GPUThrottled", events.PressureStart: "GPUMemoryPressure",
	events.StatusChange: "GPUStatusChanged", events.FindingStart: "GPUFinding", events.DeviceLost: "GPULost", events.ExporterDown: "GPUExporterDown",
}

// kubeEvents writes Kubernetes Events for the records that have a name in the reasons map, a
// severity above INFO, and a known node. For each of these records, kubeEvents writes one Event
// about the node and, if exactly one pod is known to hold the device, another Event about the pod.
// client-go combines identical Events and counts them. For each object, client-go sends at most 25
// Events in a burst, and then one Event every five minutes.
type kubeEvents struct {
	cache       *kube.Cache
	broadcaster record.EventBroadcaster
}

// startKubeEvents returns nil if Kubernetes Events are disabled, or if the collector runs outside a
// cluster.
func startKubeEvents(cfg kube.Config, set component.TelemetrySettings, result func(error)) (*kubeEvents, error) {
	if cfg.AuthType == kube.AuthNone {
		return nil, nil //nolint:nilnil // Kubernetes Events are disabled, which is not an error
	}
	cache, err := kube.Acquire(kube.Options{Config: cfg}, set)
	if err != nil {
		return nil, err
	}
	if cache.Client() == nil {
		cache.Release()
		return nil, nil //nolint:nilnil // no API server, which the cache has logged
	}
	return newKubeEvents(cache, cache.Client(), result), nil
}

func newKubeEvents(cache *kube.Cache, client kubernetes.Interface, result func(error)) *kubeEvents {
	// Disable logging in client-go, which would log every failed attempt. Instead, kubeResult logs
	// a warning when requests start to fail.
	k := &kubeEvents{cache: cache, broadcaster: record.NewBroadcaster(record.WithContext(klog.NewContext(context.Background(), klog.Logger{})))}
	k.broadcaster.StartRecordingToSink(&watchedSink{&clientv1.EventSinkImpl{Interface: client.CoreV1().Events("")}, result})
	return k
}

// The add method queues Kubernetes Events without blocking. If the API server is slow, the queue
// holds up to 1000 Events.
func (k *kubeEvents) add(found []events.Event) {
	if k == nil {
		return
	}
	for i := range found {
		e := &found[i]
		reason, ok := reasons[e.Name]
		if !ok || e.Severity < events.Warn || e.Place.Node == "" {
			continue
		}
		recorder := k.broadcaster.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: eventSource, Host: e.Place.Node})
		// If the limit is within a character, remove the character's remaining bytes.
		message := strings.ToValidUTF8(e.Body[:min(len(e.Body), maxMessage)], "")
		// Use the node's name as the node's UID, as the kubelet does in its own Events.
		recorder.Event(&corev1.ObjectReference{
			APIVersion: "v1", Kind: "Node", Name: e.Place.Node, UID: types.UID(e.Place.Node),
		}, corev1.EventTypeWarning, reason, message)
		if h := e.Holder; h.Pod != "" && h.Namespace != "" {
			recorder.Event(&corev1.ObjectReference{
				APIVersion: "v1", Kind: "Pod", Namespace: h.Namespace, Name: h.Pod, UID: types.UID(h.UID),
			}, corev1.EventTypeWarning, reason, message)
		}
	}
}

func (k *kubeEvents) stop() {
	if k == nil {
		return
	}
	k.broadcaster.Shutdown()
	if k.cache != nil {
		k.cache.Release()
	}
}

// watchedSink calls the result function after each request, with the error from the request.
type watchedSink struct {
	record.EventSink
	result func(error)
}

// Create implements record.EventSink.
func (s *watchedSink) Create(e *corev1.Event) (*corev1.Event, error) {
	out, err := s.EventSink.Create(e)
	s.result(err)
	return out, err
}

// Patch implements record.EventSink.
func (s *watchedSink) Patch(e *corev1.Event, data []byte) (*corev1.Event, error) {
	out, err := s.EventSink.Patch(e, data)
	s.result(err)
	return out, err
}

// kubeResult returns a function that counts failed requests. The returned function logs a message
// when requests start to fail, and when requests succeed again.
func (c *gpuEvents) kubeResult() func(error) {
	fails := componenthelper.Failure{Logger: c.logger, Fails: "The API server does not accept Events. They are dropped.", Works: "The API server accepts Events again."}
	return func(err error) {
		if err != nil {
			c.telemetry.ConnectorGpuEventsKubernetesErrors.Add(context.Background(), 1)
		}
		fails.Result(err)
	}
}
