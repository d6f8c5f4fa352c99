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

// recheckAfter is the number of evaluation intervals between two checks of the namespaces with a
// missing permission.
const recheckAfter = 5

// missingPermissions contains the namespaces in which a permission is missing. The watchdog checks
// all namespaces at the start of a term. If a request is forbidden, the watchdog checks the
// namespace of that request. A namespace with a missing permission is checked again at regular
// intervals and when a pod in the namespace is about to be evicted.
type missingPermissions struct {
	missing    map[string]string // The missing permission, keyed by namespace.
	checkedAt  time.Time         // The time of the last scheduled check.
	checkedNow map[string]time.Time
}

// The namespaces method returns the namespaces in which a permission is missing.
func (p *missingPermissions) namespaces() []string { return slices.Sorted(maps.Keys(p.missing)) }

// errIfAllMissing returns an error if a permission is missing in every one of the given namespaces.
func (p *missingPermissions) errIfAllMissing(namespaces []string) error {
	for _, namespace := range namespaces {
		if p.missing[namespace] == "" {
			return nil
		}
	}
	return p.err()
}

func (p *missingPermissions) err() error {
	var parts []string
	for _, namespace := range p.namespaces() {
		parts = append(parts, p.missing[namespace]+" in namespace "+namespace)
	}
	if parts == nil {
		return nil
	}
	return errors.New("permission is missing: " + strings.Join(parts, ", "))
}

// checkPermissions checks all namespaces at the start of a term. During the term, checkPermissions
// checks only the namespaces with a missing permission.
func (w *watchdog) checkPermissions(ctx context.Context, termStarted bool, now time.Time) error {
	toCheck := w.cfg.Namespaces
	if !termStarted {
		if len(w.denied.missing) == 0 || now.Sub(w.denied.checkedAt).Abs() < recheckAfter*w.cfg.Interval {
			return nil
		}
		toCheck = w.denied.namespaces()
	}
	missing, err := w.cluster.Missing(ctx, toCheck)
	if err != nil {
		return fmt.Errorf("permissions: %w", err)
	}
	w.setMissing(missing)
	w.denied.checkedAt, w.denied.checkedNow = now, map[string]time.Time{}
	return nil
}

// checkNamespace checks the permissions in a namespace and reports whether the permissions have
// changed. Each namespace is checked at most once per evaluation.
func (w *watchdog) checkNamespace(ctx context.Context, namespace string, now time.Time) bool {
	if at, ok := w.denied.checkedNow[namespace]; ok && at.Equal(now) {
		return false
	}
	w.denied.checkedNow[namespace] = now
	missing, err := w.cluster.Missing(ctx, []string{namespace})
	if err != nil || missing[namespace] == w.denied.missing[namespace] {
		return false // the caller reports the error from the original request
	}
	for other, permission := range w.denied.missing {
		if other != namespace {
			missing[other] = permission
		}
	}
	w.setMissing(missing)
	return true
}

func (w *watchdog) setMissing(missing map[string]string) {
	if maps.Equal(missing, w.denied.missing) {
		return
	}
	w.denied.missing = missing
	w.policy.Denied = w.denied.namespaces()
	if err := w.denied.err(); err != nil && w.denied.errIfAllMissing(w.cfg.Namespaces) == nil {
		w.logger.Warn("Pods in some namespaces cannot be evicted because a permission is missing. The other namespaces are still watched.", zap.Error(err))
	}
}
