package attribution

import (
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// doubt is the kinds of devices that unmatched allocations could mean.
type doubt struct {
	boards, instances bool
}

func (d doubt) about(instance bool) bool { return d.boards && !instance || d.instances && instance }

func (d *doubt) add(r Reason, kind string) {
	if r == UnknownMIG || kind == "mig" {
		d.instances = true
		return
	}
	d.boards, d.instances = true, true
}

// nobody adds the devices that nobody holds. A device gets "nobody" only if no unmatched id of the
// kubelet (missing), claim (claimed), annotation or slice (unseen) could be that device. dynamic is
// true if the kubelet lists DRA devices. Other vendors' devices remain unknown, because the kubelet
// and the claims are read for NVIDIA's only. For a board with instances see [Entry.Cut].
func (b *builder) nobody(dynamic bool, missing, claimed, unseen doubt) {
	inSlice := map[string]bool{}
	for d := range b.join.slices {
		if id, reason := b.join.dra(d); reason == Joined {
			inSlice[id] = true
		}
	}
	for id, d := range b.devices {
		e := b.entry(id)
		claims := e.Source == signal.HolderSourceDRA // claims name holders, which may have ended
		if e.Source != "" && !claims || !isNVIDIA(id, &d) {
			continue
		}
		instance := d.Parent != ""
		if claimed.about(instance) {
			continue
		}
		e.after = b.disputed.boards
		if instance {
			e.after = b.disputed.instances
		}
		off := b.sources.Listing.State == kube.Off
		listing := !off && !missing.about(instance)
		byClaims := inSlice[id] && b.sources.ClaimsState == kube.Synced && (listing || off)
		switch {
		case claims:
			e.released = byClaims || listing && dynamic
		// A kubelet that lists no DRA device may not support it.
		case listing && (dynamic || !inSlice[id] && !unseen.about(instance)):
			e.Source = signal.HolderSourcePodResources
		case byClaims:
			e.Source = signal.HolderSourceDRA
		}
	}
}

// isNVIDIA reports whether a device is one of NVIDIA's. If the vendor is known, it decides rather
// than the id: other vendors' ids may have the same prefix.
func isNVIDIA(id string, d *gpudata.Description) bool {
	return exporters.IsBoard(id) && (d.Vendor == "" || strings.EqualFold(d.Vendor, signal.VendorNVIDIA))
}
