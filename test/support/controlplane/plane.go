package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/notruntest"
)

// binariesEnv names the directory of etcd, kube-apiserver and kube-scheduler.
const binariesEnv = "OTELCOL_GPU_CONTROLPLANE"

// patience is how long a process of the plane may take to start, and to end, on a machine
// that compiles meanwhile.
const patience = time.Minute

// requestTimeout is the API server's bound for a request that is no watch.
const requestTimeout = 10 * time.Second

// Plane is a running API server with its etcd. Its methods are safe for concurrent use, except
// StopAPIServer and StartAPIServer.
type Plane struct {
	env        *envtest.Environment
	dir        string // everything that the plane writes
	httpClient *http.Client
	admin      kubernetes.Interface
	objects    client.Client
}

// shared is the plane of this test binary.
var shared struct {
	mu     sync.Mutex
	inMain bool
	start  func() (*Plane, error) // a sync.OnceValues: a failure is every test's failure
	plane  *Plane
}

// Main wraps m for TestMain: its Run runs the tests, until the process is interrupted, and
// stops the plane if one of them started it. It returns what goleak.VerifyTestMain takes.
func Main(m *testing.M) interface{ Run() int } { return runner{m} }

type runner struct{ m *testing.M }

func (r runner) Run() int {
	shared.mu.Lock()
	shared.inMain = true
	shared.mu.Unlock()

	// Ctrl-C reaches this process and not those of the plane, which have groups of their own.
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(interrupted)
	ended := make(chan int, 1)
	go func() { ended <- r.m.Run() }()
	var code int
	select {
	case code = <-ended:
	case <-interrupted:
		code = 1
	}

	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.inMain = false
	if shared.plane == nil {
		return code
	}
	err := shared.plane.stop()
	shared.plane, shared.start = nil, nil // tests may run again
	if err != nil {
		fmt.Fprintln(os.Stderr, "control plane:", err)
		return max(code, 1)
	}
	return code
}

// Start returns the running plane of this test binary, and starts it where it is not.
// It skips the test when OTELCOL_GPU_CONTROLPLANE is not set, and fails it when the
// plane does not start or [Main] is not there to stop it.
func Start(t testing.TB) *Plane {
	t.Helper()
	binaries := os.Getenv(binariesEnv)
	if binaries == "" {
		notruntest.Skip(t, "against an API server: "+binariesEnv+" does not name the directory of etcd, kube-apiserver and kube-scheduler; `make check` builds them and runs this")
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	require.True(t, shared.inMain, "TestMain has to run controlplane.Main(m), which stops the plane")
	if shared.start == nil {
		shared.start = sync.OnceValues(func() (*Plane, error) { return start(binaries) })
	}
	plane, err := shared.start()
	require.NoError(t, err)
	shared.plane = plane
	return plane
}

func start(binaries string) (_ *Plane, err error) {
	// Without a logger controller-runtime complains about that on stderr.
	log.SetLogger(logr.Discard())
	dir, err := os.MkdirTemp("", "otelcol-gpu-controlplane-")
	if err != nil {
		return nil, err
	}
	existing := false
	p := &Plane{dir: dir, env: &envtest.Environment{
		UseExistingCluster:       &existing,
		ControlPlaneStartTimeout: patience,
		ControlPlaneStopTimeout:  patience,
	}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.stop())
		}
	}()
	// Directories of our own survive a restart of the API server, and with them its
	// certificates and the keys that tokens are signed with.
	etcd := &envtest.Etcd{Path: filepath.Join(binaries, "etcd"), DataDir: filepath.Join(dir, "etcd")}
	api := p.env.ControlPlane.GetAPIServer()
	api.Path, api.CertDir = filepath.Join(binaries, "kube-apiserver"), filepath.Join(dir, "apiserver")
	p.env.ControlPlane.Etcd = etcd
	// A server that ends waits for its requests as long as one may take, also for open watches.
	api.Configure().Set("request-timeout", requestTimeout.String())
	api.Configure().Set("shutdown-send-retry-after", "true")
	for _, d := range []string{etcd.DataDir, api.CertDir} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return nil, err
		}
	}

	config, err := p.env.Start()
	if err != nil {
		return nil, err
	}
	if p.httpClient, err = rest.HTTPClientFor(config); err != nil {
		return nil, err
	}
	if p.admin, err = kubernetes.NewForConfigAndClient(config, p.httpClient); err != nil {
		return nil, err
	}
	objects, err := client.New(config, client.Options{Scheme: scheme.Scheme, HTTPClient: p.httpClient})
	if err != nil {
		return nil, err
	}
	p.objects = client.WithFieldValidation(objects, metav1.FieldValidationStrict)
	return p, nil
}

func (p *Plane) stop() error {
	if p.httpClient != nil {
		p.httpClient.CloseIdleConnections()
	}
	return errors.Join(p.env.Stop(), os.RemoveAll(p.dir))
}

// Admin returns a client that may do everything.
func (p *Plane) Admin() kubernetes.Interface { return p.admin }

// KubeConfig returns the path of a kubeconfig file whose user may do everything. The
// file lasts as long as the test.
func (p *Plane) KubeConfig(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, p.env.KubeConfig, 0o600))
	return path
}

// ServiceAccountKubeConfig returns the path of a kubeconfig file with a token of an
// existing service account, so its user may do what RBAC grants the account and
// nothing else. The file lasts as long as the test, the token an hour.
func (p *Plane) ServiceAccountKubeConfig(t testing.TB, namespace, name string) string {
	t.Helper()
	token, err := p.admin.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	config := clientcmdapi.NewConfig()
	config.Clusters["plane"] = &clientcmdapi.Cluster{Server: p.env.Config.Host, CertificateAuthorityData: p.env.Config.CAData}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: "plane", AuthInfo: name, Namespace: namespace}
	config.CurrentContext = name
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*config, path))
	return path
}

// StopAPIServer takes the API server away, as an outage would: connections end and its
// port refuses. etcd keeps the objects. It is back with StartAPIServer, at the latest
// when the test ends; no other test may run beside this one.
func (p *Plane) StopAPIServer(t testing.TB) {
	t.Helper()
	require.NoError(t, p.env.ControlPlane.APIServer.Stop())
	t.Cleanup(func() { p.StartAPIServer(t) })
}

// StartAPIServer brings a stopped API server back, at the same address and with the
// same certificates and tokens; where it runs already, nothing happens.
func (p *Plane) StartAPIServer(t testing.TB) {
	t.Helper()
	_, err := p.admin.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(context.WithoutCancel(t.Context()))
	if err == nil {
		return
	}
	require.NoError(t, p.env.ControlPlane.APIServer.Start())
}
