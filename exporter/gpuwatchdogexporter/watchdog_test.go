package gpuwatchdogexporter

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.uber.org/zap/zaptest/observer"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/cluster"
	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/metadatatest"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/statustest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/storagetest"
)

func ownPods() *api {
	long := time.Now().Add(-time.Hour)
	return newAPI(runningPod("a", long), runningPod("b", long))
}

// The decisions function returns the reasons for the logged decisions.
func decisions(logs *observer.ObservedLogs) (reasons []string) {
	for _, entry := range logs.FilterMessage("GPU memory was evaluated.").All() {
		reasons = append(reasons, entry.ContextMap()["reason"].(string))
	}
	return reasons
}

func TestThePodOverItsBudgetIsEvictedOnceAfterThreeBreaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := ownPods()
		g := startGuard(t, a, componenttest.NewNopHost(), enforce)
		defer g.stop()
		sendEachInterval(2*time.Minute, relaxed, g)
		sendEachInterval(2*time.Minute, pressed, g)
		assert.Empty(t, a.evictions())
		assert.Equal(t, map[string]int64{"above_floor": 2, "breach_pending": 2}, g.counted())
		sendEachInterval(time.Minute, pressed, g)
		require.Equal(t, []string{"a"}, a.evictions())
		assert.EqualValues(t, "uid-a", *a.evicted[0].DeleteOptions.Preconditions.UID)
		assert.Equal(t, "ai", a.evicted[0].Namespace)
		require.Len(t, a.events(t, "a"), 1)
		assert.Equal(t, "GPUMemoryEviction: The pod is evicted: it uses 9000Mi of GPU memory with a budget of 3000Mi; "+
			"device GPU-0 has 900Mi free, and the floor is 1536Mi", a.events(t, "a")[0])
		assert.Empty(t, a.events(t, "b"))

		sendEachInterval(9*time.Minute, pressed, g)
		assert.Len(t, a.evictions(), 1, "the device has a cool-down")
		sendEachInterval(11*time.Minute, pressed, g)
		assert.Len(t, a.evictions(), 1, "the owner has a cool-down")
		assert.Contains(t, g.counted(), "device_cooldown")
		assert.Contains(t, g.counted(), "owner_cooldown")
		assert.Equal(t, time.Now(), g.heartbeat())

		record := g.logs.FilterMessage("GPU memory was evaluated.").All()[2].ContextMap()
		for key, want := range map[string]any{
			"reason": "evicted", "dry_run": false, "node": "gpu-1", "device": "GPU-0", "headroom": int64(900 * mib),
			"floor": int64(1536 * mib), "used": int64((15360 - 256 - 900) * mib), "limit": int64(15360 * mib), "breaches": int64(3),
			"namespace": "ai", "pod": "a", "pod_uid": "uid-a", "pod_used": int64(9000 * mib), "pod_budget": int64(3000 * mib),
			"pod_overshoot": int64(6000 * mib), "unbudgeted": int64(0), "attribution": "of valid",
		} {
			assert.Equal(t, want, record[key], key)
		}
	})
}

func TestDryRunEvictsNothingAndReportsDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := ownPods()
		a.denied["create pods/eviction"] = true // a dry run does not require permission to evict pods
		g := startGuard(t, a, componenttest.NewNopHost())
		defer g.stop()
		sendEachInterval(4*time.Minute, pressed, g)
		assert.Empty(t, a.evictions())
		assert.Equal(t, map[string]int64{"breach_pending": 3, "would_evict": 1}, g.counted())
		require.Len(t, a.events(t, "a"), 1)
		assert.Contains(t, a.events(t, "a")[0], "GPUMemoryEvictionDryRun: The pod would be evicted")
		assert.Equal(t, time.Now(), g.heartbeat())
		assert.Equal(t, []string{"breach_pending", "breach_pending", "would_evict", "breach_pending"}, decisions(g.logs))
	})
}

func TestWithoutNamespacesNoPodIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := ownPods()
		g := startGuard(t, a, componenttest.NewNopHost(), func(cfg *Config) { cfg.Namespaces = nil })
		defer g.stop()
		sendEachInterval(4*time.Minute, pressed, g)
		assert.Equal(t, map[string]int64{"breach_pending": 2, "namespace_not_allowed": 2}, g.counted())
		assert.Empty(t, a.Actions())
		assert.Equal(t, time.Now(), g.heartbeat())
	})
}

func TestEvictionResponses(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, tc := range map[string]struct {
		refusal   error
		reason    string
		again     bool // whether the next evaluation attempts the eviction again
		event     string
		heartbeat bool
	}{
		"a PodDisruptionBudget prevents the eviction": {
			apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0),
			"refused", true, "GPUMemoryEvictionRefused", true,
		},
		"the permission is missing": {
			apierrors.NewForbidden(pods, "a", errors.New("no")), "forbidden", true, "GPUMemoryEvictionRefused", false,
		},
		"the pod was replaced": {
			apierrors.NewConflict(pods, "a", errors.New("Precondition failed: UID in precondition: uid-a")), "pod_gone", true, "", true,
		},
		"the pod no longer exists": {apierrors.NewNotFound(pods, "a"), "pod_gone", true, "", true},
		"nobody knows":             {context.DeadlineExceeded, "action_failed", false, "GPUMemoryEvictionRefused", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := ownPods()
				a.refusal = tc.refusal
				g := startGuard(t, a, componenttest.NewNopHost(), enforce)
				defer g.stop()
				sendEachInterval(2*time.Minute, pressed, g)
				before := g.heartbeat()
				sendEachInterval(time.Minute, pressed, g)
				assert.EqualValues(t, 1, g.counted()[tc.reason])
				assert.Equal(t, tc.heartbeat, g.heartbeat() != before)
				if tc.event == "" {
					assert.Empty(t, a.events(t, "a"))
				} else {
					require.Len(t, a.events(t, "a"), 1)
					assert.Contains(t, a.events(t, "a")[0], tc.event)
				}

				sendEachInterval(time.Minute, pressed, g)
				if !tc.again {
					assert.Len(t, a.evictions(), 1)
					return
				}
				assert.Len(t, a.evictions(), 2)
				a.set(func() { a.refusal = nil })
				sendEachInterval(2*time.Minute, pressed, g)
				assert.Len(t, a.evictions(), 3)
				assert.EqualValues(t, 1, g.counted()["evicted"])
			})
		})
	}
}

func TestDeleteRequestHasTheUID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := ownPods()
		g := startGuard(t, a, componenttest.NewNopHost(), enforce, func(cfg *Config) { cfg.Action = actionDelete })
		defer g.stop()
		sendEachInterval(3*time.Minute, pressed, g)
		assert.Empty(t, a.evictions())
		assert.EqualValues(t, 1, g.counted()["evicted"])
		var deletes []clienttesting.DeleteActionImpl
		for _, action := range a.Actions() {
			if d, ok := action.(clienttesting.DeleteActionImpl); ok {
				deletes = append(deletes, d)
			}
		}
		require.Len(t, deletes, 1)
		assert.Equal(t, "a", deletes[0].Name)
		assert.EqualValues(t, "uid-a", *deletes[0].DeleteOptions.Preconditions.UID)
	})
}

