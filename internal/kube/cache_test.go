package kube_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubetest"
)

var allKinds = []kube.Kind{kube.Pods, kube.Nodes, kube.ResourceSlices, kube.ResourceClaims, kube.DeviceClasses, kube.ResourceClaimTemplates, kube.Jobs, kube.DeviceTaintRules}

// The observed function returns telemetry settings and the log that the settings' logger writes.
func observed() (component.TelemetrySettings, *observer.ObservedLogs) {
	core, logs := observer.New(zapcore.DebugLevel)
	set := componenttest.NewNopTelemetrySettings()
	set.Logger = zap.New(core)
	return set, logs
}

// The lines function returns the level, kind, and state of each log entry. The entries are sorted.
func lines(logs *observer.ObservedLogs) []string {
	var list []string
	for _, entry := range logs.All() {
		list = append(list, entry.Level.String()+" "+entry.ContextMap()["kind"].(string)+" "+entry.ContextMap()["state"].(string))
	}
	slices.Sort(list)
	return list
}

func pod(namespace, name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "example.com/image:1"}}},
	}
}

func TestObjectsOfAllKindsAreReturnedOnceSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, logs := observed()
		c := kube.NewCache(kubetest.NewClient(
			pod("ml", "train-0", "node-1"),
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}},
			&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "node-1-gpus"}},
			&resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "claim"}},
			&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu.nvidia.com"}},
			&resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "template"}},
			&resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "rule"}},
		), kube.Options{}, set)
		defer c.Release()
		for _, k := range allKinds {
			assert.Equal(t, kube.Off, c.State(k).Phase, "%s was not requested", k)
		}
		start := time.Now()
		c.Need(allKinds...)
		c.Need(allKinds...) // the second call has no effect
		require.NoError(t, c.WaitSynced(t.Context(), allKinds...))
		for _, k := range allKinds {
			assert.Equal(t, kube.State{Phase: kube.Synced, Since: start}, c.State(k), k)
		}
		require.Len(t, c.Pods(), 1)
		assert.Equal(t, "train-0", c.Pods()[0].Name)
		p, found := c.Pod("ml", "train-0")
		assert.True(t, found)
		assert.Same(t, c.Pods()[0], p)
		_, found = c.Pod("ml", "train-1")
		assert.False(t, found)
		require.Len(t, c.Nodes(), 1)
		n, found := c.Node("node-1")
		assert.True(t, found)
		assert.Same(t, c.Nodes()[0], n)
		require.Len(t, c.ResourceSlices(), 1)
		require.Len(t, c.ResourceClaims(), 1)
		claim, found := c.ResourceClaim("ml", "claim")
		assert.True(t, found)
		assert.Same(t, c.ResourceClaims()[0], claim)
		require.Equal(t, 1, c.Len(kube.DeviceClasses))
		require.Equal(t, 1, c.Len(kube.ResourceClaimTemplates))
		require.Equal(t, 1, c.Len(kube.DeviceTaintRules))
		assert.Equal(t, 8, logs.FilterMessage("Kubernetes objects are current").Len())
		assert.Equal(t, 8, logs.Len(), "one line per kind")
	})
}

func TestNotificationsOfManyChangesAreCombined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := kubetest.NewClient()
		c := kube.NewCache(client, kube.Options{}, componenttest.NewNopTelemetrySettings())
		defer c.Release()
		c.Need(kube.Pods)
		require.NoError(t, c.WaitSynced(t.Context(), kube.Pods))
		synctest.Wait() // the fake server loses changes between list and watch
		notified, seen := 0, 0
		unsubscribe := c.Subscribe(kube.Pods, func() { notified++; seen = len(c.Pods()) })
		for i := range 50 {
			_, err := client.CoreV1().Pods("ml").Create(t.Context(), pod("ml", "train-"+string(rune('a'+i%26))+string(rune('a'+i/26)), ""), metav1.CreateOptions{})
			require.NoError(t, err)
		}
		time.Sleep(time.Second) // in the synctest bubble
		synctest.Wait()
		assert.Equal(t, 50, seen, "the last notification is sent after the last change")
		assert.LessOrEqual(t, notified, 3)

		unsubscribe()
		unsubscribe() // the second call has no effect
		notified = 0
		require.NoError(t, client.CoreV1().Pods("ml").Delete(t.Context(), "train-aa", metav1.DeleteOptions{}))
		time.Sleep(time.Second) // in the synctest bubble
		synctest.Wait()
		assert.Zero(t, notified)
		assert.Len(t, c.Pods(), 49)
	})
}

