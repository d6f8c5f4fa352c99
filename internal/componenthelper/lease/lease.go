// Package lease uses a Kubernetes Lease to elect a leader among replicas and gives the leader a
// [Term]. The package also contains [Record], a string in a Lease that many processes read and
// write.
//
// The service account needs permission to get, create, and update leases (API group
// coordination.k8s.io) in the Lease's namespace.
package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// Term is a period during which this replica is the leader. When the term ends, its context is
// canceled. The replica is the leader only while [Term.IsLeading] returns true.
type Term struct {
	ctx   context.Context
	valid func() bool
}

// Context returns a context that is canceled when the term ends.
func (t *Term) Context() context.Context { return t.ctx }

// IsLeading reports whether the replica is currently the leader. For a nil Term, IsLeading returns
// false.
func (t *Term) IsLeading() bool { return t != nil && t.ctx.Err() == nil && t.valid() }

// LeadingValue returns 1 while the replica is the leader and 0 otherwise, for use in self-metrics.
func (t *Term) LeadingValue() int64 {
	if t.IsLeading() {
		return 1
	}
	return 0
}

// Run takes part in the election until ctx is done. At the beginning of each term, Run calls the
// lead function with the term. At the end of each term, Run releases the Lease, so all work that
// requires leadership must be finished by then. If leader election is disabled, there is a single
// term, which ends when ctx is done.
//
// When a request for the Lease fails, Run passes the error to the result function. When a later
// request succeeds or another replica becomes the leader, Run passes nil to the result function.
// Run does not report the same result twice in a row.
func Run(ctx context.Context, cfg Config, client kubernetes.Interface, lead func(*Term), result func(error)) error {
	if !cfg.Enabled {
		lead(&Term{ctx: ctx, valid: func() bool { return true }})
		<-ctx.Done()
		return nil
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	namespace, identity := cfg.namespace(), host+"_"+rand.Text()
	// Without this logger, client-go would write to standard error each time the leader changes.
	ctx = klog.NewContext(ctx, klog.Logger{})
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, namespace, cfg.Name,
		client.CoreV1(), client.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: identity})
	if err != nil {
		return err
	}
	reported := ""
	report := func(err error) {
		// Each attempt to get or renew the Lease makes several requests of different kinds. Error
		// texts name the kind of request, the object, and the connection, so the texts differ even
		// if the problem stays the same. Therefore, only the reasons from the API server are
		// compared.
		problem := ""
		if err != nil {
			problem = "error " + string(apierrors.ReasonForError(err))
		}
		if problem == reported {
			return
		}
		reported = problem
		if err != nil {
			err = fmt.Errorf("lease %s/%s: %w", namespace, cfg.Name, err)
		}
		result(err)
	}
	for ctx.Err() == nil {
		var elector *leaderelection.LeaderElector
		elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock:            watchedLock{lock, report},
			Name:            cfg.Name,
			LeaseDuration:   cfg.LeaseDuration,
			RenewDeadline:   cfg.RenewDeadline,
			RetryPeriod:     cfg.RetryPeriod,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) {
					lead(&Term{
						ctx: ctx,
						// If this process was suspended for a while, elector.Check may detect that
						// the Lease has expired before elector.IsLeader does.
						valid: func() bool { return elector.IsLeader() && elector.Check(0) == nil },
					})
				},
				OnStoppedLeading: func() {}, // the term's context has already been canceled
			},
		})
		if err != nil {
			return err
		}
		elector.Run(ctx)
	}
	return nil
}

// watchedLock reports the results of requests for the Lease.
type watchedLock struct {
	resourcelock.Interface
	result func(error)
}

func (l watchedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	switch {
	case apierrors.IsNotFound(err): // if the Lease does not exist, the elector creates it
	case err != nil:
		l.failed(ctx, err)
	case record.HolderIdentity != "" && record.HolderIdentity != l.Identity() &&
		time.Since(record.RenewTime.Time) < time.Duration(record.LeaseDurationSeconds)*time.Second:
		l.result(nil)
	}
	return record, raw, err
}

func (l watchedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Create(ctx, record)
	l.written(ctx, err)
	return err
}

func (l watchedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Update(ctx, record)
	l.written(ctx, err)
	return err
}

func (l watchedLock) written(ctx context.Context, err error) {
	// A conflict means that another replica was faster, or that an earlier request of this process
	// has already written the Lease.
	if err == nil || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		l.result(nil)
		return
	}
	l.failed(ctx, err)
}

func (l watchedLock) failed(ctx context.Context, err error) {
	if !errors.Is(ctx.Err(), context.Canceled) { // a canceled context means that the process is shutting down
		l.result(err)
	}
}
