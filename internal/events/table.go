package events

import "github.com/otelcol-gpu/otelcol-gpu/internal/signal"

// Kind documents events with one name or with two related names.
type Kind struct {
	Names []string
	// When describes the transition. Severity is the severity of the events.
	When, Severity string
	// Attributes lists the attributes, except the device's attributes and the metric's own
	// attribute.
	Attributes []string
}

// Table returns every event kind.
func Table() []Kind {
	return []Kind{
		{[]string{XID}, "`hw.errors` with an XID code increased", "ERROR if only a reset or a reboot clears the XID, otherwise WARN", []string{"error.type", AttrMeaning, AttrAction, AttrCatalogueDate, AttrCount, AttrSource}},
		{[]string{XIDIncident}, "3 minutes after the last XID error in a group on one node, in addition to the single records", "ERROR if one of the records is ERROR, otherwise WARN", []string{AttrCodes, AttrDevices, AttrAction, AttrCount, AttrDuration}},
		{[]string{Error}, "`hw.errors` of another kind increased", "WARN", []string{"error.type", AttrCount}},
		{[]string{ThrottleStart, ThrottleEnd}, "the throttled share of the time reaches 0.5 (`power`, `sw_power_cap`, `hw_power_brake`) or 0.1 (the others, except `sync_boost`); it falls below 0.3 or 0.05", "WARN; INFO", []string{AttrRatio, AttrDuration}},
		{[]string{PressureStart, PressureEnd}, "the share of samples with 90% of the memory in use reaches 0.9; it falls below 0.5", "WARN; INFO", []string{AttrRatio, AttrDuration}},
		{[]string{StatusChange}, "the state of `hw.status` or `gpu.recovery.action` changed", "ERROR for failed, INFO for ok and none, otherwise WARN", []string{AttrMetric, AttrFrom, AttrTo}},
		{[]string{DeviceLost, DeviceFound}, "a board has no rows while its exporter is up; it returns, or is new in a known place", "ERROR; INFO", nil},
		{[]string{PartitionChange}, "MIG instances were added or removed; the attributes list the sorted profiles", "INFO", []string{AttrFrom, AttrTo}},
		{[]string{ExporterDown, ExporterUp}, "`gpu.exporter.up` is 0 for `lost_after`; 1 again", "WARN; INFO", []string{"url.full"}},
		{[]string{HolderStart, HolderEnd}, "the holders of the device changed, only with `holders`. Unknown holders are not a change. A lost or removed device has no holders", "INFO", nil},
		{[]string{FindingStart, FindingEnd}, "a condition in [findings](#findings) has been true for its time; it is no longer true", "WARN", append([]string{"gpu.finding", AttrDuration}, signal.FindingEvidence()...)},
		{[]string{Suppressed}, "more than `max_per_minute` records were written", "WARN", []string{AttrCount}},
	}
}
