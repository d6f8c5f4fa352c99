package receiverstages

import (
	"context"
	"sync"

	"go.opentelemetry.io/collector/component"
)

// Receiver is a receiver that can be in metrics pipelines and in logs pipelines.
type Receiver interface {
	component.Component
	// Outputs returns the pipelines to which the receiver sends data. The caller must set the
	// pipelines before it calls Start.
	Outputs() *Outputs
}

// Shared wraps a receiver that can be in several pipelines. The Collector creates and starts a
// receiver once for each kind of pipeline, but Shared ensures that the wrapped receiver is created
// and started only once.
type Shared[R Receiver] struct {
	Receiver R

	forget      func()
	start, stop sync.Once
	startErr    error
	stopErr     error
}

// Start implements component.Component.
func (s *Shared[R]) Start(ctx context.Context, host component.Host) error {
	s.start.Do(func() { s.startErr = s.Receiver.Start(ctx, host) })
	return s.startErr
}

// Shutdown implements component.Component.
func (s *Shared[R]) Shutdown(ctx context.Context) error {
	s.stop.Do(func() {
		s.forget()
		s.stopErr = s.Receiver.Shutdown(ctx)
	})
	return s.stopErr
}

// Sharing maps configurations to the receivers that a factory has created. A receiver's
// configuration can serve as the map key, because the Collector passes the same configuration
// pointer for each of the receiver's pipelines.
type Sharing[R Receiver] struct {
	mu    sync.Mutex
	known map[component.Config]*Shared[R]
}

// Get returns the receiver that has the given configuration, and adds the given pipelines to the
// receiver. If no receiver has this configuration yet, Get calls the create function.
func (s *Sharing[R]) Get(cfg component.Config, out Outputs, create func() (R, error)) (*Shared[R], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if shared, ok := s.known[cfg]; ok {
		shared.Receiver.Outputs().add(out)
		return shared, nil
	}
	made, err := create()
	if err != nil {
		return nil, err
	}
	made.Outputs().add(out)
	shared := &Shared[R]{Receiver: made, forget: func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.known, cfg)
	}}
	if s.known == nil {
		s.known = map[component.Config]*Shared[R]{}
	}
	s.known[cfg] = shared
	return shared, nil
}