func TestTheHeartbeatStopsWhileARequirementIsMissing(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("no"))
	for name, tc := range map[string]struct {
		missing func(*api)
		card    *card // nil means that no telemetry arrives at all
		reason  string
		status  string
	}{
		"the permission to evict is missing": {
			func(a *api) { a.denied["create pods/eviction"] = true }, &pressed, "no_permission",
			"permission is missing: create pods/eviction in namespace ai",
		},
		"the permission to read pods is missing": {
			func(a *api) { a.denied["get pods"], a.failing["get pods"] = true, forbidden }, &pressed, "no_permission",
			"permission is missing: get pods in namespace ai",
		},
		"the pod is missing in telemetry": {
			func(a *api) { a.failing["get pods"] = forbidden }, &pressed, "pod_unknown", "pod ai/a",
		},
		"telemetry":                        {func(*api) {}, nil, "telemetry_stale", ""},
		"a state of the device is missing": {func(*api) {}, &card{free: 900, attribution: "unheard_of"}, "attribution_invalid", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := ownPods()
				g := startGuard(t, a, componenttest.NewNopHost(), enforce)
				defer g.stop()
				sendEachInterval(2*time.Minute, pressed, g)
				last := g.heartbeat()
				assert.Equal(t, time.Now(), last)
				a.set(func() { tc.missing(a) })
				if tc.card != nil {
					sendEachInterval(3*time.Minute, *tc.card, g)
				} else {
					sleep(3 * time.Minute)
				}
				assert.Contains(t, g.counted(), tc.reason)
				if tc.card == nil { // After telemetry stopped, the last sample was still fresh for one more evaluation.
					last = last.Add(time.Minute)
				}
				assert.Equal(t, last, g.heartbeat())
				assert.Empty(t, a.evictions())
				if tc.status != "" {
					assert.Contains(t, g.host.Last(), tc.status)
				}
			})
		})
	}
}

// A request that receives no response takes up all the time available for the evaluation.
func TestUnavailableAPIServerIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := ownPods()
		a.PrependReactor("create", "selfsubjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
			time.Sleep(cluster.CallTimeout + time.Second) // ignores its context
			return true, nil, context.DeadlineExceeded
		})
		g := startGuard(t, a, componenttest.NewNopHost(), enforce, func(cfg *Config) { cfg.Interval = time.Second })
		defer g.stop()
		sleep(time.Minute)
		assert.Contains(t, g.counted(), "api_unavailable")
		assert.Equal(t, "permissions: context deadline exceeded", g.host.Last())
	})
}

func TestWatchdogRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := ownPods()
		a.denied["create pods/eviction"] = true
		g := startGuard(t, a, componenttest.NewNopHost(), enforce)
		defer g.stop()
		sendEachInterval(3*time.Minute, pressed, g)
		assert.Contains(t, g.host.Last(), "permission is missing")
		assert.True(t, g.heartbeat().IsZero())
		a.set(func() { a.denied = map[string]bool{} })
		sendEachInterval((recheckAfter+3)*time.Minute, pressed, g)
		assert.Equal(t, []string{"a"}, a.evictions())
		assert.Equal(t, "StatusOK", g.host.Last())
		assert.Len(t, g.host.Events(), 2, "each is reported once")
	})
}

// If no new data arrives for a device, the device's data becomes stale after max_data_age. After a
// longer time, the device is deleted, so that the removal of a node does not cause a permanent
// alert.
func TestMissingDeviceIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := ownPods()
		g := startGuard(t, a, componenttest.NewNopHost(), enforce)
		defer g.stop()
		sendEachInterval(2*time.Minute, pressed, g)
		sleep(10 * time.Minute)
		assert.Equal(t, map[string]int64{
			"breach_pending": 2, "no_new_sample": 1, "telemetry_stale": 6, "no_telemetry": 3,
		}, g.counted())
		assert.Contains(t, g.host.Last(), "no device is known")
		assert.Empty(t, a.evictions())
		sendEachInterval(2*time.Minute, pressed, g)
		assert.Empty(t, a.evictions(), "the state during the gap is unknown")
		sendEachInterval(time.Minute, pressed, g)
		assert.Len(t, a.evictions(), 1)
	})
}

func TestOneReplicaActsAndTheOtherTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := ownPods()
		elected := func(cfg *Config) { cfg.LeaderElection.Enabled = true }
		first := startGuard(t, a, componenttest.NewNopHost(), enforce, elected)
		sleep(time.Second)
		second := startGuard(t, a, componenttest.NewNopHost(), enforce, elected)
		defer second.stop()
		sendEachInterval(3*time.Minute, pressed, first, second)
		assert.Equal(t, []string{"a"}, a.evictions())
		assert.Contains(t, first.counted(), "evicted")
		assert.Equal(t, map[string]int64{"not_leader": 3}, second.counted())
		assert.True(t, second.heartbeat().IsZero())

		first.stop()
		sendEachInterval(2*time.Minute, relaxed, second)
		assert.Contains(t, second.counted(), "above_floor")
		assert.False(t, second.heartbeat().IsZero())
	})
}

func TestLeaderWithoutRenewalDoesNotAct(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := ownPods()
		g := startGuard(t, a, componenttest.NewNopHost(), enforce, func(cfg *Config) { cfg.LeaderElection.Enabled = true })
		defer g.stop()
		sendEachInterval(2*time.Minute, pressed, g)
		a.set(func() { a.failing["* leases"] = errors.New("no quorum") })
		sendEachInterval(3*time.Minute, pressed, g)
		assert.Empty(t, a.evictions())
		assert.Contains(t, g.counted(), "not_leader")
		assert.Contains(t, g.host.Last(), "no quorum")
	})
}

func TestEachProblemIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := ownPods()
		a.failing["update leases"] = errors.New("no quorum")
		g := startGuard(t, a, componenttest.NewNopHost(), enforce, func(cfg *Config) {
			cfg.LeaderElection.Enabled, cfg.Interval = true, time.Second
		})
		defer g.stop()
		sleep(time.Minute)
		warned := g.logs.FilterMessage("The GPU watchdog cannot act.").All()
		require.Len(t, warned, 2)
		assert.Equal(t, "lease monitoring/otelcol-gpu-watchdog: no quorum", warned[0].ContextMap()["error"])
		assert.Equal(t, "no device is known: gpu.memory.headroom and gpu.memory.attribution.state are not received", warned[1].ContextMap()["error"])
		assert.Zero(t, g.logs.FilterMessage("The GPU watchdog can act again.").Len())
		a.set(func() { clear(a.failing) })
		sendEachInterval(time.Minute, relaxed, g)
		assert.Equal(t, 1, g.logs.FilterMessage("The GPU watchdog can act again.").Len())
	})
}

func TestBreachesCooldownsAndCapsSurviveARestart(t *testing.T) {
	for reason, change := range map[string]func(*Config){
		"device_cooldown": func(*Config) {},
		"owner_cooldown":  func(cfg *Config) { cfg.Cooldown.Device = 0 },
		"hourly_cap":      func(cfg *Config) { cfg.Cooldown, cfg.MaxActionsPerHour = CooldownConfig{}, 1 },
	} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := ownPods()
				m := storagetest.NewMemory(nil)
				stored := func(cfg *Config) { cfg.Storage = &storagetest.ID }
				first := startGuard(t, a, m, enforce, stored, change)
				sendEachInterval(2*time.Minute, pressed, first)
				heartbeat := first.heartbeat()
				first.stop()

				second := startGuard(t, a, m, enforce, stored, change)
				assert.Equal(t, heartbeat, second.heartbeat())
				sendEachInterval(time.Minute, pressed, second)
				assert.Equal(t, []string{"a"}, a.evictions(), "two breaches before the restart and one after it")
				second.stop()

				third := startGuard(t, a, m, enforce, stored, change)
				defer third.stop()
				sendEachInterval(9*time.Minute, pressed, third)
				assert.Len(t, a.evictions(), 1)
				assert.Equal(t, map[string]int64{"breach_pending": 2, reason: 7}, third.counted())
			})
		})
	}
}

