package cluster

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper/lease"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
)

// elected participates in a leader election and records its most recent term as the leader.
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

func (e *elected) leads() bool { return e.current().IsLeading() }

// When the leader stops, another replica must acquire the lease.
func TestALeaseIsHandedOver(t *testing.T) {
	plane := controlplane.Start(t)
	cfg := lease.NewDefaultConfig("leader")
	cfg.Namespace, cfg.RetryPeriod = plane.Namespace(t), 100*time.Millisecond
	eventually := func(condition func() bool) {
		t.Helper()
		require.Eventually(t, condition, 30*time.Second, 50*time.Millisecond)
	}
	first := candidate(t, plane.Admin(), cfg)
	eventually(first.leads)
	first.stop()
	second := candidate(t, plane.Admin(), cfg)
	eventually(second.leads)
}

// A real API server rejects an update that is based on an outdated version of an object. The
// writers must then retry, so that no update is lost.
func TestManyProcessesWriteOneRecord(t *testing.T) {
	plane := controlplane.Start(t)
	cfg := lease.RecordConfig{Enabled: true, Namespace: plane.Namespace(t), Name: "record"}
	var writing sync.WaitGroup
	for range 10 {
		writing.Go(func() {
			record := lease.NewRecord(plane.Admin(), cfg, "example.com/record")
			for range 5 {
				err := record.Update(t.Context(), func(text string) (string, bool) { return text + "x", true })
				assert.NoError(t, err)
			}
		})
	}
	writing.Wait()
	text, err := lease.NewRecord(plane.Admin(), cfg, "example.com/record").Get(t.Context())
	require.NoError(t, err)
	assert.Equal(t, strings.Repeat("x", 50), text)
}
