package receiverstages

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
)

// The counted type is a receiver that counts how often it is started and shut down.
type counted struct {
	out              Outputs
	started, stopped int
	err              error
}

func (c *counted) Start(context.Context, component.Host) error { c.started++; return c.err }

func (c *counted) Shutdown(context.Context) error { c.stopped++; return nil }

func (c *counted) Outputs() *Outputs { return &c.out }

func TestAReceiverInTwoPipelinesRunsOnce(t *testing.T) {
	var sharing Sharing[*counted]
	cfg := &struct{ component.Config }{}
	create := func() (*counted, error) { return &counted{}, nil }
	metrics, err := sharing.Get(cfg, Outputs{Metrics: consumertest.NewNop()}, create)
	require.NoError(t, err)
	logs, err := sharing.Get(cfg, Outputs{Logs: consumertest.NewNop()}, create)
	require.NoError(t, err)
	assert.Same(t, metrics, logs)
	assert.NotNil(t, metrics.Receiver.out.Metrics)
	assert.NotNil(t, metrics.Receiver.out.Logs)
	for _, r := range []component.Component{metrics, logs} {
		require.NoError(t, r.Start(t.Context(), componenttest.NewNopHost()))
	}
	for _, r := range []component.Component{metrics, logs} {
		require.NoError(t, r.Shutdown(t.Context()))
	}
	assert.Equal(t, 1, metrics.Receiver.started)
	assert.Equal(t, 1, metrics.Receiver.stopped)

	again, err := sharing.Get(cfg, Outputs{}, create)
	require.NoError(t, err)
	assert.NotSame(t, metrics, again, "after the shutdown a new receiver is created")
}

func TestEachPipelineGetsTheErrorOfTheStart(t *testing.T) {
	var sharing Sharing[*counted]
	failure := errors.New("no certificate")
	shared, err := sharing.Get(&struct{ component.Config }{}, Outputs{}, func() (*counted, error) { return &counted{err: failure}, nil })
	require.NoError(t, err)
	require.ErrorIs(t, shared.Start(t.Context(), componenttest.NewNopHost()), failure)
	require.ErrorIs(t, shared.Start(t.Context(), componenttest.NewNopHost()), failure)
	assert.Equal(t, 1, shared.Receiver.started)
}

func TestAReceiverThatCannotBeMadeIsNotRemembered(t *testing.T) {
	var sharing Sharing[*counted]
	cfg := &struct{ component.Config }{}
	_, err := sharing.Get(cfg, Outputs{}, func() (*counted, error) { return nil, errors.New("no") })
	require.Error(t, err)
	_, err = sharing.Get(cfg, Outputs{}, func() (*counted, error) { return &counted{}, nil })
	require.NoError(t, err)
}