func TestStateOfThePreviousVersionIsRestored(t *testing.T) {
	for name, tc := range map[string]struct {
		raw       string
		evictions []string
		counted   map[string]int64
	}{
		"two breaches": {
			`{"version":1,"last_success":"2000-01-01T00:02:00Z","breaches":[{"node":"gpu-1","id":"GPU-0","count":2,` +
				`"last_at":"2000-01-01T00:01:50Z","over":{"uid-a":2},"floor":1610612736}],"actions":null}` + "\x85m\xf0\x0f",
			[]string{"a"},
			map[string]int64{"evicted": 1},
		},
		"an eviction": {
			`{"version":1,"last_success":"2000-01-01T00:03:00Z","breaches":null,"actions":[{"at":"2000-01-01T00:03:00Z",` +
				`"device":{"node":"gpu-1","id":"GPU-0"},"namespace":"ai","pod":"a","uid":"uid-a","owner":"ai/Deployment/a"}]}` + "\xa6zP\x9d",
			nil,
			map[string]int64{"breach_pending": 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(2 * time.Minute)
				a := ownPods()
				m := storagetest.NewMemory(nil)
				m.PutRaw("state", tc.raw)
				g := startGuard(t, a, m, enforce, func(cfg *Config) { cfg.Storage = &storagetest.ID })
				defer g.stop()
				assert.Zero(t, g.logs.FilterMessageSnippet("cannot be used").Len())
				sendEachInterval(time.Minute, pressed, g)
				assert.Equal(t, tc.evictions, a.evictions())
				assert.Equal(t, tc.counted, g.counted())
			})
		})
	}
}

func TestNoEvictionWithoutStoredState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := ownPods()
		m := storagetest.NewMemory(nil)
		g := startGuard(t, a, m, enforce, func(cfg *Config) { cfg.Storage = &storagetest.ID })
		defer g.stop()
		sendEachInterval(2*time.Minute, pressed, g)
		m.Fail(errors.New("no space left on device"))
		sendEachInterval(time.Minute, pressed, g)
		assert.Empty(t, a.evictions())
		assert.Contains(t, g.counted(), "state_unsaved")
		assert.Contains(t, g.host.Last(), "no space left on device")
		m.Fail(nil)
		sendEachInterval(time.Minute, pressed, g)
		assert.Len(t, a.evictions(), 1)
	})
}

func TestUnreadableStateIsLoggedAndNotOverwritten(t *testing.T) {
	for name, text := range map[string]string{"damaged": `{"version":1,`, "a state of another version": `{"version":2}`} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := storagetest.NewMemory(map[string]string{stateKey: text})
				g := startGuard(t, ownPods(), m, enforce, func(cfg *Config) { cfg.Storage = &storagetest.ID })
				defer g.stop()
				assert.Len(t, g.logs.FilterMessage("The stored state cannot be used. Breach counts and cool-downs restart.").All(), 1)
				sendEachInterval(time.Minute, pressed, g)
				assert.Equal(t, map[string]int64{"breach_pending": 1}, g.counted())
				var stored storedState
				require.NoError(t, json.Unmarshal([]byte(m.Values()[stateKey]), &stored))
				assert.Equal(t, stateVersion, stored.Version)
			})
		})
	}
}

func TestClockChangeRestartsBreachCountsAndKeepsCooldowns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := ownPods()
		g := startGuard(t, a, componenttest.NewNopHost(), enforce)
		defer g.stop()
		sendEachInterval(3*time.Minute, pressed, g)
		require.Len(t, a.evictions(), 1)

		const day = 24 * time.Hour
		g.offset.Store(int64(day))
		sendEachInterval(5*time.Minute, pressed, g)
		assert.EqualValues(t, 1, g.counted()["clock_step"])
		assert.Len(t, a.evictions(), 1)
		assert.Contains(t, g.counted(), "device_cooldown", "the clock is a day ahead, but only minutes have passed")
		sendEachInterval(30*time.Minute, pressed, g)
		assert.Len(t, a.evictions(), 2, "the owner's cool-down has ended")
	})
}

