package kube

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"net"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/collector/confmap"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
)

const (
	// maxPodResources is the maximum size of a response from the kubelet, in bytes. gRPC's default
	// of 4 MiB is too small for nodes with many pods.
	maxPodResources = 16 << 20
	// maxPodResourcesBackoff is the maximum pause between polls after failures, unless the polling
	// interval is longer.
	maxPodResourcesBackoff = time.Minute
	// podResourcesJitter randomizes the pauses between polls. The value is the width of the range
	// of possible pauses, as a fraction of the pause. Without randomization, several pollers on a
	// node could always poll at the same time and exceed the kubelet's rate limit.
	podResourcesJitter = 0.1
)

// PodResourcesConfig configures polling of the kubelet's PodResources API.
type PodResourcesConfig struct {
	// Enabled enables polling.
	Enabled bool `mapstructure:"enabled"`

	// Socket is the path of the kubelet's socket or of another socket that serves the same API,
	// such as koordlet's. Mount the directory that contains the socket instead of the socket
	// itself, because the kubelet creates a new socket when it restarts.
	Socket string `mapstructure:"socket"`

	// Interval is the polling interval. After the second consecutive failure and each further
	// failure, the client doubles the interval, up to one minute. When a poll succeeds, the client
	// uses the configured interval again.
	Interval time.Duration `mapstructure:"interval"`

	// Timeout is the maximum duration of one poll.
	Timeout time.Duration `mapstructure:"timeout"`
}

var _ confmap.Validator = (*PodResourcesConfig)(nil)

// NewDefaultPodResourcesConfig returns the default configuration, which polls the kubelet every 10
// s.
func NewDefaultPodResourcesConfig() PodResourcesConfig {
	return PodResourcesConfig{
		Enabled:  true,
		Socket:   "/var/lib/kubelet/pod-resources/kubelet.sock",
		Interval: 10 * time.Second,
		Timeout:  5 * time.Second,
	}
}

// Validate implements confmap.Validator. Each error message includes the field's name, its value,
// and the allowed values. If polling is disabled, Validate does not check the other settings.
func (c *PodResourcesConfig) Validate() error {
	if !c.Enabled {
		return nil
	}
	var p componenthelper.Problems
	p.Check(filepath.IsAbs(c.Socket), "socket is %q: must be an absolute path", c.Socket)
	componenthelper.Between(&p, "interval", c.Interval, time.Second, 10*time.Minute)
	// Because a number without a unit is interpreted as nanoseconds, this minimum also detects
	// missing units.
	p.Check(c.Timeout >= 10*time.Millisecond && c.Timeout <= time.Minute,
		"timeout is %s: must be between 10ms and 1m0s; write the unit, as in 5s", c.Timeout)
	return p.Err()
}

// ContainerResources contains the devices that are allocated to an app container or a sidecar.
type ContainerResources struct {
	Namespace, Pod, Container string
	Devices                   []DeviceRef   // Devices that device plugins allocated.
	Claims                    []ClaimDevice // Devices that were allocated through dynamic resource allocation.
}

// DeviceRef is a device that a device plugin allocated.
type DeviceRef struct {
	Resource string // Such as nvidia.com/gpu.
	ID       string // The ID of the device, as the device plugin spells it.
}

// ClaimDevice is a device that is allocated to a ResourceClaim. The kubelet reports neither the
// claim's UID nor which of the claim's requests the device satisfies.
type ClaimDevice struct {
	Namespace, Claim     string // namespace and name of the ResourceClaim
	Driver, Pool, Device string
	ShareID              string // distinguishes the shares of one device; "" if the device is not shared
}

