package nvml

import (
	"slices"
	"strconv"
	"strings"
)

// The first of the three numbers that FieldReasonSWThermal, FieldReasonHWThermal
// and FieldReasonHWPowerBrake have in a driver, in this order.
const (
	firstReasonR575 = 251
	firstReasonR580 = 269
)

// firstReason returns the number of FieldReasonSWThermal in a driver, given its
// version; 0 where it is not known.
//
// NVIDIA renumbered fields 251 to 273 twice. Each numbering gives the three
// numbers of the other to power smoothing (enablements, percentages, mW/s):
//
//	up to R570           no such counters, power smoothing is 251 to 268
//	R575 to 580.76.05    251 to 253, power smoothing is 256 to 273
//	580.82.07 and later  269 to 271, power smoothing is 251 to 268
//
// The sources are the nvml.h of each driver, which NVIDIA publishes as src/nvml.h
// of nvidia-settings, tagged with the driver's version (185 of them, 410.57 to
// 610.43.03), and the known issues of the NVML API reference: fields 251 to 273
// "have changed between 13.0 and 13.0U1/v580TRD2". All other fields that are read
// here have one number in all of these headers.
//
// Drivers of other systems than Linux (WSL's 580.97, Jetson's 580.00) count R580
// in another way, so that branch is known with three parts only; there are no
// Linux drivers between R580 and R590.
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

// firstLinkCounters is the driver from which on nvml.h says how the NVLink fields are
// read.
var firstLinkCounters = []int{570, 133, 7}

// hasLinkCounters reports whether a driver, given its version, has the error counters
// of single NVLinks, by link in the fields' scope.
//
// FieldNVLinkErrorReplay to FieldNVLinkErrorCRC are in the headers of 520.56.06 and later,
// FieldNVLinkRecoveryEvents in those of 560.28.03 and later, each under one number that had no
// other use before. nvml.h defines the scope for them from 570.133.07 on: "Link ID needs to be
// specified in the scopeId field". Before, a value could be for one link or for all, so it is
// not read.
func hasLinkCounters(driver string) bool {
	version := parseVersion(driver)
	return version != nil && slices.Compare(version, firstLinkCounters) >= 0
}

// parseVersion splits a driver's version; nil where it is none.
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
