package attribution

import (
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// deviceKinds contains the kinds of devices that unmatched allocations might refer to.
type deviceKinds struct {
	boards, instances bool
}

func (d deviceKinds) includes(instance bool) bool {
	return d.boards && !instance || d.instances && instance
}

func (d *deviceKinds) add(r Reason, kind string) {
	if r == UnknownMIG || kind == "mig" {
		d.instances = true
		return
	}
	d.boards, d.instances = true, true
}

// addUnheldDevices marks the devices that have no holder. If an unmatched kubelet ID, claim,
// annotation, or slice could refer to a device, the device is not marked as having no holder. The
// dynamic parameter is true if the kubelet lists a DRA device that might be an NVIDIA GPU. Other
// vendors' devices are never marked as having no holder, because the processor knows all
// allocations only for NVIDIA devices. For boards that have instances, see [Entry.Cut].
func (b *builder) addUnheldDevices(dynamic bool, unmatchedIDs, unmatchedSlices deviceKinds) {
	inSlice := map[string]bool{}
	for d := range b.join.slices {
		if id, reason := b.join.draDeviceID(d); reason == Joined {
			inSlice[id] = true
		}
	}
	for id, d := range b.devices {
		e := b.entry(id)
		fromClaims := e.Source == signal.HolderSourceDRA // Claims identify holders of the device, but the holders may have ended.
		if e.Source != "" && !fromClaims || !isNVIDIA(id, &d) {
			continue
		}
		instance := d.Parent != ""
		e.after = b.disputed.boards
		if instance {
			e.after = b.disputed.instances
		}
		kubeletOff := b.sources.Listing.State == kube.Off
		listing := !kubeletOff && !unmatchedIDs.includes(instance)
		unheldByClaims := inSlice[id] && b.sources.ClaimsState == kube.Synced && (listing || kubeletOff)
		switch {
		case fromClaims:
			e.released = unheldByClaims || listing && dynamic
		// If the kubelet lists no DRA devices, the kubelet may not support DRA.
		case listing && (dynamic || !inSlice[id] && !unmatchedSlices.includes(instance)):
			e.Source, e.mayOmitClaims = signal.HolderSourcePodResources, !dynamic
		case unheldByClaims:
			e.Source = signal.HolderSourceDRA
		}
	}
}

// isNVIDIA reports whether a device is an NVIDIA device. If the vendor is known, the vendor takes
// precedence over the ID, because other vendors' IDs can have the same prefix.
func isNVIDIA(id string, d *gpudata.Description) bool {
	return exporters.IsBoard(id) && (d.Vendor == "" || strings.EqualFold(d.Vendor, signal.VendorNVIDIA))
}
