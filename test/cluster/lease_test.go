package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/otelcol-gpu/otelcol-gpu/internal/component/lease"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
)

// elected takes part in an election and keeps the term that it was handed last.
type elected struct {
	stop func()
	term atomic.Pointer[lease.Term]
}

func candidate(t *testing.T, client kubernetes.Interface, cfg lease.Config) *elected {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	e := &elected{}
	var running sync.WaitGroup
	running.Go(func() { assert.NoError(t, lease.Run(ctx, cfg, client, e.term.Store, func(error) {})) })
	e.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(e.stop)
	return e
}

func (e *elected) current() *lease.Term { return e.term.Load() }

func (e *elected) leads() bool { return e.current().Holds() }

// The real API server refuses writes that were overtaken: a note and the renewals beside it retry.
func TestNotesOfALeaseOutliveTheirWriter(t *testing.T) {
	plane := controlplane.Start(t)
	cfg := lease.NewDefaultConfig("leader")
	cfg.Namespace, cfg.RetryPeriod = plane.Namespace(t), 100*time.Millisecond
	eventually := func(condition func() bool) {
		t.Helper()
		require.Eventually(t, condition, 30*time.Second, 50*time.Millisecond)
	}
	first := candidate(t, plane.Admin(), cfg)
	eventually(first.leads)
	written := first.current()
	for range 20 { // renewals run beside
		require.NoError(t, written.SetNote(t.Context(), "example.com/note", "from the first"))
	}
	leases := plane.Admin().CoordinationV1().Leases(cfg.Namespace)
	noted, err := leases.Get(t.Context(), cfg.Name, metav1.GetOptions{})
	require.NoError(t, err)
	eventually(func() bool {
		l, err := leases.Get(t.Context(), cfg.Name, metav1.GetOptions{})
		return err == nil && l.Spec.RenewTime.After(noted.Spec.RenewTime.Time)
	})
	assert.True(t, first.leads(), "a note does not cost the lease")

	first.stop()
	second := candidate(t, plane.Admin(), cfg)
	eventually(second.leads)
	note, err := second.current().Note(t.Context(), "example.com/note")
	require.NoError(t, err)
	assert.Equal(t, "from the first", note)
}
