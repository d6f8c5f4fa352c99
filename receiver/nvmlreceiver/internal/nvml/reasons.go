package nvml

import (
	"slices"
	"strconv"
	"strings"
)

// These constants are the first of three consecutive field numbers. A driver uses the three numbers
// for FieldReasonSWThermal, FieldReasonHWThermal and FieldReasonHWPowerBrake.
const (
	firstReasonR575 = 251
	firstReasonR580 = 269
)

// firstReason returns the number of FieldReasonSWThermal in the given driver version, or 0 if it is
// unknown.
//
// NVIDIA renumbered fields 251 to 273 twice. Each numbering uses the other numbering's three
// numbers for power smoothing (enablements, percentages, mW/s):
//
//	up to R570           no such counters, power smoothing is 251 to 268
//	R575 to 580.76.05    251 to 253, power smoothing is 256 to 273
//	580.82.07 and later  269 to 271, power smoothing is 251 to 268
//
// The sources are the known issues of the NVML API reference (fields 251 to 273 "have changed
// between 13.0 and 13.0U1/v580TRD2") and the nvml.h of each driver. NVIDIA publishes this header as
// src/nvml.h of nvidia-settings, tagged with the driver's version (185 of them, 410.57 to
// 610.43.03). All other fields that are read here have the same number in all of these headers.
//
// Drivers for systems other than Linux (WSL's 580.97, Jetson's 580.00) number the releases of R580
// differently. Versions of that branch are therefore only accepted if they have three parts. There
// are no Linux drivers between R580 and R590.
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

// firstLinkCounters is the first driver version whose nvml.h documents how to read the NVLink
// fields.
var firstLinkCounters = []int{570, 133, 7}

// hasLinkCounters reports whether the given driver version has error counters per NVLink, with the
// link in the scope of the field.
//
// The headers contain FieldNVLinkErrorReplay to FieldNVLinkErrorCRC since 520.56.06, and
// FieldNVLinkRecoveryEvents since 560.28.03. These numbers were not used before. nvml.h defines the
// scope for them since 570.133.07: "Link ID needs to be specified in the scopeId field". In earlier
// versions, a value could be for one link or for all links, so it is not read.
func hasLinkCounters(driver string) bool {
	version := parseVersion(driver)
	return version != nil && slices.Compare(version, firstLinkCounters) >= 0
}

// parseVersion splits a driver version into numbers, or returns nil if it is invalid.
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
