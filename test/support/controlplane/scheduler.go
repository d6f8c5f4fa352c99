package controlplane

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// StartScheduler runs kube-scheduler until the test ends, and returns when its caches
// are filled. What it said is in the test's log if the test fails.
func (p *Plane) StartScheduler(t testing.TB) {
	t.Helper()
	api := p.env.ControlPlane.APIServer
	address := freeAddress(t)
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	kubeconfig := p.KubeConfig(t)

	//nolint:gosec // the binary is the one that the caller's environment names
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(filepath.Dir(api.Path), "kube-scheduler"),
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--leader-elect=false", "--bind-address=127.0.0.1", "--secure-port="+port,
		// The API server's own certificate: it is for this address as well.
		"--tls-cert-file="+filepath.Join(api.CertDir, "apiserver.crt"), "--tls-private-key-file="+filepath.Join(api.CertDir, "apiserver.key"))
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(patience):
			assert.Fail(t, "kube-scheduler does not end")
			_ = cmd.Process.Kill()
			<-ended
		}
		if t.Failed() {
			t.Logf("kube-scheduler:\n%s", &output)
		}
	})

	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(p.env.Config.CAData))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	defer client.CloseIdleConnections()
	ready := func() bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/readyz", http.NoBody)
		require.NoError(t, err)
		response, err := client.Do(request)
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	}
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	tooLate := time.After(patience)
	for !ready() {
		select {
		case <-poll.C:
		case <-ended:
			require.FailNow(t, "kube-scheduler ended before it was ready")
		case <-tooLate:
			require.FailNow(t, "kube-scheduler does not become ready")
		}
	}
}

func freeAddress(t testing.TB) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}
