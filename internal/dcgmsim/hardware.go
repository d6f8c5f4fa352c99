package dcgmsim

import (
	"fmt"
	"time"
)

// hardware describes a board and its driver.
type hardware struct {
	model  string
	driver string
	// fbMiB is the sum of used and free memory. If the driver reports reserved memory separately,
	// the total is fbMiB + reservedMiB.
	fbMiB, reservedMiB int64
	// instanceMiB and instanceReservedMiB are the corresponding sizes for a MIG instance with the
	// smallest profile.
	instanceMiB, instanceReservedMiB int64
	profile                          string
	idleWatts, limitWatts            float64
	smMHz, memMHz                    float64
	pcieGen                          int64
	links                            int
	// pcieBytes and nvlinkBytes are the capacities of the links in each direction, in bytes per
	// second.
	pcieBytes, nvlinkBytes float64
	// rowRemapping is false for boards that retire memory pages instead of remapping memory rows.
	rowRemapping bool
}

// Each of the following NVIDIA boards was typical when the exporters of one generation were
// current.
var (
	v100 = hardware{
		model: "Tesla V100-SXM2-32GB", driver: "450.51.06",
		fbMiB:     32510,
		idleWatts: 42, limitWatts: 300, smMHz: 1530, memMHz: 877,
		pcieGen: 3, links: 6, pcieBytes: 15.75e9, nvlinkBytes: 150e9,
	}
	a100 = hardware{
		model: "NVIDIA A100-SXM4-80GB", driver: "525.60.13",
		fbMiB: 81252, reservedMiB: 668, instanceMiB: 9672, instanceReservedMiB: 56, profile: "1g.10gb",
		idleWatts: 58, limitWatts: 400, smMHz: 1410, memMHz: 1593,
		pcieGen: 4, links: 12, pcieBytes: 31.5e9, nvlinkBytes: 300e9, rowRemapping: true,
	}
	h100 = hardware{
		model: "NVIDIA H100 80GB HBM3", driver: "580.105.08",
		fbMiB: 81079, reservedMiB: 480, instanceMiB: 9856, instanceReservedMiB: 128, profile: "1g.10gb",
		idleWatts: 68, limitWatts: 700, smMHz: 1980, memMHz: 2619,
		pcieGen: 5, links: 18, pcieBytes: 63e9, nvlinkBytes: 450e9, rowRemapping: true,
	}
)

// firstInstanceID is the GPU_I_ID of the first 1g instance. Seven 1g instances have the IDs 7 to
// 13.
const firstInstanceID = 7

// ripple is noise in the power draw, in watts. The noise makes values differ from scrape to scrape
// without changing the mean.
var ripple = newCurve(
	point{0, 0}, point{900 * time.Millisecond, 4.5}, point{2800 * time.Millisecond, -4.5}, point{3700 * time.Millisecond, 0})

// mix is the finalizer of splitmix64, a fast hash. The hash is used to derive a device's identity
// and history from the device's position.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// uuid returns a UUID in NVML's format, with the given prefix. The UUID is derived from the key.
func uuid(prefix string, key uint64) string {
	hi, lo := mix(key), mix(key+1)
	return fmt.Sprintf("%s-%08x-%04x-%04x-%04x-%012x", prefix, hi>>32, hi>>16&0xffff, hi&0xffff, lo>>48, lo&0xffffffffffff)
}

// busID returns the PCI bus ID of a node's nth GPU in dcgm-exporter's format.
func busID(n int) string {
	return fmt.Sprintf("%08X:%02X:00.0", n/14, 0x19+n%14*0x11)
}
