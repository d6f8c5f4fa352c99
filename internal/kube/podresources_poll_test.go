package kube

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// script is a list of responses, one for each poll. After the last response in the list, script
// repeats that response.
type script struct {
	answers []answer
	times   []time.Duration // time of each poll, relative to the start
	start   time.Time
}

type answer struct {
	resources []ContainerResources
	err       error
}

func (s *script) list(context.Context) ([]ContainerResources, error) {
	s.times = append(s.times, time.Since(s.start).Round(time.Second))
	a := s.answers[min(len(s.times), len(s.answers))-1]
	return a.resources, a.err
}

// The polled function runs a client for the given time in a synctest bubble. The client receives
// the responses in the script.
func polled(t *testing.T, s *script, while time.Duration, check func(p *PodResources, logs *observer.ObservedLogs)) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		core, logs := observer.New(zapcore.DebugLevel)
		p := NewPodResources(NewDefaultPodResourcesConfig(), zap.New(core))
		p.list, s.start = s.list, time.Now()
		p.Start()
		time.Sleep(while) // in the synctest bubble
		synctest.Wait()
		check(p, logs)
		p.Shutdown()
	})
}

func on(container string) []ContainerResources {
	return []ContainerResources{{Namespace: "ml", Pod: "train-0", Container: container, Devices: []DeviceRef{{Resource: "nvidia.com/gpu", ID: "nvidia0"}}}}
}

func TestTheKubeletIsPolledAtTheInterval(t *testing.T) {
	s := &script{answers: []answer{{resources: on("a")}}}
	polled(t, s, 35*time.Second, func(p *PodResources, logs *observer.ObservedLogs) {
		require.Len(t, s.times, 4)
		for i, at := range s.times {
			assert.InDelta(t, 10*i, at.Seconds(), 1.5*float64(i), "poll %d", i)
		}
		resources, at, state := p.Snapshot()
		assert.Equal(t, on("a"), resources)
		assert.Less(t, time.Since(at), 11*time.Second, "every response updates the time of the snapshot")
		assert.Equal(t, Synced, state.Phase)
		assert.NoError(t, state.Err)
		assert.Equal(t, 1, logs.Len(), "one line for all polls")
	})
}

func TestFailuresDoubleThePauseUpToAMinuteUntilASuccess(t *testing.T) {
	broken := errors.New("rejected by rate limit")
	s := &script{answers: []answer{{err: broken}, {err: broken}, {err: broken}, {err: broken}, {err: broken}, {err: broken}, {resources: on("a")}}}
	polled(t, s, 5*time.Minute, func(*PodResources, *observer.ObservedLogs) {
		require.GreaterOrEqual(t, len(s.times), 9)
		for i, want := range []float64{10, 20, 40, 60, 60, 60, 10, 10} {
			assert.InDelta(t, want, (s.times[i+1] - s.times[i]).Seconds(), 1+want*podResourcesJitter, "pause after poll %d", i)
		}
	})
}

func TestTheLastResponseAndItsTimeAreKept(t *testing.T) {
	s := &script{answers: []answer{{resources: on("a")}, {err: fs.ErrNotExist}}}
	polled(t, s, 45*time.Second, func(p *PodResources, logs *observer.ObservedLogs) {
		resources, at, state := p.Snapshot()
		assert.Equal(t, on("a"), resources)
		assert.Equal(t, 45*time.Second, time.Since(at))
		assert.Equal(t, Stale, state.Phase)
		assert.InDelta(t, 35, time.Since(state.Since).Seconds(), 2, "since the first failure")
		require.ErrorIs(t, state.Err, fs.ErrNotExist)
		assert.Equal(t, 2, logs.Len(), "one line per change of the state")
	})
}

func TestWithoutAResponseTheStateHasTheReason(t *testing.T) {
	for want, err := range map[Phase]error{Absent: fs.ErrNotExist, Forbidden: fs.ErrPermission, Syncing: context.DeadlineExceeded} {
		t.Run(want.String(), func(t *testing.T) {
			s := &script{answers: []answer{{err: err}}}
			polled(t, s, time.Minute, func(p *PodResources, logs *observer.ObservedLogs) {
				resources, at, state := p.Snapshot()
				assert.Empty(t, resources)
				assert.Zero(t, at)
				assert.Equal(t, want, state.Phase)
				require.ErrorIs(t, state.Err, err)
				assert.Equal(t, 1, logs.Len())
			})
		})
	}
}

func TestSubscribersAreNotifiedOnlyOfChanges(t *testing.T) {
	s := &script{answers: []answer{
		{resources: on("a")}, {resources: on("a")}, {resources: on("b")}, {err: fs.ErrNotExist}, {err: fs.ErrNotExist}, {resources: on("b")},
	}}
	synctest.Test(t, func(*testing.T) {
		p := NewPodResources(NewDefaultPodResourcesConfig(), zap.NewNop())
		p.list, s.start = s.list, time.Now()
		var notified []time.Duration
		unsubscribe := p.Subscribe(func() { notified = append(notified, time.Since(s.start).Round(time.Second)) })
		p.Start()
		time.Sleep(75 * time.Second) // in the synctest bubble
		synctest.Wait()
		unsubscribe()
		p.Shutdown()
		require.Len(t, s.times, 7)
		assert.Equal(t, []time.Duration{s.times[0], s.times[2], s.times[3], s.times[5]}, notified)
	})
}

func TestShutdownWithoutStartAndTwice(t *testing.T) {
	p := NewPodResources(NewDefaultPodResourcesConfig(), zap.NewNop())
	p.Shutdown()
	p.Shutdown()
	p.Start() // after Shutdown, Start must not start polling
	_, _, state := p.Snapshot()
	assert.Equal(t, Off, state.Phase)
}

func TestPodResourcesConfig(t *testing.T) {
	valid := NewDefaultPodResourcesConfig()
	require.NoError(t, valid.Validate())
	for want, change := range map[string]func(*PodResourcesConfig){
		`socket is "": must be an absolute path`:                                     func(c *PodResourcesConfig) { c.Socket = "" },
		`socket is "kubelet.sock": must be an absolute path`:                         func(c *PodResourcesConfig) { c.Socket = "kubelet.sock" },
		"interval is 10ns: must be between 1s and 10m0s":                             func(c *PodResourcesConfig) { c.Interval = 10 },
		"interval is 1h0m0s: must be between 1s and 10m0s":                           func(c *PodResourcesConfig) { c.Interval = time.Hour },
		"timeout is 0s: must be between 10ms and 1m0s; write the unit, as in 5s":     func(c *PodResourcesConfig) { c.Timeout = 0 },
		"timeout is 1h0m0s: must be between 10ms and 1m0s; write the unit, as in 5s": func(c *PodResourcesConfig) { c.Timeout = time.Hour },
	} {
		cfg := valid
		change(&cfg)
		require.EqualError(t, cfg.Validate(), want)
	}
}
