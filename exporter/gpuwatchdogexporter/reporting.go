package gpuwatchdogexporter

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/decide"
	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// These are the reasons that appear in Kubernetes Events about decisions.
const (
	eventEvicted = "GPUMemoryEviction"        // The pod is evicted.
	eventDryRun  = "GPUMemoryEvictionDryRun"  // The pod would be evicted if dry_run were disabled.
	eventRefused = "GPUMemoryEvictionRefused" // The eviction of the pod failed.
	eventStopped = "GPUMemoryEvictionStopped" // Pods of this owner are no longer evicted.
)

// maxRecords is the maximum number of decisions that are logged each time all devices are
// evaluated.
const maxRecords = 100

// writeEvent writes a Kubernetes Event about a decision. If an eviction fails repeatedly, or as
// long as the pods of an owner are excluded, writeEvent writes only one Event.
func (w *watchdog) writeEvent(ctx context.Context, d *decide.Decision, cause error, now time.Time) {
	var name, message string
	details := fmt.Sprintf("uses %s of GPU memory with a budget of %s; device %s has %s free, and the floor is %s",
		kube.Bytes(d.Victim.Usage), kube.Bytes(d.Victim.Budget), d.Device.ID, kube.Bytes(d.Headroom), w.cfg.Floor)
	switch d.Reason {
	case decide.Evicted:
		name, message = eventEvicted, "The pod is evicted: it "+details
	case decide.WouldEvict:
		name, message = eventDryRun, "The pod would be evicted, but dry_run is enabled: it "+details
	case decide.Refused, decide.Forbidden, decide.ActionFailed:
		if w.reasons[d.Device] == d.Reason {
			return
		}
		name, message = eventRefused, fmt.Sprintf("The pod should be evicted: it %s. The eviction failed: %v", details, cause)
	case decide.Ineffective:
		if w.reasons[d.Device] == d.Reason {
			return
		}
		name, message = eventStopped, "Pods of this owner are no longer evicted, because two evictions did not end the shortage: the pod "+details
		w.logger.Warn("Evictions did not end the shortage. Pods of this owner are no longer evicted. Find the other users of the device's memory.",
			zap.String("node", d.Device.Node), zap.String("device", d.Device.ID), zap.String("namespace", d.Victim.Namespace),
			zap.String("pod", d.Victim.Pod), zap.Int64("unbudgeted", d.Unbudgeted))
	default:
		return
	}
	if err := w.cluster.Event(ctx, d.Victim, d.Device.Node, name, message, now); err != nil {
		w.telemetry.ExporterGpuWatchdogEventsFailed.Add(ctx, 1)
		w.logger.Warn("The Kubernetes Event could not be written.", zap.Error(err))
	}
}

func (w *watchdog) count(ctx context.Context, reason decide.Reason) {
	w.telemetry.GpuWatchdogEvaluations.Add(ctx, 1, componenthelper.With("reason", string(reason)))
}

// shouldLog reports whether a decision should be logged. A decision is logged if the device has a
// breach, if there is an action, or if the reason has changed.
func (w *watchdog) shouldLog(d *decide.Decision) bool {
	before, known := w.reasons[d.Device]
	if !known {
		before = decide.AboveFloor // a first evaluation with this reason is not logged
	}
	return d.Breaches > 0 || d.Action != nil || before != d.Reason
}

// The log method writes the log record of a decision, with sizes in bytes.
func (w *watchdog) log(d *decide.Decision, attribution string, err error) {
	fields := []zap.Field{
		zap.String("reason", string(d.Reason)), zap.Bool("dry_run", w.cfg.DryRun),
		zap.String("node", d.Device.Node), zap.String("device", d.Device.ID),
		zap.Int64("headroom", d.Headroom), zap.Int64("floor", int64(w.cfg.Floor)), zap.Int64("used", d.Usage), zap.Int64("limit", d.Limit),
		zap.Int("breaches", d.Breaches), zap.Int64("unbudgeted", d.Unbudgeted),
	}
	if attribution != "" {
		fields = append(fields, zap.String("attribution", attribution))
	}
	if v := d.Victim; v != nil {
		fields = append(fields, zap.String("namespace", v.Namespace), zap.String("pod", v.Pod), zap.String("pod_uid", v.UID),
			zap.Int64("pod_used", v.Usage), zap.Int64("pod_budget", v.Budget), zap.Int64("pod_overshoot", v.Overshoot))
	}
	if err != nil {
		fields = append(fields, zap.Error(err))
	}
	level := zap.InfoLevel
	if d.Action != nil || !d.Reason.Complete() {
		level = zap.WarnLevel
	}
	w.logger.Log(level, "GPU memory was evaluated.", fields...)
}
