package gpuwatchdogexporter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
)

// askAgainAfter is after how many intervals it is asked again about namespaces in which a permission
// was missing.
const askAgainAfter = 5

// permissions are the namespaces in which a permission is missing. The API server is asked once in a
// term, about a namespace that lacks one now and then and when one of its pods is chosen, and when a
// request is forbidden.
type permissions struct {
	missing map[string]string // by namespace
	asked   time.Time         // about all that are missing
	doubted map[string]time.Time
}

// namespaces returns those in which a permission is missing.
func (p *permissions) namespaces() []string { return slices.Sorted(maps.Keys(p.missing)) }

// all returns an error if a permission is missing in every namespace.
func (p *permissions) all(namespaces []string) error {
	for _, namespace := range namespaces {
		if p.missing[namespace] == "" {
			return nil
		}
	}
	return p.err()
}

func (p *permissions) err() error {
	var parts []string
	for _, namespace := range p.namespaces() {
		parts = append(parts, p.missing[namespace]+" in namespace "+namespace)
	}
	if parts == nil {
		return nil
	}
	return errors.New("permission is missing: " + strings.Join(parts, ", "))
}

// askAll asks about all namespaces when a term begins, later about those that lack a permission.
func (w *watchdog) askAll(ctx context.Context, begins bool, now time.Time) error {
	ask := w.cfg.Namespaces
	if !begins {
		if len(w.denied.missing) == 0 || now.Sub(w.denied.asked).Abs() < askAgainAfter*w.cfg.Interval {
			return nil
		}
		ask = w.denied.namespaces()
	}
	missing, err := w.cluster.Missing(ctx, ask)
	if err != nil {
		return fmt.Errorf("permissions: %w", err)
	}
	w.deny(missing)
	w.denied.asked, w.denied.doubted = now, map[string]time.Time{}
	return nil
}

// ask asks about one namespace, once in an evaluation, and reports whether that changed what is known.
func (w *watchdog) ask(ctx context.Context, namespace string, now time.Time) bool {
	if at, ok := w.denied.doubted[namespace]; ok && at.Equal(now) {
		return false
	}
	w.denied.doubted[namespace] = now
	missing, err := w.cluster.Missing(ctx, []string{namespace})
	if err != nil || missing[namespace] == w.denied.missing[namespace] {
		return false // the request itself said what is wrong
	}
	for other, permission := range w.denied.missing {
		if other != namespace {
			missing[other] = permission
		}
	}
	w.deny(missing)
	return true
}

// deny takes over in which namespaces which permission is missing.
func (w *watchdog) deny(missing map[string]string) {
	if maps.Equal(missing, w.denied.missing) {
		return
	}
	w.denied.missing = missing
	w.policy.Denied = w.denied.namespaces()
	if err := w.denied.err(); err != nil && w.denied.all(w.cfg.Namespaces) == nil {
		w.logger.Warn("Pods in some namespaces cannot be evicted because a permission is missing. The other namespaces are still watched.", zap.Error(err))
	}
}
