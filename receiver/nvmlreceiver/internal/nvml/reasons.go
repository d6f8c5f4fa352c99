package nvml

import (
	"slices"
	"strconv"
	"strings"
)

// Each of these constants is the first of three consecutive field numbers. Depending on its
// version, a driver uses one of these two sets of three numbers for FieldReasonSWThermal,
// FieldReasonHWThermal, and FieldReasonHWPowerBrake.
const (
	firstReasonR575 = 251
	firstReasonR580 = 269
)

// firstReason returns the field number of FieldReasonSWThermal in the given driver version, or 0 if
// the number is unknown.
//
// NVIDIA renumbered fields 251 to 273 twice, so different drivers use the same numbers for
// different fields: slowdown counters, or power smoothing (enablements, percentages, mW/s).
//
// Drivers up to R570 do not have slowdown counters, and use 251 to 268 for power smoothing. Drivers
// from R575 to 580.76.05 use 251 to 253 for slowdown counters, and 256 to 273 for power smoothing.
// Drivers from 580.82.07 on use 269 to 271 for slowdown counters, and 251 to 268 for power
// smoothing.
//
// The sources of this information are the known issues in the NVML API reference (fields 251 to 273
// "have changed between 13.0 and 13.0U1/v580TRD2") and the nvml.h header of each driver version.
// NVIDIA publishes the header as src/nvml.h in the nvidia-settings repository, with a tag for each
// driver version (185 tags from 410.57 to 610.43.03). All other fields that this package reads have
// the same numbers in all of these headers.
//
// R580 drivers for systems other than Linux, such as 580.97 for WSL and 580.00 for Jetson, use a
// different numbering scheme. Therefore, firstReason accepts an R580 version only if it has three
// parts. There are no Linux driver branches between R580 and R590.
func firstReason(driver string) FieldID {
	version := parseVersion(driver)
	if version == nil {
		return 0
	}
	switch branch := version[0]; {
	case branch == 575:
		return firstReasonR575
	case branch == 580 && len(version) != 3:
		return 0
	case branch == 580 && slices.Compare(version, []int{580, 76, 5}) <= 0:
		return firstReasonR575
	case branch == 580 && slices.Compare(version, []int{580, 82, 7}) >= 0, branch >= 590:
		return firstReasonR580
	}
	return 0
}

// firstLinkCounters is the first driver version whose nvml.h documents how to read the NVLink error
// counters of a single link.
var firstLinkCounters = []int{570, 133, 7}

// hasLinkCounters reports whether the given driver version supports reading the error counters of a
// single NVLink, which requires passing the link number as the scope of the field.
//
// FieldNVLinkErrorReplay to FieldNVLinkErrorCRC were added to nvml.h in 520.56.06, and
// FieldNVLinkRecoveryEvents was added in 560.28.03. Earlier headers do not use these field numbers.
// The meaning of the scope was added to nvml.h in 570.133.07: "Link ID needs to be specified in the
// scopeId field". In earlier versions, it is unknown whether a value covers one link or all links,
// so the package does not read these fields.
func hasLinkCounters(driver string) bool {
	version := parseVersion(driver)
	return version != nil && slices.Compare(version, firstLinkCounters) >= 0
}

// parseVersion splits a driver version into numbers. If the version is invalid, parseVersion
// returns nil.
func parseVersion(driver string) (version []int) {
	for part := range strings.SplitSeq(driver, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil
		}
		version = append(version, n)
	}
	return version
}
