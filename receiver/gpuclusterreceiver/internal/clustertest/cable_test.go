package clustertest

import (
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
)

// cable lies between a receiver and the API server, and can be cut.
type cable struct {
	server   string
	listener net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]struct{}
}

// lay returns a cable and a kubeconfig file that leads through it.
func lay(t *testing.T, kubeconfig string) (*cable, string) {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	require.NoError(t, err)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &cable{listener: listener, conns: map[net.Conn]struct{}{}}
	for _, cluster := range config.Clusters {
		u, err := url.Parse(cluster.Server)
		require.NoError(t, err)
		c.server = u.Host
		u.Host = listener.Addr().String()
		cluster.Server = u.String()
	}
	c.running.Go(c.accept)
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		c.setCut(true)
		c.running.Wait()
	})
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*config, path))
	return c, path
}

func (c *cable) accept() {
	for {
		near, err := c.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", c.server)
		if err != nil || !c.add(near, far) {
			_ = near.Close()
			if err == nil {
				_ = far.Close()
			}
			continue
		}
		for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
			c.running.Go(func() {
				_, _ = io.Copy(pair[0], pair[1])
				_ = near.Close()
				_ = far.Close()
			})
		}
	}
}

func (c *cable) add(conns ...net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range conns {
		c.conns[conn] = struct{}{}
	}
	return !c.cut
}

// setCut cuts the cable, with every connection through it, or mends it.
func (c *cable) setCut(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	for conn := range c.conns {
		_ = conn.Close()
	}
	clear(c.conns)
}