func TestHandlersReceiveEveryObjectAndEveryChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := kubetest.NewClient(pod("ml", "old", ""))
		c := kube.NewCache(client, kube.Options{}, componenttest.NewNopTelemetrySettings())
		defer c.Release()
		var events []string
		handler := cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { events = append(events, "add "+o.(*corev1.Pod).Name) },
			UpdateFunc: func(_, o any) { events = append(events, "update "+o.(*corev1.Pod).Name) },
			DeleteFunc: func(o any) { events = append(events, "delete "+o.(*corev1.Pod).Name) },
		}
		unsubscribe := c.SubscribeObjects(kube.Pods, handler) // before the informer runs
		c.Need(kube.Pods)
		require.NoError(t, c.WaitSynced(t.Context(), kube.Pods))
		synctest.Wait() // the fake server loses changes between list and watch
		pods := client.CoreV1().Pods("ml")
		created, err := pods.Create(t.Context(), pod("ml", "new", ""), metav1.CreateOptions{})
		require.NoError(t, err)
		created.Spec.NodeName = "node-1"
		created.ResourceVersion = "2"
		_, err = pods.Update(t.Context(), created, metav1.UpdateOptions{})
		require.NoError(t, err)
		require.NoError(t, pods.Delete(t.Context(), "old", metav1.DeleteOptions{}))
		synctest.Wait()
		assert.Equal(t, []string{"add old", "add new", "update new", "delete old"}, events)

		unsubscribe()
		unsubscribe() // the second call has no effect
		events = nil
		require.NoError(t, pods.Delete(t.Context(), "new", metav1.DeleteOptions{}))
		synctest.Wait()
		assert.Empty(t, events)

		c.SubscribeObjects(kube.Nodes, handler)() // Need was never called for this kind
	})
}

// The failing function makes all requests for a resource, such as list requests, fail with the
// given error. The returned become function changes the error. If the error is nil, requests
// succeed.
func failing(client *fake.Clientset, resource string, err error) (become func(error)) {
	var mu sync.Mutex
	client.PrependReactor("*", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		return err != nil, nil, err
	})
	return func(now error) {
		mu.Lock()
		defer mu.Unlock()
		err = now
	}
}

func TestAKindIsForbiddenUntilThePermissionIsGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := kubetest.NewClient(pod("ml", "train-0", ""))
		forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no RBAC policy matched"))
		become := failing(client, "pods", forbidden)
		set, logs := observed()
		c := kube.NewCache(client, kube.Options{}, set)
		defer c.Release()
		c.Need(kube.Pods, kube.Nodes)
		start := time.Now()
		require.NoError(t, c.WaitSynced(t.Context(), kube.Pods, kube.Nodes), "WaitSynced returns immediately")
		state := c.State(kube.Pods)
		assert.Equal(t, kube.Forbidden, state.Phase)
		require.ErrorContains(t, state.Err, "no RBAC policy matched")
		assert.Empty(t, c.Pods())
		assert.Equal(t, kube.Synced, c.State(kube.Nodes).Phase, "other kinds are not affected")

		time.Sleep(10 * time.Minute) // in the synctest bubble
		synctest.Wait()
		assert.Equal(t, start, c.State(kube.Pods).Since)
		assert.Equal(t, []string{"info nodes synced", "warn pods forbidden"}, lines(logs), "one line for all attempts")

		become(nil)
		time.Sleep(61 * time.Second) // in the synctest bubble
		synctest.Wait()
		assert.Equal(t, kube.Synced, c.State(kube.Pods).Phase)
		assert.Len(t, c.Pods(), 1)
	})
}

