package gpuk8sprocessor

import (
	"context"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/processor"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/budgetstage"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/declared"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/powerstage"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/processlists"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/usagestage"
)

// newSections returns the configured sections, in the order in which the sections run. A section
// can use the results of the sections that run before it. The power result contains the section for
// process lists and the power section. The accounts result contains all sections that run after the
// power section.
func (p *gpuK8s) newSections(set processor.Settings) (power, accounts []pdatagpu.Section, err error) {
	add := func(list *[]pdatagpu.Section, name string, build func(processor.Settings) (pdatagpu.Section, error)) {
		if err != nil {
			return
		}
		of := set
		of.Logger = set.Logger.With(zap.String("section", name))
		var s pdatagpu.Section
		if s, err = build(of); err == nil {
			*list = append(*list, s)
		}
	}
	lists := processlists.New(p.cfg.MaxProcesses)
	if p.cfg.Power.HasValue() || p.cfg.Budget.HasValue() || p.cfg.Usage.HasValue() {
		power = append(power, p.processLists(lists, set.ID.String()))
	}
	if p.cfg.Power.HasValue() {
		of := *p.cfg.Power.Get()
		of.Shared = p.cfg.shared()
		add(&power, "power", func(s processor.Settings) (pdatagpu.Section, error) { return powerstage.New(&of, s) })
	}
	pods := p.newReader(set.TelemetrySettings)
	if p.cfg.Budget.HasValue() {
		of := *p.cfg.Budget.Get()
		of.Shared = p.cfg.shared()
		add(&accounts, "budget", func(s processor.Settings) (pdatagpu.Section, error) { return budgetstage.New(&of, s, pods) })
	}
	if p.cfg.Usage.HasValue() {
		of := *p.cfg.Usage.Get()
		of.Shared = p.cfg.shared()
		add(&accounts, "usage", func(s processor.Settings) (pdatagpu.Section, error) { return usagestage.New(&of, s, pods) })
	}
	if len(accounts) > 0 {
		// If the accounts stage reads its frames from metrics, the frames have lost their process
		// lists. The first section has already counted the refused lists.
		again := lists.Section(func(context.Context, time.Time, int64) {})
		accounts = append([]pdatagpu.Section{again}, accounts...)
		accounts = append(accounts, pods.Section())
	}
	return power, accounts, err
}

// processLists returns the section that provides the process lists to the other sections.
func (p *gpuK8s) processLists(lists *processlists.Lists, id string) pdatagpu.Section {
	limit := componenthelper.Limit{Component: id, Setting: "max_processes", Value: p.cfg.MaxProcesses, What: "processes"}
	s := lists.Section(func(ctx context.Context, now time.Time, refused int64) {
		p.telemetry.ProcessorGpuK8sPointsDropped.Add(ctx, refused, componenthelper.With("reason", "no_room"))
		limit.Refused(p.logger, now, refused)
	})
	s.Shutdown = func(context.Context) error { limit.Forget(); return nil }
	return s
}

// newReader returns the reader that provides the pods' declarations to the budget and usage
// sections.
func (p *gpuK8s) newReader(set component.TelemetrySettings) *declared.Reader {
	o := declared.Options{Unreadable: p.unreadable}
	if p.cfg.Budget.HasValue() {
		o.Budgets, o.Claims = p.cfg.Budget.Get().Budgets(), p.cfg.Budget.Get().Sources.DRA.Enabled
	}
	if p.cfg.Kubernetes.AuthType != kube.AuthNone {
		o.Acquire = func() (*kube.Cache, error) {
			return kube.Acquire(kube.Options{Config: p.cfg.Kubernetes, NodeName: p.cfg.NodeName}, set)
		}
	}
	return declared.NewReader(o)
}

// unreadable counts a pod whose annotations cannot be read. If the annotations of several pods
// cannot be read, only the first pod is logged.
func (p *gpuK8s) unreadable(pod *corev1.Pod, err error) {
	p.telemetry.ProcessorGpuK8sDeclarationsUnreadable.Add(context.Background(), 1)
	if p.unreadablePods.ShouldLog(time.Now()) {
		p.logger.Warn("The annotations of a pod cannot be read: the GPU memory and compute that they declare are ignored. Further pods are only counted.",
			zap.String(signal.K8sNamespaceName, pod.Namespace), zap.String(signal.K8sPodName, pod.Name), zap.Error(err))
	}
}
