// Package kubelettest provides a fake kubelet for tests. The fake serves the PodResources API over
// gRPC on a Unix socket and returns responses that the test sets.
package kubelettest

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// Kubelet serves the PodResources API on a Unix socket. All methods that do not take a testing.TB
// are safe for concurrent use.
type Kubelet struct {
	podresourcesv1.UnimplementedPodResourcesListerServer

	socket string
	server *grpc.Server
	served chan error

	mu       sync.Mutex
	response *podresourcesv1.ListPodResourcesResponse
	err      error
	hold     chan struct{} // closed when responses may be sent; nil if they are sent immediately
	lists    int
	listed   chan struct{} // closed by the next List call
}

// Start starts a kubelet that lists no devices and runs until the end of the test.
func Start(t testing.TB) *Kubelet {
	t.Helper()
	// Do not use t.TempDir, whose path may be too long for a socket.
	dir, err := os.MkdirTemp("", "kubelet") //nolint:usetesting // See above.
	require.NoError(t, err)
	k := &Kubelet{
		socket:   filepath.Join(dir, "kubelet.sock"),
		response: &podresourcesv1.ListPodResourcesResponse{},
		listed:   make(chan struct{}),
	}
	k.Listen(t)
	t.Cleanup(func() {
		k.Release()
		k.Stop(t)
		require.NoError(t, os.RemoveAll(dir))
	})
	return k
}

// Socket returns the path of the socket.
func (k *Kubelet) Socket() string { return k.socket }

// Listen creates the socket and serves the API. A test calls Listen after Stop to serve the API
// again.
func (k *Kubelet) Listen(t testing.TB) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", k.socket)
	require.NoError(t, err)
	k.server, k.served = grpc.NewServer(grpc.MaxSendMsgSize(64<<20)), make(chan error, 1)
	podresourcesv1.RegisterPodResourcesListerServer(k.server, k)
	go func(server *grpc.Server) { k.served <- server.Serve(listener) }(k.server)
}

// Stop stops the server and deletes the socket, as a kubelet does when it stops. Stop may be called
// more than once.
func (k *Kubelet) Stop(t testing.TB) {
	t.Helper()
	if k.server == nil {
		return
	}
	k.server.Stop()
	require.NoError(t, <-k.served)
	k.server = nil
	if err := os.Remove(k.socket); !errors.Is(err, os.ErrNotExist) {
		require.NoError(t, err)
	}
}

// Set sets the listed containers and cancels the effect of Fail.
func (k *Kubelet) Set(resources ...kube.ContainerResources) {
	k.SetResponse(Response(resources...))
}

// SetResponse sets the response and cancels the effect of Fail.
func (k *Kubelet) SetResponse(response *podresourcesv1.ListPodResourcesResponse) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.response, k.err = response, nil
}

// Fail makes the kubelet return an error with the given code. For example, a kubelet returns
// [codes.ResourceExhausted] if its rate limit is exceeded.
func (k *Kubelet) Fail(code codes.Code, message string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = status.Error(code, message)
}

// Hold delays all responses until Release is called or the client cancels the request.
func (k *Kubelet) Hold() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hold == nil {
		k.hold = make(chan struct{})
	}
}

// Release sends all delayed responses and stops delaying responses.
func (k *Kubelet) Release() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hold != nil {
		close(k.hold)
		k.hold = nil
	}
}

// AwaitLists waits for n more List calls. If a client sends only one request at a time, the client
// has processed the response to the first call by the time it makes the second call.
func (k *Kubelet) AwaitLists(t testing.TB, n int) {
	t.Helper()
	k.mu.Lock()
	until := k.lists + n
	k.mu.Unlock()
	for {
		k.mu.Lock()
		lists, listed := k.lists, k.listed
		k.mu.Unlock()
		if lists >= until {
			return
		}
		select {
		case <-listed:
		case <-t.Context().Done():
			require.FailNow(t, "the kubelet received no request")
		}
	}
}

// List implements the PodResources service.
func (k *Kubelet) List(
	ctx context.Context,
	_ *podresourcesv1.ListPodResourcesRequest,
) (*podresourcesv1.ListPodResourcesResponse, error) {
	k.mu.Lock()
	k.lists++
	close(k.listed)
	k.listed = make(chan struct{})
	response, err, hold := k.response, k.err, k.hold
	k.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return response, err
}

// Response returns a response that lists the given containers. Containers of the same pod must be
// adjacent.
func Response(resources ...kube.ContainerResources) *podresourcesv1.ListPodResourcesResponse {
	response := &podresourcesv1.ListPodResourcesResponse{}
	for _, r := range resources {
		container := &podresourcesv1.ContainerResources{Name: r.Container}
		for _, d := range r.Devices {
			container.Devices = append(container.Devices,
				&podresourcesv1.ContainerDevices{ResourceName: d.Resource, DeviceIds: []string{d.ID}})
		}
		for _, c := range r.Claims {
			container.DynamicResources = append(container.DynamicResources, dynamicResource(c))
		}
		pod := podOf(response, r.Namespace, r.Pod)
		pod.Containers = append(pod.Containers, container)
	}
	return response
}

func podOf(response *podresourcesv1.ListPodResourcesResponse, namespace, name string) *podresourcesv1.PodResources {
	i := slices.IndexFunc(response.GetPodResources(), func(p *podresourcesv1.PodResources) bool {
		return p.GetNamespace() == namespace && p.GetName() == name
	})
	if i >= 0 {
		return response.GetPodResources()[i]
	}
	pod := &podresourcesv1.PodResources{Namespace: namespace, Name: name}
	response.PodResources = append(response.PodResources, pod)
	return pod
}

func dynamicResource(c kube.ClaimDevice) *podresourcesv1.DynamicResource {
	device := &podresourcesv1.ClaimResource{DriverName: c.Driver, PoolName: c.Pool, DeviceName: c.Device}
	if c.ShareID != "" {
		device.ShareId = &c.ShareID
	}
	return &podresourcesv1.DynamicResource{
		ClaimNamespace: c.Namespace, ClaimName: c.Claim,
		ClaimResources: []*podresourcesv1.ClaimResource{device},
	}
}