// An API server that restarted opens a watch, and then reports in the watch that the resource version
// is too old. The objects are outdated until the reflector lists them again.
func TestObjectsAreStaleAfterAnErrorInAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := kubetest.NewClient(pod("ml", "train-0", ""))
		watches := make(chan *watch.FakeWatcher, 1)
		client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
			w := watch.NewFakeWithChanSize(1, false)
			watches <- w
			return true, w, nil
		})
		c := kube.NewCache(client, kube.Options{}, componenttest.NewNopTelemetrySettings())
		defer c.Release()
		c.Need(kube.Pods)
		require.NoError(t, c.WaitSynced(t.Context(), kube.Pods))
		synctest.Wait()
		require.Equal(t, kube.Synced, c.State(kube.Pods).Phase)

		expired := apierrors.NewResourceExpired("too old resource version")
		(<-watches).Error(&expired.ErrStatus)
		synctest.Wait()
		state := c.State(kube.Pods)
		assert.Equal(t, kube.Stale, state.Phase)
		require.ErrorContains(t, state.Err, "too old resource version")

		time.Sleep(61 * time.Second) // in the synctest bubble
		synctest.Wait()
		assert.Equal(t, kube.Synced, c.State(kube.Pods).Phase, "the reflector listed the objects again")
	})
}

func TestWaitingEndsWithTheContextAndTheErrorNamesTheKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := kubetest.NewClient()
		failing(client, "pods", errors.New("connection refused"))
		set, logs := observed()
		c := kube.NewCache(client, kube.Options{}, set)
		defer c.Release()
		c.Need(kube.Pods)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := c.WaitSynced(ctx, kube.Nodes, kube.Pods)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "pods: ")
		require.ErrorContains(t, err, "connection refused")
		assert.Equal(t, []string{"warn pods syncing"}, lines(logs))
	})
}

func TestAnAPIThatIsNotServedIsAbsentUntilItIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := kubetest.NewClient(&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "node-1-gpus"}})
		become := failing(client, "resource", apierrors.NewNotFound(schema.GroupResource{}, "resource.k8s.io"))
		set, logs := observed()
		c := kube.NewCache(client, kube.Options{}, set)
		defer c.Release()
		c.Need(kube.ResourceSlices)
		require.NoError(t, c.WaitSynced(t.Context(), kube.ResourceSlices))
		assert.Equal(t, kube.Absent, c.State(kube.ResourceSlices).Phase)
		assert.Equal(t, []string{"info resourceslices absent"}, lines(logs))

		become(nil)
		time.Sleep(61 * time.Second) // in the synctest bubble
		synctest.Wait()
		assert.Equal(t, kube.Synced, c.State(kube.ResourceSlices).Phase)
		assert.Len(t, c.ResourceSlices(), 1)
	})
}

// If access to a kind is forbidden, the kind stays settled while the server is unavailable, so that
// callers of WaitSynced do not block again.
func TestForbiddenKindsStayForbiddenWhileTheServerIsUnavailable(t *testing.T) {
	for name, refusal := range map[string]struct {
		resource string
		err      error
		kind     kube.Kind
		phase    kube.Phase
	}{
		"no permission": {"pods", apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no RBAC policy matched")), kube.Pods, kube.Forbidden},
		"not served":    {"resource", apierrors.NewNotFound(schema.GroupResource{}, "resource.k8s.io"), kube.ResourceSlices, kube.Absent},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := kubetest.NewClient()
				become := failing(client, refusal.resource, refusal.err)
				set, _ := observed()
				c := kube.NewCache(client, kube.Options{}, set)
				defer c.Release()
				c.Need(refusal.kind)
				require.NoError(t, c.WaitSynced(t.Context(), refusal.kind))
				become(errors.New("connection refused"))
				time.Sleep(5 * time.Minute) // in the synctest bubble
				synctest.Wait()
				state := c.State(refusal.kind)
				assert.Equal(t, refusal.phase, state.Phase)
				require.ErrorContains(t, state.Err, "connection refused")

				become(nil)
				time.Sleep(61 * time.Second) // in the synctest bubble
				synctest.Wait()
				assert.Equal(t, kube.Synced, c.State(refusal.kind).Phase)
			})
		})
	}
}

