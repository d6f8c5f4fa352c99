package dratest

import "slices"

// Count contains the number of claims in a group and the number of devices that these claims have
// or request.
type Count struct{ Claims, Devices int64 }

// ClaimKey identifies the group of claims that have the same device class and state.
type ClaimKey struct{ Class, State string }

// ClaimCounts counts claims for GPUs by device class and state. Claims for extended resources and
// devices with administrative access are not counted.
func (w *World) ClaimCounts() map[ClaimKey]Count {
	out := map[ClaimKey]Count{}
	count := func(class, state string, devices int) {
		c := out[ClaimKey{class, state}]
		out[ClaimKey{class, state}] = Count{c.Claims + 1, c.Devices + int64(devices)}
	}
	for _, c := range w.waiting {
		count(NVIDIA, "pending", c.wants)
	}
	for _, c := range w.claims {
		if c.extended {
			continue
		}
		state := "allocated"
		if len(c.pods) > 0 || c.gone {
			state = "reserved"
		}
		devices := map[string]int{}
		for _, r := range c.results {
			if !r.admin {
				devices[r.device.class()]++
			}
		}
		for class, n := range devices {
			count(class, state, n)
		}
	}
	return out
}

// DeviceKey identifies the group of advertised devices that have the same driver, pool, and type.
type DeviceKey struct{ Driver, Pool, Type string }

// DeviceCounts returns the number of devices in complete pools and their memory in bytes. The
// memory of a partitioned board is counted only once.
func (w *World) DeviceCounts() (devices map[DeviceKey]int64, memory map[DeviceKey]float64) {
	devices, memory = map[DeviceKey]int64{}, map[DeviceKey]float64{}
	for _, d := range w.devices {
		if w.unlisted(d) {
			continue
		}
		key := DeviceKey{d.driver, d.pool, d.kind}
		if d.driver == AMD {
			key.Type = "amdgpu"
		}
		devices[key]++
		if d.board != nil && (d.kind == "gpu" || d.board.kind == static) {
			memory[key] += float64(d.memory()) * (1 << 30)
		}
	}
	return devices, memory
}

// unlisted reports whether the device's pool is not published or is incomplete.
func (w *World) unlisted(d *device) bool {
	return d.removed || w.hidden && d.driver == NVIDIA && d.pool == w.Node
}

// IncompletePools returns the number of pools that are only partly published.
func (w *World) IncompletePools() int64 {
	if w.hidden {
		return 1
	}
	return 0
}

// PoolKey identifies the group of devices that have the same driver, pool, and state.
type PoolKey struct{ Driver, Pool, State string }

// PoolStatus returns the numbers of allocated, unavailable, and available devices in complete
// pools. For pools with shared or dynamically partitioned boards, the number of available devices
// is unknown and omitted.
func (w *World) PoolStatus() map[PoolKey]int64 {
	out := map[PoolKey]int64{}
	dependent := map[[2]string]bool{}
	for _, d := range w.devices {
		if d.board != nil && (d.board.kind == shares || d.board.kind == dynamic) {
			dependent[[2]string{d.driver, d.pool}] = true
		}
	}
	for _, d := range w.devices {
		if w.unlisted(d) {
			continue
		}
		state := "available"
		switch {
		case w.takes(d) > 0 && !d.renamed:
			state = "allocated"
		case w.effect(d) != "":
			state = "unavailable"
		}
		for _, s := range []string{"allocated", "unavailable", "available"} {
			key := PoolKey{d.driver, d.pool, s}
			switch {
			case s == "available" && dependent[[2]string{d.driver, d.pool}]:
			case s == state:
				out[key]++
			default:
				out[key] += 0
			}
		}
	}
	return out
}

// Taints returns the distinct taints of the devices in complete pools, and the number of devices by
// the strongest effect of their taints. For devices without a taint that has an effect, the key is
// "".
func (w *World) Taints() (taints []Taint, devices map[string]int64) {
	devices = map[string]int64{}
	for _, d := range w.devices {
		if w.unlisted(d) {
			continue
		}
		devices[w.effect(d)]++
		for _, t := range w.taintsOf(d) {
			taint := Taint{d.driver, d.pool, d.published(), t.Key, t.Value, string(t.Effect)}
			if !slices.Contains(taints, taint) {
				taints = append(taints, taint)
			}
		}
	}
	return taints, devices
}

// Taint is a taint of an advertised device.
type Taint struct{ Driver, Pool, Device, Key, Value, Effect string }

// Reserved is a claimed device together with a pod that the claim is reserved for.
type Reserved struct{ Claim, Driver, Pool, Device, Share, Pod, UID string }

// ReservedDevices returns all claimed devices, each with every pod that the claim is reserved for,
// in any order.
func (w *World) ReservedDevices() (out []Reserved) {
	for _, c := range w.claims {
		for _, r := range c.results {
			if r.admin {
				continue
			}
			of := Reserved{Claim: c.uid, Driver: r.device.driver, Pool: r.device.pool, Device: r.device.name, Share: r.share}
			for _, p := range c.pods {
				if c.group && p.ended {
					continue // the PodGroup reserves the claim only for its remaining pods
				}
				of.Pod, of.UID = p.name, p.uid
				out = append(out, of)
			}
			if c.gone {
				of.Pod, of.UID = "gone", "gone-"+c.uid
				out = append(out, of)
			}
		}
	}
	return out
}

// UnknownDevices returns the number of claimed devices that are not listed in any complete pool.
func (w *World) UnknownDevices() (n int64) {
	for _, c := range w.claims {
		n += int64(len(slices.DeleteFunc(slices.Clone(c.results), func(r result) bool {
			return r.admin || !w.unlisted(r.device) && !r.device.renamed
		})))
	}
	return n
}
