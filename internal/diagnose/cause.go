package diagnose

// cause is a more specific form of a [Reason]. A cause describes the evidence in the scrape and
// determines the advice for users.
type cause uint8

const (
	noCause cause = iota
	causeNotInCSV
	causeNoValue // the value is a DCGM sentinel, NaN, or an impossible number, or there are HELP and TYPE lines but no row
	causeNoEvent
	causeNoProfiling
	causeMIG // the field is not measured on this MIG instance or on any board that uses MIG
	causeVGPU
	causeDriver      // The driver does not provide the field on MIG instances.
	causeOldExporter // Exporters before 4.x do not support the field.
	causeOthersOnly  // Only devices of other models or kinds have the field.
	causeSensor
	causeLink
	causeNoCounter // NVLinks of this generation do not have the counter
	causeCapacity
	causeUnit // it is unknown whether the value is a ratio or a percentage
	causeFree
	causeNoPodLabels
	causeCopied   // Rows of several devices name the same holders.
	causeReserved // Rows name a reservation pod.
	causeNoProcessRows
	causeUnprofiled // DCGM does not support profiling on this model.
	causeBridge     // The model has NVLink only with a bridge, and no row indicates a bridge.
	causeNotExposed // An exporter other than dcgm-exporter does not expose the field.
	causeVendor     // The vendor's exporter never exposes the signal.
	causeFrozen
	causeUnread
	numCauses
)

// The causes array maps each cause to its reason. If the cause is more specific than the reason,
// the entry also contains a description of the cause.
var causes = [numCauses]struct {
	reason Reason
	text   string
}{
	causeNotInCSV:      {NotInCSV, "not in the exporter's csv"},
	causeNoValue:       {NoValue, ""},
	causeNoEvent:       {NoEvent, ""},
	causeNoProfiling:   {NoProfiling, ""},
	causeMIG:           {Hardware, "not measured under MIG"},
	causeVGPU:          {Hardware, "not measured in a vGPU guest"},
	causeDriver:        {NoValue, "driver 535 does not provide it on MIG instances"},
	causeOldExporter:   {NotInCSV, "the exporter is too old: the field exists since 4.x"},
	causeOthersOnly:    {Hardware, "not supported by this model; other devices of the exporter have it"},
	causeSensor:        {Hardware, "reads 0: the sensor does not exist"},
	causeLink:          {Hardware, "the model has no NVLink"},
	causeNoCounter:     {Hardware, "NVLinks of this generation do not have this counter"},
	causeCapacity:      {UnknownScale, "the capacity is unknown"},
	causeUnit:          {UnknownScale, "0 to 1 or 0 to 100? Nothing in the scrape shows which"},
	causeFree:          {Free, ""},
	causeNoPodLabels:   {NoPodLabels, "no pod uses a GPU, or pods are not mapped"},
	causeCopied:        {NoPodLabels, "the same holders are repeated on several devices, so the holder of this device is ambiguous"},
	causeReserved:      {NoPodLabels, "rows name a reservation pod instead of the pods that share the device"},
	causeNoProcessRows: {NoPodLabels, "no rows per process"},
	causeUnprofiled:    {Hardware, "DCGM does not profile this model"},
	causeBridge:        {Hardware, "the model has NVLink only through a bridge, and no row shows a bridge"},
	causeNotExposed:    {NotInCSV, "the exporter does not expose it: disabled in its configuration, or not supported by the model"},
	causeVendor:        {Hardware, "this vendor's exporter does not provide it"},
	causeFrozen:        {Frozen, ""},
	causeUnread:        {Unread, ""},
}

func (c cause) text() string {
	if text := causes[c].text; text != "" {
		return text
	}
	return causes[c].reason.Text()
}

// The lasting method reports whether no change to the exporter can remove the cause. For example,
// if the rows of several devices name the same holders, no exporter setting adds the holder of each
// individual device.
func (c cause) lasting() bool {
	return causes[c].reason.Lasting() || c == causeCopied || c == causeReserved
}
