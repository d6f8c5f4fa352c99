package gpuclusterreceiver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/gpuclusterreceiver/internal/demand"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/dratest"
)

// The receiver must report the same numbers of claims and devices as an independent count of the same
// objects. The histories are also used to test gpu_k8s.
func TestClaimsAndDevicesAreCountedAfterEveryChange(test *testing.T) {
	rounds := 20 // rapid runs 100 histories per round, or 20 with -short
	if testing.Short() {
		rounds = 5
	}
	for range rounds {
		rapid.Check(test, func(t *rapid.T) {
			now := time.Unix(1e9, 0)
			w := dratest.New(t, now)
			for range rapid.IntRange(1, 8).Draw(t, "changes") {
				now = now.Add(15 * time.Second)
				w.Change(t, now)
			}
			checkCounts(t, w, now)
		})
	}
}

func checkCounts(t *rapid.T, w *dratest.World, now time.Time) {
	cfg := createDefaultConfig().(*Config)
	families, err := cfg.families()
	require.NoError(t, err)
	c := demand.New(cfg.demandOptions(families))
	for _, p := range w.Pods("") {
		c.SetPod(convertPod(p, families))
	}
	for _, claim := range w.ResourceClaims() {
		c.SetClaim(claim)
	}
	for _, s := range w.ResourceSlices("") {
		slice, dropped := convertSlice(s)
		assert.Empty(t, dropped)
		c.SetSlice(slice)
	}
	points, stats := c.Points(now, demand.Observed{Pods: true, Claims: true, Slices: true}, nil)

	claims, devices, memory := map[dratest.ClaimKey]dratest.Count{}, map[dratest.DeviceKey]int64{}, map[dratest.DeviceKey]float64{}
	var reserved []dratest.Reserved
	var taints, listed int64
	for i := range points {
		p := &points[i]
		attr := func(key string) string {
			for _, a := range p.Attributes {
				if a.Key == key {
					return a.Value
				}
			}
			return ""
		}
		claimKey := dratest.ClaimKey{Class: attr(signal.DeviceClassName), State: attr(signal.State)}
		deviceKey := dratest.DeviceKey{Driver: attr(signal.DRADriver), Pool: attr(signal.DRAPool), Type: attr(signal.DRADeviceType)}
		switch p.Metric {
		case signal.K8sResourceClaimCount:
			if p.Int > 0 {
				claims[claimKey] = dratest.Count{Claims: p.Int, Devices: claims[claimKey].Devices}
			}
		case signal.K8sResourceClaimRequested:
			if p.Int > 0 {
				claims[claimKey] = dratest.Count{Claims: claims[claimKey].Claims, Devices: p.Int}
			}
		case signal.K8sResourceSliceDevices:
			devices[deviceKey] = p.Int
		case signal.K8sResourceSliceDevice:
			listed++
		case signal.K8sResourceSliceCapacity:
			memory[deviceKey] = p.Double
		case signal.K8sResourceSliceDeviceTaint:
			taints++
		case signal.K8sResourceClaimDevice:
			reserved = append(reserved, dratest.Reserved{
				Claim: attr(signal.ResourceClaimUID), Driver: attr(signal.DRADriver), Pool: attr(signal.DRAPool), Device: attr(signal.DRADevice),
				Share: attr(signal.DRAShareID), Pod: p.Place.Pod, UID: p.Place.PodUID,
			})
		}
	}
	wantDevices, wantMemory := w.DeviceCounts()
	var wantListed int64
	for _, n := range wantDevices {
		wantListed += n
	}
	ok := assert.Equal(t, w.ClaimCounts(), claims)
	ok = assert.Equal(t, wantDevices, devices) && ok
	ok = assert.Equal(t, wantListed, listed) && ok
	ok = assert.Equal(t, wantMemory, memory) && ok
	ok = assert.Equal(t, w.Taints(), taints) && ok
	ok = assert.ElementsMatch(t, w.ReservedDevices(), reserved) && ok
	ok = assert.Equal(t, w.UnknownDevices(), stats.UnknownDevices) && ok
	require.True(t, ok, "%s", w)
}