// If the clock is set forward slightly, breaches from before the change could still count as
// consecutive. If the clock is set back, all earlier samples appear to be newer than later samples.
func TestDataFromBeforeAClockChangeIsIgnored(t *testing.T) {
	for _, step := range []time.Duration{2 * clockTolerance, -10 * time.Minute} {
		t.Run(step.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := ownPods()
				g := startGuard(t, a, componenttest.NewNopHost(), enforce)
				defer g.stop()
				sendEachInterval(2*time.Minute, pressed, g)
				g.offset.Store(int64(step))
				sendEachInterval(3*time.Minute, pressed, g)
				assert.Equal(t, map[string]int64{"breach_pending": 2 + 2, "clock_step": 1}, g.counted())
				sendEachInterval(time.Minute, pressed, g)
				assert.Len(t, a.evictions(), 1)
			})
		})
	}
}

func TestFailedEventIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := ownPods()
		a.failing["create events"] = errors.New("namespace is terminating")
		g := startGuard(t, a, componenttest.NewNopHost(), enforce)
		defer g.stop()
		sendEachInterval(3*time.Minute, pressed, g)
		assert.Len(t, a.evictions(), 1)
		_, err := g.telemetry.GetMetric("otelcol_exporter_gpu_watchdog_events_failed")
		require.NoError(t, err)
		assert.Equal(t, time.Now(), g.heartbeat())
	})
}

func TestStartFailsForMissingDependencies(t *testing.T) {
	set := metadatatest.NewSettings(componenttest.NewTelemetry())
	start := func(host component.Host, change ...func(*Config)) error {
		w, err := newWatchdog(set, newConfig(change...))
		require.NoError(t, err)
		err = w.start(t.Context(), host)
		require.NoError(t, w.shutdown(t.Context()))
		return err
	}
	stored := func(cfg *Config) { cfg.Storage = &storagetest.ID }
	require.ErrorContains(t, start(componenttest.NewNopHost(), stored), `storage is "memory_storage": must be an extension that service::extensions lists`)
	require.ErrorContains(t, start(storagetest.NewMemory(nil), stored, func(cfg *Config) {
		cfg.Kubernetes = kube.Config{AuthType: kube.AuthKubeConfig, KubeConfig: "/no/such/file"}
	}), "/no/such/file")
}

func TestWatchdogOutsideAClusterReportsTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		telemetry := componenttest.NewTelemetry()
		w, err := newWatchdog(metadatatest.NewSettings(telemetry), newConfig())
		require.NoError(t, err)
		h := statustest.NewHost()
		require.NoError(t, w.start(t.Context(), h))
		sleep(time.Minute)
		assert.Contains(t, h.Last(), "the API server is not used")
		require.NoError(t, w.shutdown(t.Context()))
		require.NoError(t, telemetry.Shutdown(t.Context()))
	})
}

func TestShutdownIsSafeWithoutStartAndTwice(t *testing.T) {
	w, err := newWatchdog(exportertest.NewNopSettings(metadata.Type), newConfig())
	require.NoError(t, err)
	require.NoError(t, w.shutdown(t.Context()))
	require.NoError(t, w.shutdown(t.Context()))
	synctest.Test(t, func(t *testing.T) {
		g := startGuard(t, ownPods(), componenttest.NewNopHost())
		require.NoError(t, g.shutdown(t.Context()))
		g.stop()
	})
}

func TestShutdownReturnsWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := ownPods()
		release := make(chan struct{})
		a.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			<-release // ignores its context
			return true, nil, errors.New("late")
		})
		g := startGuard(t, a, componenttest.NewNopHost(), enforce)
		sendEachInterval(3*time.Minute, pressed, g)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, g.shutdown(ctx), context.DeadlineExceeded)
		close(release)
		g.stop()
	})
}