// PodResources polls the kubelet for the devices that are allocated to containers on its node. All
// methods are safe for concurrent use.
type PodResources struct {
	cfg    PodResourcesConfig
	logger *zap.Logger
	list   func(context.Context) ([]ContainerResources, error)

	startOnce sync.Once
	ctx       context.Context // context of the polls
	cancel    context.CancelFunc
	running   sync.WaitGroup

	changes componenthelper.Notices

	mu         sync.Mutex
	resources  []ContainerResources
	lastAnswer time.Time // time of the last successful response; zero before the first successful response
	state      State
}

// NewPodResources returns a client. The client does not perform any I/O until it is started.
func NewPodResources(cfg PodResourcesConfig, logger *zap.Logger) *PodResources {
	p := &PodResources{cfg: cfg, logger: logger.With(zap.String("socket", cfg.Socket))}
	p.list = func(ctx context.Context) ([]ContainerResources, error) { return listPodResources(ctx, cfg.Socket) }
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Start starts polling the kubelet. The first poll starts immediately, but Start does not wait for
// the response.
func (p *PodResources) Start() {
	p.startOnce.Do(func() {
		p.mu.Lock()
		p.state = State{Phase: Syncing, Since: time.Now()}
		p.mu.Unlock()
		p.running.Go(p.run)
	})
}

// Shutdown stops polling. If a poll is in progress, Shutdown cancels the poll and waits until it has
// ended. Shutdown may be called more than once, and even if Start was not called.
func (p *PodResources) Shutdown() {
	p.startOnce.Do(func() {}) // a later Start has no effect
	p.cancel()
	p.running.Wait()
}

// Snapshot returns the resources in the last successful response, the time at which the response
// arrived, and the state of the source. Before the first successful response, the time is zero.
// Before Start is called, the state is Off. Between the call to Start and the first successful
// response, the state is Absent if the socket does not exist, Forbidden if the client has no
// permission to open the socket, and Syncing otherwise. After the first successful response, the
// state is Synced, or Stale if the last poll failed. The resources are sorted. Callers must not
// modify the resources.
func (p *PodResources) Snapshot() (resources []ContainerResources, at time.Time, state State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.resources, p.lastAnswer, p.state
}

// Subscribe starts a goroutine that calls f whenever the resources or the state change. In all
// other respects, Subscribe works like [Cache.Subscribe].
func (p *PodResources) Subscribe(f func()) (unsubscribe func()) { return p.changes.Subscribe(f) }

// WaitSettled waits until the state is settled or ctx is done.
func (p *PodResources) WaitSettled(ctx context.Context) error {
	return waitSettled(ctx, p.Subscribe, func() State {
		_, _, state := p.Snapshot()
		return state
	})
}

func (p *PodResources) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	failures := 0
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-timer.C:
		}
		if p.poll() {
			failures = 0
		} else {
			failures++
		}
		timer.Reset(p.pause(failures))
	}
}

// The pause method returns how long to wait before the next poll after the given number of
// consecutive failures.
func (p *PodResources) pause(failures int) time.Duration {
	pause := p.cfg.Interval
	for limit := max(pause, maxPodResourcesBackoff); failures > 1 && pause < limit; failures-- {
		pause = min(2*pause, limit)
	}
	return pause + time.Duration(podResourcesJitter*(rand.Float64()-0.5)*float64(pause))
}

// poll polls the kubelet once and reports whether the poll succeeded.
func (p *PodResources) poll() bool {
	ctx, cancel := context.WithTimeout(p.ctx, p.cfg.Timeout)
	defer cancel()
	resources, err := p.list(ctx)
	if p.ctx.Err() != nil {
		return false // Shutdown was called, so the result is ignored
	}
	now := time.Now()

	p.mu.Lock()
	defer p.mu.Unlock()
	phase := Synced
	changed := false
	switch {
	case err == nil:
		changed = p.lastAnswer.IsZero() || !reflect.DeepEqual(p.resources, resources)
		p.lastAnswer = now
		if changed {
			p.resources = resources
		}
	case !p.lastAnswer.IsZero():
		phase = Stale
	case errors.Is(err, fs.ErrNotExist):
		phase = Absent
	case errors.Is(err, fs.ErrPermission):
		phase = Forbidden
	default:
		phase = Syncing
	}
	if p.state.update(phase, err, now) {
		changed = true
		p.log()
	}
	if changed {
		p.changes.Notify()
	}
	return err == nil
}

