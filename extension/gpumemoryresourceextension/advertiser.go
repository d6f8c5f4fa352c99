package gpumemoryresourceextension

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/otelcol-gpu/otelcol-gpu/extension/gpumemoryresourceextension/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// Node labels that GPU feature discovery and the GPU operator set.
const (
	presentLabel = "nvidia.com/gpu.present" // The value is "true" if the node has GPUs.
	memoryLabel  = "nvidia.com/gpu.memory"  // Memory of one GPU, in MiB.
	countLabel   = "nvidia.com/gpu.count"   // Number of GPUs on the node.
)

const (
	mib = 1 << 20

	// callTimeout is the time limit for one request to the API server.
	callTimeout = 10 * time.Second
	// patchGap is the minimum time between two requests for a node. The gap limits the number of
	// requests if errors occur, or if another client repeatedly sets a different amount.
	patchGap = 10 * time.Second
)

type nodeState int

const (
	asWanted nodeState = iota
	notYet
	unknown // the number of GPUs or the memory per GPU is unknown
	nodeStates
)

var stateNames = [nodeStates]string{"as_wanted", "not_yet", "unknown"}

// request contains the time and the result of the last request to patch a node.
type request struct {
	at  time.Time
	err error
}

// A resource that nodes advertise.
type advertised struct {
	name corev1.ResourceName
	// The units function returns the amount that the node should advertise, in units of the
	// resource.
	units func(node *corev1.Node) (int64, error)
}

// advertiser ensures that GPU nodes advertise the configured extended resources.
type advertiser struct {
	cfg       *Config
	resources []advertised
	settings  component.TelemetrySettings
	telemetry *metadata.TelemetryBuilder

	// newCache is kube.Acquire, except in tests. Tests use a function that returns a cache with a
	// fake client.
	newCache func(kube.Options, component.TelemetrySettings) (*kube.Cache, error)

	cache       *kube.Cache
	unsubscribe func()
	changed     componenthelper.Notice // notified when nodes change
	cancel      context.CancelFunc
	running     sync.WaitGroup
	ending      componenthelper.Ending

	// Only the goroutine that calls run uses the following fields.
	patched map[string]request // The last request for each node.
	status  componenthelper.Status

	mu    sync.Mutex
	nodes [nodeStates]int64
}

func newAdvertiser(set extension.Settings, cfg *Config) (*advertiser, error) {
	telemetry, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	a := &advertiser{
		cfg: cfg, settings: set.TelemetrySettings, telemetry: telemetry,
		newCache: kube.Acquire,
		changed:  componenthelper.NewNotice(),
		patched:  map[string]request{},
	}
	if cfg.Resource != "" {
		a.resources = append(a.resources, advertised{corev1.ResourceName(cfg.Resource), a.memory})
	}
	if shared := cfg.Shared.Get(); shared != nil {
		a.resources = append(a.resources, advertised{sharedResource, func(node *corev1.Node) (int64, error) {
			gpus, err := number(node, countLabel, "")
			return gpus * int64(shared.PerGPU), err
		}})
	}
	return a, nil
}

// Start implements component.Component. Start returns an error if a kubeconfig cannot be read, but
// not if the API server cannot be reached.
func (a *advertiser) Start(ctx context.Context, host component.Host) error {
	cache, err := a.newCache(kube.Options{Config: a.cfg.Kubernetes, NodeName: a.cfg.NodeName}, a.settings)
	if err != nil {
		return fmt.Errorf("kubernetes: %w", err)
	}
	err = a.telemetry.RegisterExtensionGpuMemoryResourceNodesCallback(func(_ context.Context, o metric.Int64Observer) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		for state, n := range a.nodes {
			o.Observe(n, componenthelper.With("state", stateNames[state]))
		}
		return nil
	})
	if err != nil {
		cache.Release()
		return err
	}
	a.cache, a.status.Host = cache, host
	a.unsubscribe = cache.Subscribe(kube.Nodes, a.changed.Notify)
	cache.Need(kube.Nodes) //nolint:contextcheck // the informers must continue to run after Start returns
	a.changed.Notify()
	loop, cancel := context.WithCancel(context.WithoutCancel(ctx)) // ctx is canceled when Start returns
	a.cancel = cancel
	a.running.Go(func() { a.run(loop) })
	return nil
}

// run calls reconcile at the start and whenever a node changes. While reconcile returns false, run
// also calls reconcile again after each patchGap.
func (a *advertiser) run(ctx context.Context) {
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-a.changed:
		case <-again.C:
		case <-ctx.Done():
			return
		}
		if !a.reconcile(ctx) {
			again.Reset(patchGap)
		}
	}
}

