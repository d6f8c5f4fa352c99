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

// binariesEnv is the name of the environment variable for the directory that contains etcd,
// kube-apiserver, and kube-scheduler.
const binariesEnv = "OTELCOL_GPU_CONTROLPLANE"

// patience is the maximum time that a process of the plane may take to start or stop on a machine
// that is busy compiling.
const patience = time.Minute

// requestTimeout is the API server's timeout for requests other than watches.
const requestTimeout = 10 * time.Second

// featureGates and alphaAPIs enable PodGroups, claims that are reserved for PodGroups, and
// DeviceTaintRules, which Kubernetes 1.36 does not enable by default.
const (
	featureGates = "GenericWorkload=true,DRAWorkloadResourceClaims=true,DRADeviceTaintRules=true"
	alphaAPIs    = "scheduling.k8s.io/v1alpha2=true,resource.k8s.io/v1beta2=true"
)

// Plane is a running API server with etcd. All methods except StopAPIServer and StartAPIServer are
// safe for concurrent use.
type Plane struct {
	env        *envtest.Environment
	dir        string // directory for all files that the plane writes
	httpClient *http.Client
	admin      kubernetes.Interface
	objects    client.Client
}

// shared is the plane of this test binary.
var shared struct {
	mu     sync.Mutex
	inMain bool
	start  func() (*Plane, error) // from sync.OnceValues, so that every test gets the same error
	plane  *Plane
}

// Main wraps m for use in TestMain. The result's Run method runs the tests until they end or the
// process is interrupted, and then stops the plane if a test started it. The result can be passed
// to goleak.VerifyTestMain.
func Main(m *testing.M) interface{ Run() int } { return runner{m} }

type runner struct{ m *testing.M }

func (r runner) Run() int {
	shared.mu.Lock()
	shared.inMain = true
	shared.mu.Unlock()

	// Handle interrupts, because Ctrl-C sends a signal to this process but not to the plane's
	// processes, which are in separate process groups.
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
	shared.plane, shared.start = nil, nil // Run may be called again
	if err != nil {
		fmt.Fprintln(os.Stderr, "control plane:", err)
		return max(code, 1)
	}
	return code
}

// Start returns the plane of this test binary and, if necessary, starts the plane first. If
// OTELCOL_GPU_CONTROLPLANE is not set, Start skips the test. The test fails if the plane does not
// start or if TestMain does not call [Main], which stops the plane.
func Start(t testing.TB) *Plane {
	t.Helper()
	binaries := os.Getenv(binariesEnv)
	if binaries == "" {
		notruntest.Skip(t, "against an API server: "+binariesEnv+" is not the directory of etcd, kube-apiserver and kube-scheduler; `make check` builds them and runs this test")
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	require.True(t, shared.inMain, "TestMain must run controlplane.Main(m), which stops the plane")
	if shared.start == nil {
		shared.start = sync.OnceValues(func() (*Plane, error) { return start(binaries) })
	}
	plane, err := shared.start()
	require.NoError(t, err)
	shared.plane = plane
	return plane
}

func start(binaries string) (_ *Plane, err error) {
	// Without a logger, controller-runtime prints a warning to stderr.
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
	// Use separate directories, which are kept when the API server is restarted. The directories
	// contain etcd's data and the API server's certificates and token signing keys.
	etcd := &envtest.Etcd{Path: filepath.Join(binaries, "etcd"), DataDir: filepath.Join(dir, "etcd")}
	api := p.env.ControlPlane.GetAPIServer()
	api.Path, api.CertDir = filepath.Join(binaries, "kube-apiserver"), filepath.Join(dir, "apiserver")
	p.env.ControlPlane.Etcd = etcd
	// Shorten the request timeout, because at shutdown, the API server waits up to this timeout for
	// running requests, including open watches.
	api.Configure().Set("request-timeout", requestTimeout.String())
	api.Configure().Set("shutdown-send-retry-after", "true")
	api.Configure().Set("feature-gates", featureGates)
	api.Configure().Set("runtime-config", alphaAPIs)
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

// Admin returns a client with all permissions.
func (p *Plane) Admin() kubernetes.Interface { return p.admin }

// KubeConfig returns the path of a kubeconfig file for a user with all permissions. The file is
// removed at the end of the test.
func (p *Plane) KubeConfig(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, p.env.KubeConfig, 0o600))
	return path
}

// ServiceAccountKubeConfig returns the path of a kubeconfig file with a token for an existing
// service account. The service account has only the permissions that RBAC grants. The token is
// valid for an hour. The file is removed at the end of the test.
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

// StopAPIServer stops the API server to simulate an outage. Open connections are closed, and new
// connections are refused. etcd keeps the objects. The API server is started again by
// StartAPIServer or at the end of the test. No other test may run at the same time.
func (p *Plane) StopAPIServer(t testing.TB) {
	t.Helper()
	require.NoError(t, p.env.ControlPlane.APIServer.Stop())
	t.Cleanup(func() { p.StartAPIServer(t) })
}

// StartAPIServer starts the API server again after StopAPIServer, with the same address,
// certificates, and valid tokens. If the API server is running, StartAPIServer does nothing.
func (p *Plane) StartAPIServer(t testing.TB) {
	t.Helper()
	_, err := p.admin.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(context.WithoutCancel(t.Context()))
	if err == nil {
		return
	}
	require.NoError(t, p.env.ControlPlane.APIServer.Start())
}