// log logs the state. The caller must hold mu.
func (p *PodResources) log() {
	logger := p.logger.With(zap.Stringer("state", p.state.Phase))
	switch {
	case p.state.Err == nil:
		logger.Info("The kubelet's PodResources API responds")
	case p.state.Phase == Absent:
		logger.Info("The kubelet's PodResources socket does not exist", zap.Error(p.state.Err))
	default:
		logger.Warn("The kubelet's PodResources API does not respond", zap.Error(p.state.Err))
	}
}

// listPodResources opens a new connection and lists all resources. Opening a new connection for
// each poll is cheap, and works even after the kubelet has recreated the socket. listPodResources
// dials the socket itself for two reasons. First, gRPC would log every attempt to open a missing
// socket. Second, gRPC's errors would hide errors such as [fs.ErrNotExist].
func listPodResources(ctx context.Context, socket string) ([]ContainerResources, error) {
	dialed, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dialed.Close() }()
	unused := make(chan net.Conn, 1)
	unused <- dialed
	dial := func(context.Context, string) (net.Conn, error) {
		select {
		case conn := <-unused:
			return conn, nil
		default:
			return nil, net.ErrClosed // the kubelet has closed the connection
		}
	}
	conn, err := grpc.NewClient("passthrough:///kubelet",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(dial),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxPodResources)))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	response, err := podresourcesv1.NewPodResourcesListerClient(conn).List(ctx, &podresourcesv1.ListPodResourcesRequest{})
	if err != nil {
		return nil, err
	}
	return containersOf(response), nil
}

// containersOf returns a response's containers that have devices. containersOf sorts the containers
// and their devices, so that equal responses result in equal slices.
func containersOf(response *podresourcesv1.ListPodResourcesResponse) []ContainerResources {
	var containers []ContainerResources
	for _, pod := range response.GetPodResources() {
		for _, c := range pod.GetContainers() {
			container := ContainerResources{
				Namespace: pod.GetNamespace(), Pod: pod.GetName(), Container: c.GetName(),
				Devices: devicesOf(c), Claims: claimsOf(c),
			}
			if container.Devices != nil || container.Claims != nil {
				containers = append(containers, container)
			}
		}
	}
	slices.SortFunc(containers, func(a, b ContainerResources) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container))
	})
	return containers
}

func devicesOf(c *podresourcesv1.ContainerResources) []DeviceRef {
	var devices []DeviceRef
	for _, d := range c.GetDevices() {
		for _, id := range d.GetDeviceIds() {
			devices = append(devices, DeviceRef{Resource: d.GetResourceName(), ID: id})
		}
	}
	slices.SortFunc(devices, func(a, b DeviceRef) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.ID, b.ID))
	})
	// The kubelet lists a device once for each NUMA node to which the device belongs.
	return slices.Compact(devices)
}

func claimsOf(c *podresourcesv1.ContainerResources) []ClaimDevice {
	var claims []ClaimDevice
	for _, r := range c.GetDynamicResources() {
		for _, d := range r.GetClaimResources() {
			claims = append(claims, ClaimDevice{
				Namespace: r.GetClaimNamespace(), Claim: r.GetClaimName(),
				Driver: d.GetDriverName(), Pool: d.GetPoolName(), Device: d.GetDeviceName(), ShareID: d.GetShareId(),
			})
		}
	}
	slices.SortFunc(claims, func(a, b ClaimDevice) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Claim, b.Claim), cmp.Compare(a.Driver, b.Driver),
			cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Device, b.Device), cmp.Compare(a.ShareID, b.ShareID))
	})
	return claims
}