// reconcile patches the nodes that do not have the configured resources, and reports whether no
// node had to be patched.
func (a *advertiser) reconcile(ctx context.Context) bool {
	var problems componenthelper.Problems
	state := a.cache.State(kube.Nodes)
	problems.Check(state.Err == nil, "nodes: %s: %w", state.Phase, state.Err)
	var states [nodeStates]int64
	present := map[string]bool{}
	for _, node := range a.cache.Nodes() {
		if node.Labels[presentLabel] != "true" {
			continue
		}
		present[node.Name] = true
		state, err := a.adjust(ctx, node)
		states[state]++
		if err != nil {
			problems.Add(fmt.Errorf("node %s: %w", node.Name, err))
		}
	}
	maps.DeleteFunc(a.patched, func(node string, _ request) bool { return !present[node] })
	a.mu.Lock()
	a.nodes = states
	a.mu.Unlock()
	if ctx.Err() == nil {
		err := problems.Err()
		if news, _ := a.status.Report("nodes", err); news && err != nil {
			a.settings.Logger.Warn("Some nodes may not advertise their GPUs as configured.", zap.Error(err))
		}
	}
	return states[notYet] == 0
}

// The adjust method patches a node that does not have the configured resources. If the amount that
// the node should advertise is unknown, adjust keeps the current amount.
func (a *advertiser) adjust(ctx context.Context, node *corev1.Node) (nodeState, error) {
	var patch []map[string]string
	var problem error
	for _, r := range a.resources {
		has, advertised := node.Status.Capacity[r.name]
		path := "/status/capacity/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(string(r.name))
		if a.cfg.Remove {
			if advertised {
				patch = append(patch, map[string]string{"op": "remove", "path": path})
			}
			continue
		}
		units, err := r.units(node)
		if err != nil {
			problem = err // one error is enough, because the errors for all resources are about the same labels
			continue
		}
		wanted := resource.NewQuantity(units, resource.DecimalSI)
		if !advertised || has.Cmp(*wanted) != 0 {
			patch = append(patch, map[string]string{"op": "add", "path": path, "value": wanted.String()})
		}
	}
	if len(patch) == 0 {
		if problem != nil {
			return unknown, problem
		}
		return asWanted, nil
	}
	if last := a.patched[node.Name]; time.Since(last.at) < patchGap {
		return notYet, last.err
	}
	err := a.patch(ctx, node.Name, patch)
	outcome := "success"
	if err != nil {
		outcome = "error"
	} else {
		a.settings.Logger.Info("The node's resources were changed.", zap.String("node", node.Name), zap.Any("patch", patch))
	}
	a.telemetry.ExtensionGpuMemoryResourcePatches.Add(ctx, 1, componenthelper.With("outcome", outcome))
	if apierrors.IsNotFound(err) {
		err = nil // the watch will report that the node was deleted
	}
	a.patched[node.Name] = request{time.Now(), err}
	return notYet, err // the watch will report the new value
}

// patch applies a JSON patch to a node's status. Only status.capacity has to be patched, because
// the kubelet computes status.allocatable from it.
func (a *advertiser) patch(ctx context.Context, node string, patch any) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err = a.cache.Client().CoreV1().Nodes().Patch(ctx, node, types.JSONPatchType, data, metav1.PatchOptions{}, "status")
	return err
}

// memory returns the memory that the node should advertise, in units of the resource.
func (a *advertiser) memory(node *corev1.Node) (int64, error) {
	memory := int64(a.cfg.Amount)
	if memory == 0 {
		each := int64(a.cfg.AmountPerGPU)
		if each == 0 {
			labeled, err := number(node, memoryLabel, ", or amount or amount_per_gpu must be set")
			if err != nil {
				return 0, err
			}
			each = max(0, labeled*mib-int64(a.cfg.Reserve))
		}
		gpus, err := number(node, countLabel, ", or amount must be set")
		if err != nil {
			return 0, err
		}
		if each > int64(kube.MaxBytes)/gpus {
			return 0, fmt.Errorf("%d GPUs of %s have more than %s: must be less, or amount must be set", gpus, kube.Bytes(each), kube.MaxBytes)
		}
		memory = each * gpus
	}
	if a.cfg.Unit == unitMiB {
		return memory / mib, nil
	}
	return memory, nil
}

// The number function parses the value of a node's label. If the value is not an integer from 1 to
// 2^20, the function returns an error. The error message ends with the hint parameter, which
// suggests another solution.
func number(node *corev1.Node, label, hint string) (int64, error) {
	text := node.Labels[label]
	n, err := strconv.ParseInt(text, 10, 64)
	if most := int64(kube.MaxBytes) / mib / 1024; err != nil || n <= 0 || n > most {
		return 0, fmt.Errorf("label %s is %q: must be an integer from 1 to %d%s", label, text, most, hint)
	}
	return n, nil
}

// Shutdown implements component.Component. The nodes continue to advertise their resources. If ctx
// is done before all goroutines have stopped, Shutdown returns the error of ctx.
func (a *advertiser) Shutdown(ctx context.Context) error {
	defer a.telemetry.Shutdown()
	if a.cache == nil {
		return nil
	}
	return a.ending.Run(ctx, func() error {
		a.cancel()
		a.running.Wait()
		a.unsubscribe()
		a.cache.Release()
		return nil
	})
}
