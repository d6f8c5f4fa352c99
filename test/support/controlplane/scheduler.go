package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// StartScheduler starts a kube-scheduler that runs until the end of the test, and returns after the
// scheduler's caches are filled. If the test fails, the scheduler's output is added to the test's
// log.
func (p *Plane) StartScheduler(t testing.TB) *processtest.Process {
	t.Helper()
	api := p.env.ControlPlane.APIServer
	address := processtest.FreeAddress(t)
	kubeconfig := p.KubeConfig(t)

	//nolint:gosec // the binary is the one that the caller's environment names
	scheduler := processtest.Start(t, exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(filepath.Dir(api.Path), "kube-scheduler"),
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--feature-gates="+featureGates, "--leader-elect=false", "--bind-address=127.0.0.1", "--secure-port="+processtest.Port(t, address),
		// The scheduler can use the API server's certificate, which is also valid for the
		// scheduler's address.
		"--tls-cert-file="+filepath.Join(api.CertDir, "apiserver.crt"), "--tls-private-key-file="+filepath.Join(api.CertDir, "apiserver.key")))

	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(p.env.Config.CAData))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	defer client.CloseIdleConnections()
	processtest.Until(t, "kube-scheduler", func() bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/readyz", http.NoBody)
		require.NoError(t, err)
		response, err := client.Do(request)
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, scheduler)
	return scheduler
}
