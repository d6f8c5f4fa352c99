package cluster

import (
	"context"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
)

// way is a TCP proxy to an API server. A test can block the proxy.
type way struct {
	kubeconfig string // kubeconfig that connects through the proxy
	address    string
	target     string

	mu          sync.Mutex
	listener    net.Listener
	connections []net.Conn
	running     sync.WaitGroup
}

// wayTo starts a proxy to the API server in the given kubeconfig.
func wayTo(t *testing.T, kubeconfig string) *way {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	require.NoError(t, err)
	w := &way{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), address: "127.0.0.1:0"}
	for _, cluster := range config.Clusters {
		u, err := url.Parse(cluster.Server)
		require.NoError(t, err)
		w.target = u.Host
		w.open(t)
		cluster.Server = "https://" + w.address
	}
	require.NoError(t, clientcmd.WriteToFile(*config, w.kubeconfig))
	t.Cleanup(w.block)
	return w
}

// open makes the proxy accept connections again.
func (w *way) open(t *testing.T) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", w.address)
	require.NoError(t, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listener, w.address = listener, listener.Addr().String()
	w.running.Go(func() { w.serve(listener) })
}

func (w *way) serve(listener net.Listener) {
	for {
		near, err := listener.Accept()
		if err != nil {
			return
		}
		far, err := new(net.Dialer).DialContext(context.Background(), "tcp", w.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		w.mu.Lock()
		w.connections = append(w.connections, near, far)
		w.mu.Unlock()
		for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
			w.running.Go(func() {
				_, _ = io.Copy(pair[0], pair[1])
				_, _ = pair[0].Close(), pair[1].Close()
			})
		}
	}
}

// cut closes all current connections.
func (w *way) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.connections {
		_ = c.Close()
	}
	w.connections = nil
}

// block closes all current connections and refuses new ones.
func (w *way) block() {
	w.mu.Lock()
	_ = w.listener.Close()
	w.mu.Unlock()
	w.cut()
	w.running.Wait()
}
