package gpuk8sprocessor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/attribution"
)

// The holders of a device are unknown if a pool is incomplete, if a device was renamed, or if a
// claim was deleted while a pod was using the claim's device. Each cause of unknown holders is
// counted, and is logged once if the cause persists.
func TestCausesOfUnknownHoldersAreLoggedOnceWhenTheyLast(t *testing.T) {
	claimed := func(pod, claim, device string) attribution.ContainerResources {
		return attribution.ContainerResources{Namespace: "ns", Pod: pod, Container: "c", Claimed: []attribution.ClaimedDevice{
			{Namespace: "ns", Allocation: gpudata.Allocation{Claim: claim, Driver: "gpu.nvidia.com", Pool: "n1", Device: device}},
		}}
	}
	listing := func(containers ...attribution.ContainerResources) attribution.Sources {
		return attribution.Sources{
			Listing: attribution.Listing{State: kube.Synced, Containers: containers},
			Devices: map[attribution.DRADevice]attribution.SliceDevice{
				{Driver: "gpu.nvidia.com", Pool: "n1", Device: "gpu-0"}: {Kind: "gpu", UUID: lengthen("GPU-1")},
			},
		}
	}
	for name, test := range map[string]struct {
		sources attribution.Sources
		message string
		fields  map[string]any
	}{
		"a device that is in no complete pool": {
			sources: listing(claimed("a", "claim-a", "gpu-1"), claimed("b", "claim-b", "gpu-2")),
			message: "match no device in the telemetry",
			fields:  map[string]any{"reason": "no_slice", "device": "gpu.nvidia.com/n1/gpu-1", "devices": int64(2)},
		},
		"a scheduler's annotation that cannot be read": {
			sources: attribution.Sources{
				Listing: attribution.Listing{State: kube.Synced}, PodsState: kube.Synced,
				Pods: []attribution.Pod{{Namespace: "ns", Name: "a", UID: "u", Annotated: true, Unread: true}},
			},
			message: "match no device in the telemetry",
			fields:  map[string]any{"reason": "unreadable_annotation", "device": "annotation of ns/a", "devices": int64(1)},
		},
		"two claims, one of them deleted": {
			sources: listing(claimed("a", "claim-a", "gpu-0"), claimed("b", "claim-b", "gpu-0")),
			message: "allocated exclusively",
			fields:  map[string]any{"hw.id": lengthen("GPU-1"), "devices": int64(1)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			core, logs := observer.New(zap.WarnLevel)
			tracker := attribution.New(history, time.Minute, []string{"gpu.nvidia.com"})
			var d doubts
			now := time.Unix(1e9, 0)
			after := func(passed time.Duration, s attribution.Sources) {
				now = now.Add(passed)
				tracker.Update(now, s)
				stats := tracker.Stats()
				d.log(zap.New(core), now, &stats)
			}
			after(0, test.sources)
			after(doubtAge-time.Second, test.sources)
			require.Zero(t, logs.Len(), "the cause may end soon")
			for range 100 {
				after(time.Second, test.sources)
			}
			require.Equal(t, 1, logs.Len())
			assert.Contains(t, logs.All()[0].Message, test.message)
			assert.Equal(t, test.fields, logs.All()[0].ContextMap())

			after(time.Second, listing())
			after(componenthelper.LogAgainAfter, listing())
			after(time.Second, test.sources)
			after(doubtAge, test.sources)
			assert.Equal(t, 2, logs.Len(), "it is logged again after it was absent")
		})
	}
}
