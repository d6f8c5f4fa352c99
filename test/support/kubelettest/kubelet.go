// Package kubelettest is a kubelet for tests: the real PodResources service, in
// gRPC over a unix socket, whose answers a test sets.
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

// Kubelet serves the PodResources API on a socket. All methods but those with a
// test are safe for concurrent use.
type Kubelet struct {
	podresourcesv1.UnimplementedPodResourcesListerServer

	socket string
	server *grpc.Server
	served chan error

	mu       sync.Mutex
	response *podresourcesv1.ListPodResourcesResponse
	err      error
	hold     chan struct{} // closed when answers may leave; nil: at once
	lists    int
	listed   chan struct{} // closed by the next question
}

// Start starts a kubelet without devices, which ends with the test.
func Start(t testing.TB) *Kubelet {
	t.Helper()
	// t.TempDir may be too long for the path of a socket.
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

// Socket is the path of the socket.
func (k *Kubelet) Socket() string { return k.socket }

// Listen makes the socket and serves it; it is for a kubelet that was stopped.
func (k *Kubelet) Listen(t testing.TB) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", k.socket)
	require.NoError(t, err)
	k.server, k.served = grpc.NewServer(grpc.MaxSendMsgSize(64<<20)), make(chan error, 1)
	podresourcesv1.RegisterPodResourcesListerServer(k.server, k)
	go func(server *grpc.Server) { k.served <- server.Serve(listener) }(k.server)
}

// Stop ends the server and deletes the socket, as a kubelet does that stops. It
// may be called again.
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

// Set sets the devices that are reported from now on, and ends failing.
func (k *Kubelet) Set(resources ...kube.ContainerResources) {
	k.SetResponse(Response(resources...))
}

// SetResponse sets the answer from now on, and ends failing.
func (k *Kubelet) SetResponse(response *podresourcesv1.ListPodResourcesResponse) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.response, k.err = response, nil
}

// Fail makes the kubelet answer with an error of that code from now on, such as
// [codes.ResourceExhausted], which is how it limits the rate.
func (k *Kubelet) Fail(code codes.Code, message string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = status.Error(code, message)
}

// Hold keeps answers back until Release or until the client gives up.
func (k *Kubelet) Hold() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hold == nil {
		k.hold = make(chan struct{})
	}
}

// Release lets answers leave again.
func (k *Kubelet) Release() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hold != nil {
		close(k.hold)
		k.hold = nil
	}
}

// AwaitLists waits until the kubelet was asked n times more. When it was asked
// twice, a client that does one thing at a time has read the answer to the first.
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
			require.FailNow(t, "the kubelet was not asked")
		}
	}
}

// List implements the service.
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

// Response is the answer that reports these containers. Containers of a pod
// follow each other.
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
