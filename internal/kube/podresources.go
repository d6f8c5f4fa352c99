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

	base "github.com/otelcol-gpu/otelcol-gpu/internal/component"
)

const (
	// maxPodResources is the largest answer of the kubelet in bytes; gRPC's
	// default of 4 MiB is too little for nodes with many pods.
	maxPodResources = 16 << 20
	// maxPodResourcesBackoff is the longest pause after failures, unless the
	// interval is longer.
	maxPodResourcesBackoff = time.Minute
	// podResourcesJitter is the share of a pause that is random, so that the
	// pollers of a node do not meet in the kubelet's rate limit again and again.
	podResourcesJitter = 0.1
)

// PodResourcesConfig says how the kubelet's PodResources API is polled.
type PodResourcesConfig struct {
	// Enabled says that the kubelet is polled.
	Enabled bool `mapstructure:"enabled"`

	// Socket is the path of the kubelet's socket, or of one that serves the same
	// API, such as koordlet's. Mount its directory, not the socket: the kubelet
	// makes the socket anew when it restarts.
	Socket string `mapstructure:"socket"`

	// Interval is the time from one poll to the next. From the second failure in
	// a row on it is doubled, up to a minute, until a poll succeeds.
	Interval time.Duration `mapstructure:"interval"`

	// Timeout bounds one poll.
	Timeout time.Duration `mapstructure:"timeout"`
}

var _ confmap.Validator = (*PodResourcesConfig)(nil)

// NewDefaultPodResourcesConfig polls the kubelet every 10 s.
func NewDefaultPodResourcesConfig() PodResourcesConfig {
	return PodResourcesConfig{
		Enabled:  true,
		Socket:   "/var/lib/kubelet/pod-resources/kubelet.sock",
		Interval: 10 * time.Second,
		Timeout:  5 * time.Second,
	}
}

// Validate implements confmap.Validator. Each error names the field, its value
// and what is allowed. What is not used is not checked.
func (c *PodResourcesConfig) Validate() error {
	if !c.Enabled {
		return nil
	}
	var p base.Problems
	p.Check(filepath.IsAbs(c.Socket), "socket is %q: must be an absolute path", c.Socket)
	base.Between(&p, "interval", c.Interval, time.Second, 10*time.Minute)
	// A duration without its unit is one in nanoseconds: the bounds tell.
	p.Check(c.Timeout >= 10*time.Millisecond && c.Timeout <= time.Minute,
		"timeout is %s: must be between 10ms and 1m0s; write the unit, as in 5s", c.Timeout)
	return p.Err()
}

// ContainerResources are the devices of one container, app container or sidecar.
type ContainerResources struct {
	Namespace, Pod, Container string
	Devices                   []DeviceRef   // by device plugins
	Claims                    []ClaimDevice // by dynamic resource allocation
}

// DeviceRef is one device that a device plugin gave out.
type DeviceRef struct {
	Resource string // such as nvidia.com/gpu
	ID       string // as the plugin wrote it
}

// ClaimDevice is one device of a resource claim. The kubelet gives neither the
// claim's uid nor the request that the device is for.
type ClaimDevice struct {
	Namespace, Claim     string // namespace and name of the ResourceClaim
	Driver, Pool, Device string
	ShareID              string // tells the shares of one device apart; empty where it is not shared so
}

// PodResources polls the kubelet for the devices of the containers of its node.
// Containers without devices are left out. All methods are safe for concurrent
// use.
type PodResources struct {
	cfg    PodResourcesConfig
	logger *zap.Logger
	list   func(context.Context) ([]ContainerResources, error)

	startOnce sync.Once
	ctx       context.Context // of the polls
	cancel    context.CancelFunc
	running   sync.WaitGroup

	changes base.Notices

	mu        sync.Mutex
	resources []ContainerResources
	at        time.Time // of the last good answer; zero before the first
	state     State
}