func TestEqualOptionsShareACacheUntilTheLastRelease(t *testing.T) {
	o := kube.Options{Config: kube.Config{AuthType: kube.AuthNone}, NodeName: "node-1"}
	set := componenttest.NewNopTelemetrySettings()
	first, err := kube.Acquire(o, set)
	require.NoError(t, err)
	second, err := kube.Acquire(o, set)
	require.NoError(t, err)
	assert.Same(t, first, second)

	o.NodeName = "node-2"
	other, err := kube.Acquire(o, set)
	require.NoError(t, err)
	assert.NotSame(t, first, other)
	other.Release()

	o.NodeName = "node-1"
	first.Release()
	third, err := kube.Acquire(o, set)
	require.NoError(t, err)
	assert.Same(t, second, third, "the cache is still in use")
	second.Release()
	third.Release()
	anew, err := kube.Acquire(o, set)
	require.NoError(t, err)
	assert.NotSame(t, first, anew)
	anew.Release()
}

func TestACacheWithoutAnAPIServerIsOff(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, authType := range []string{kube.AuthNone, kube.AuthServiceAccount} {
		t.Run(authType, func(t *testing.T) {
			core, logs := observer.New(zapcore.DebugLevel)
			set := componenttest.NewNopTelemetrySettings()
			set.Logger = zap.New(core)
			c, err := kube.Acquire(kube.Options{Config: kube.Config{AuthType: authType}}, set)
			require.NoError(t, err)
			defer c.Release()
			other, err := kube.Acquire(kube.Options{Config: kube.Config{AuthType: authType}, NodeName: "node-1"}, set)
			require.NoError(t, err)
			defer other.Release()
			c.Need(allKinds...)
			require.NoError(t, c.WaitSynced(t.Context(), allKinds...))
			assert.Nil(t, c.Client())
			assert.Empty(t, c.Pods())
			_, found := c.Pod("ml", "train-0")
			assert.False(t, found)
			c.Subscribe(kube.Pods, func() { t.Error("the state cannot change") })()
			c.SubscribeObjects(kube.Pods, cache.ResourceEventHandlerFuncs{})()
			state := c.State(kube.Pods)
			assert.Equal(t, kube.Off, state.Phase)
			if authType == kube.AuthNone {
				require.NoError(t, state.Err)
				assert.Zero(t, logs.Len(), "it is disabled in the configuration")
			} else {
				require.ErrorContains(t, state.Err, `auth_type is "serviceAccount"`)
				assert.Equal(t, 1, logs.Len(), "one line per configuration")
			}
		})
	}
}

func TestAKubeconfigThatCannotBeUsedIsAnError(t *testing.T) {
	missing := kube.Options{Config: kube.Config{AuthType: kube.AuthKubeConfig, KubeConfig: t.TempDir() + "/none"}}
	_, err := kube.Acquire(missing, componenttest.NewNopTelemetrySettings())
	require.ErrorContains(t, err, `/none", context is "":`)
}

func TestConfig(t *testing.T) {
	valid := kube.NewDefaultConfig()
	require.NoError(t, valid.Validate())
	for _, test := range []struct {
		cfg  kube.Config
		want string
	}{
		{kube.Config{AuthType: "tls"}, `auth_type is "tls": must be one of serviceAccount, kubeConfig, none`},
		{kube.Config{AuthType: "none", KubeConfig: "/k"}, `kubeconfig is "/k": must only be set with auth_type kubeConfig`},
		{kube.Config{AuthType: "none", Context: "c"}, `context is "c": must only be set with auth_type kubeConfig`},
		{kube.Config{AuthType: "kubeConfig", KubeConfig: "/k", Context: "c"}, ""},
	} {
		err := test.cfg.Validate()
		if test.want == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, test.want)
		}
	}
}
