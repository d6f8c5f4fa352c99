package events

import "github.com/otelcol-gpu/otelcol-gpu/internal/findings"

// Kind describes the events with one or two related names, for the documentation.
type Kind struct {
	Names []string
	// When describes the transition, and Severity is its severity.
	When, Severity string
	// Attributes are the attributes in addition to the device's and the metric's own.
	Attributes []string
}

// Table returns all kinds of events.
func Table() []Kind {
	return []Kind{
		{[]string{XID}, "`hw.errors` of an XID rose", "ERROR where only a reset or a reboot ends it, else WARN", []string{"error.type", AttrMeaning, AttrAction, AttrCatalogueDate, AttrCount, AttrSource}},
		{[]string{XIDIncident}, "3 minutes after the last of a group of XID errors of one node; the single records stay", "ERROR if one of them is, else WARN", []string{AttrCodes, AttrDevices, AttrAction, AttrCount, AttrDuration}},
		{[]string{Error}, "`hw.errors` of another kind rose", "WARN", []string{"error.type", AttrCount}},
		{[]string{ThrottleStart, ThrottleEnd}, "the share of the time reaches 0.5 (`power`, `sw_power_cap`, `hw_power_brake`) or 0.1 (the others, but `sync_boost`); falls below 0.3 or 0.05", "WARN; INFO", []string{AttrRatio, AttrDuration}},
		{[]string{PressureStart, PressureEnd}, "the share of samples with 90 % of the memory in use reaches 0.9; falls below 0.5", "WARN; INFO", []string{AttrRatio, AttrDuration}},
		{[]string{StatusChange}, "the state of `hw.status` or `gpu.recovery.action` changed", "failed ERROR, ok and none INFO, others WARN", []string{AttrMetric, AttrFrom, AttrTo}},
		{[]string{DeviceLost, DeviceFound}, "a board has no row while its exporter is up; is back, or new in a known place", "ERROR; INFO", nil},
		{[]string{PartitionChange}, "MIG instances came or went; the profiles are sorted", "INFO", []string{AttrFrom, AttrTo}},
		{[]string{ExporterDown, ExporterUp}, "`gpu.exporter.up` is 0 for `lost_after`; 1 again", "WARN; INFO", []string{"url.full"}},
		{[]string{HolderStart, HolderEnd}, "who holds the device changed; with `holders` alone. What is not known is no change", "INFO", nil},
		{[]string{FindingStart, FindingEnd}, "a condition of the [findings](#findings) holds, and held for its time; holds no more", "WARN", append([]string{"gpu.finding", AttrDuration}, findings.Attributes()...)},
		{[]string{Suppressed}, "there were more than `max_per_minute`", "WARN", []string{AttrCount}},
	}
}