// NewPodResources returns a client that Start starts. It does no I/O.
func NewPodResources(cfg PodResourcesConfig, logger *zap.Logger) *PodResources {
	p := &PodResources{cfg: cfg, logger: logger.With(zap.String("socket", cfg.Socket))}
	p.list = func(ctx context.Context) ([]ContainerResources, error) { return listPodResources(ctx, cfg.Socket) }
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Start begins to poll, at once and then at the interval; it does not wait for
// the first answer.
func (p *PodResources) Start() {
	p.startOnce.Do(func() {
		p.mu.Lock()
		p.state = State{Phase: Syncing, Since: time.Now()}
		p.mu.Unlock()
		p.running.Go(p.run)
	})
}

// Shutdown ends a poll in flight and waits for it. It may be called without
// Start and more than once.
func (p *PodResources) Shutdown() {
	p.startOnce.Do(func() {}) // never start after this
	p.cancel()
	p.running.Wait()
}

// Snapshot returns the last good answer, when it was given (zero: never) and the
// state of the source: Off before Start; before the first answer Syncing, Absent
// where there is no socket, or Forbidden where it may not be opened; then Synced,
// or Stale when the last poll failed. The resources are sorted, shared and must
// not be changed.
func (p *PodResources) Snapshot() (resources []ContainerResources, at time.Time, state State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.resources, p.at, p.state
}

// Subscribe calls f, in a goroutine of its own, after the resources or the state
// have changed; an answer like the last one changes nothing. Otherwise it is as
// [Cache.Subscribe].
func (p *PodResources) Subscribe(f func()) (unsubscribe func()) { return p.changes.Subscribe(f) }

// WaitSettled waits until the state is settled, at most until ctx ends.
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

// pause is the time until the next poll after so many failures in a row.
func (p *PodResources) pause(failures int) time.Duration {
	pause := p.cfg.Interval
	for limit := max(pause, maxPodResourcesBackoff); failures > 1 && pause < limit; failures-- {
		pause = min(2*pause, limit)
	}
	return pause + time.Duration(podResourcesJitter*(rand.Float64()-0.5)*float64(pause))
}

// poll asks once and says whether it got an answer.
func (p *PodResources) poll() bool {
	ctx, cancel := context.WithTimeout(p.ctx, p.cfg.Timeout)
	defer cancel()
	resources, err := p.list(ctx)
	if p.ctx.Err() != nil {
		return false // shut down: nothing was learnt
	}
	now := time.Now()

	p.mu.Lock()
	defer p.mu.Unlock()
	phase := Synced
	changed := false
	switch {
	case err == nil:
		changed = p.at.IsZero() || !reflect.DeepEqual(p.resources, resources)
		p.at = now
		if changed {
			p.resources = resources
		}
	case !p.at.IsZero():
		phase = Stale
	case errors.Is(err, fs.ErrNotExist):
		phase = Absent
	case errors.Is(err, fs.ErrPermission):
		phase = Forbidden
	default:
		phase = Syncing
	}
	if p.state.become(phase, err, now) {
		changed = true
		p.log()
	}
	if changed {
		p.changes.Give()
	}
	return err == nil
}

// log says the state; mu is held.
func (p *PodResources) log() {
	logger := p.logger.With(zap.Stringer("state", p.state.Phase))
	switch {
	case p.state.Err == nil:
		logger.Info("The kubelet says which container has which device")
	case p.state.Phase == Absent:
		logger.Info("The kubelet's PodResources socket does not exist", zap.Error(p.state.Err))
	default:
		logger.Warn("The kubelet's PodResources API gives no answer", zap.Error(p.state.Err))
	}
}

// listPodResources asks for everything through a connection of its own: at this rate that costs
// nothing, and a socket that was made anew needs no care. It is dialed here and not by gRPC,
// which logs every missing socket; the error is that of the dial, such as [fs.ErrNotExist].
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
			return nil, net.ErrClosed // the kubelet hung up
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

// containersOf returns the containers that have devices, sorted, so that two
// answers that say the same are equal.
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
	// A device with several NUMA nodes is listed once for each.
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
