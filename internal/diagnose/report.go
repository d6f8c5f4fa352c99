package diagnose

import (
	"cmp"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/natural"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Report is the diagnosis of an Exposition for users. Scripts can read the report as JSON.
type Report struct {
	Exporter Exporter        `json:"exporter"`
	Devices  []DeviceInfo    `json:"devices"`
	Signals  []SignalReport  `json:"signals"`
	XIDs     []XIDReport     `json:"xids,omitempty"`
	TurnOn   Advice          `json:"turn_on"`
	Warnings []Warning       `json:"warnings"`
	Findings []FindingReport `json:"findings"`
}

// Exporter describes the exporter.
type Exporter struct {
	// Name is the exporter's common name.
	Name string `json:"name"`
	// Version is the range of exporter versions that the scraped text indicates. Version is empty
	// if the text does not indicate a range.
	Version string `json:"version_looks_like,omitempty"`
	// Driver is the driver version, if it appears in a label.
	Driver string `json:"driver,omitempty"`
	// Hosts lists the host names in the rows.
	Hosts []string `json:"hosts,omitempty"`
}

// DeviceInfo describes a device.
type DeviceInfo struct {
	// ID is the device's hw.id.
	ID      string `json:"hw.id"`
	Kind    string `json:"kind"`
	Name    string `json:"name,omitempty"`
	Model   string `json:"model,omitempty"`
	Profile string `json:"mig_profile,omitempty"`
	Host    string `json:"host,omitempty"`
}

// SignalReport reports which devices provide a signal.
type SignalReport struct {
	Signal string `json:"signal"`
	// Metric is the name of the signal's metric. Part describes which part of the metric the signal
	// covers.
	Metric string `json:"metric"`
	Part   string `json:"part,omitempty"`
	// Feeds lists the window metrics that are computed from the signal.
	Feeds    []string `json:"feeds,omitempty"`
	Optional bool     `json:"optional,omitempty"`
	// NeverProvided is true if the vendor's exporter never provides the signal.
	NeverProvided bool `json:"never_provided,omitempty"`
	// Kinds counts, for each kind of device, the devices that provide the signal.
	Kinds []KindCount `json:"kinds"`
	// Missing has one entry for each combination of Kind, Text, and Likely.
	Missing []Missing `json:"missing,omitempty"`
}

// KindCount counts the devices of one kind.
type KindCount struct {
	Kind      string `json:"kind"`
	Available int    `json:"available"`
	Missing   int    `json:"missing"`
	// Elsewhere counts the devices that do not provide the signal because it is measured on their
	// board or on their MIG instances.
	Elsewhere int `json:"elsewhere"`
}

// Missing describes why devices of one kind do not provide a signal.
type Missing struct {
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
	Text   string `json:"text"`
	// Likely is true if the scrape does not prove the reason.
	Likely bool `json:"likely"`
	// CanTurnOn is false if no change to the exporter can enable the signal, for example because of
	// the hardware or because the device has no holder.
	CanTurnOn bool     `json:"can_turn_on"`
	Devices   []string `json:"devices"`
}

// Complete reports whether the devices provide every signal that they support. Complete ignores
// optional signals.
func (r *Report) Complete() bool {
	return !slices.ContainsFunc(r.Signals, func(s SignalReport) bool { return s.CanTurnOn() && !s.Optional })
}

// Provided reports whether any device provides the signal.
func (s *SignalReport) Provided() bool {
	return slices.ContainsFunc(s.Kinds, func(k KindCount) bool { return k.Available > 0 })
}

// CanTurnOn reports whether users can enable the signal on a device that does not have it.
func (s *SignalReport) CanTurnOn() bool {
	return slices.ContainsFunc(s.Missing, func(m Missing) bool { return m.CanTurnOn })
}

// Report returns the diagnosis of the added rows. Call Report only once, after all rows have been
// added.
func (e *Exposition) Report() *Report {
	e.addRows()
	slices.SortStableFunc(e.order, func(a, b *device) int {
		return cmp.Or(cmp.Compare(a.key.host, b.key.host), natural.Compare(a.name, b.name),
			cmp.Compare(a.key.board, b.key.board), natural.Compare(a.key.instance, b.key.instance))
	})
	r := &Report{Exporter: Exporter{Name: e.scrape.exporter().Name, Version: e.version(), Driver: e.scrape.Clues.Driver}, Devices: []DeviceInfo{}}
	verdicts := make([][]Verdict, len(e.order))
	for i, d := range e.order {
		r.Devices = append(r.Devices, DeviceInfo{ID: d.id(), Kind: d.Kind().String(), Name: d.name, Model: d.Model, Profile: d.profile, Host: d.key.host})
		if d.key.host != "" {
			r.Exporter.Hosts = add(r.Exporter.Hosts, d.key.host)
		}
		verdicts[i] = d.Verdicts()
	}
	for i, s := range signalsByExporter[e.scrape.exporter()] {
		r.Signals = append(r.Signals, e.signal(s, i, verdicts))
	}
	r.XIDs = e.xids()
	r.TurnOn = e.advice(verdicts)
	r.Warnings = e.warnings()
	r.Findings = r.findings()
	return r
}

// version returns the range of exporter versions that the scraped text indicates.
func (e *Exposition) version() string {
	if e.scrape.exporter() != dcgm.Exporter {
		return ""
	}
	if e.counts.baseUnits {
		return "4.7.0-4.9.0 or later"
	}
	return e.scrape.Clues.Age().String()
}

func (d *device) id() string {
	if d.key.instance != "" {
		return d.scrape.exporter().InstanceID(d.key.board, d.key.instance)
	}
	return d.key.board
}

// The signal method summarizes which devices provide the given signal. The i parameter is the
// signal's index in each device's verdicts.
func (e *Exposition) signal(s *Signal, i int, verdicts [][]Verdict) SignalReport {
	out := SignalReport{Signal: s.Name(), Metric: s.Metric.Name, Part: s.Part, Feeds: signal.Names(s.Feeds), Optional: s.Optional, NeverProvided: s.Gap}
	for _, kind := range []Kind{GPU, Board, Instance} {
		count := KindCount{Kind: kind.String()}
		for n, d := range e.order {
			if d.Kind() != kind {
				continue
			}
			switch v := &verdicts[n][i]; {
			case v.Available:
				count.Available++
			case v.Elsewhere:
				count.Elsewhere++
			default:
				count.Missing++
				out.miss(kind, v, d.id())
			}
		}
		if count.Available+count.Missing+count.Elsewhere > 0 {
			out.Kinds = append(out.Kinds, count)
		}
	}
	return out
}

// miss adds a device to the list of devices that lack the signal for the same reason.
func (s *SignalReport) miss(kind Kind, v *Verdict, id string) {
	for i := range s.Missing {
		if m := &s.Missing[i]; m.Kind == kind.String() && m.Text == v.cause.text() && m.Likely == v.Likely {
			m.Devices = append(m.Devices, id)
			return
		}
	}
	s.Missing = append(s.Missing, Missing{
		Kind: kind.String(), Reason: v.Reason().String(), Text: v.cause.text(),
		Likely: v.Likely, CanTurnOn: v.CanTurnOn(), Devices: []string{id},
	})
}

// Advice describes what to change to enable missing signals.
type Advice struct {
	// CSV contains lines for the exporter's CSV file, grouped by metric.
	CSV []Lines `json:"csv"`
	// Newer contains CSV lines for fields that only newer exporters support.
	Newer []Lines `json:"newer_csv"`
	// Settings contains advice about flags, environment variables, and requirements for the GPU,
	// the driver, or the exporter.
	Settings []string `json:"settings"`
}

// Lines contains the CSV lines for one metric.
type Lines struct {
	// For is the name of the metric that the CSV lines enable.
	For string `json:"for"`
	// Feeds lists the window metrics that are computed from that metric.
	Feeds []string `json:"feeds,omitempty"`
	Lines []string `json:"lines"`
}

// The advice method returns the CSV lines and settings that enable the missing signals.
func (e *Exposition) advice(verdicts [][]Verdict) Advice {
	out := Advice{CSV: []Lines{}, Newer: []Lines{}, Settings: []string{}}
	asked := map[catalogue.ID]bool{}
	var found [numCauses]bool
	profiling, since4 := false, false
	for i := range signalsByExporter[e.scrape.exporter()] {
		for _, ofDevice := range verdicts {
			v := &ofDevice[i]
			if !v.CanTurnOn() {
				continue
			}
			if !v.Signal.Optional || v.cause == causeNoProcessRows {
				found[v.cause] = true
			}
			if v.Signal.Optional {
				continue
			}
			to := &out.CSV
			if v.cause == causeOldExporter {
				to = &out.Newer
			}
			for _, id := range e.lines(v) {
				if asked[id] {
					continue
				}
				asked[id] = true
				addLine(to, v.Signal, e.line(id))
				advice := dcgm.AdviceFor(id)
				profiling = profiling || advice.Profiling
				since4 = since4 || advice.Absent&dcgm.OldExporters != 0 || advice.Listed != ""
			}
		}
	}
	if of := e.scrape.exporter(); of.TurnOn != "" && found[causeNotExposed] {
		out.Settings = append(out.Settings, of.TurnOn)
	}
	if e.scrape.exporter() != dcgm.Exporter {
		return out
	}
	lines := len(out.CSV)+len(out.Newer) > 0
	age := e.scrape.Clues.Age()
	// maybe3 is true if the advice contains CSV lines that exporters 3.x do not support, and this
	// exporter may be a 3.x version.
	maybe3 := age >= Since335 && age < Since483 && e.scrape.best[fbReserved] == Unseen && since4
	// Each text is advice about a setting outside the CSV file or about how to pass the file to the
	// exporter.
	for _, setting := range []struct {
		when bool
		text string
	}{
		{lines, "Pass the csv to the exporter with -f FILE or DCGM_EXPORTER_COLLECTORS=FILE. It replaces the exporter's own list, so keep the existing lines."},
		{maybe3, "If the exporter is a 3.x: write DCGM_FI_DEV_CLOCK_THROTTLE_REASONS instead of DCGM_FI_DEV_CLOCKS_EVENT_REASONS, and omit DCGM_FI_DEV_CLOCKS_EVENT_REASON_*_NS, DCGM_FI_DEV_NVLINK_ERROR_DL_* and DCGM_FI_DEV_NVLINK_COUNT_*."},
		{profiling || found[causeNoProfiling], "DCGM_FI_PROF fields need a datacenter GPU and DCGM's profiling module, which one exporter at a time can use."},
		{found[causeFrozen], "DCGM's profiler has stopped: restart the exporter, or the hostengine. Until then hw.gpu.utilization is GPU_UTIL."},
		{found[causeNoPodLabels], "Pods: DCGM_EXPORTER_KUBERNETES=true and the kubelet's pod-resources socket; for DRA also KUBERNETES_ENABLE_DRA=true (exporter 4.2.3-4.3.0 and later). The gpu_k8s processor finds holders without these labels."},
		{found[causeNoProcessRows], "Optional, for shared GPUs: KUBERNETES_VIRTUAL_GPUS=true with hostPID: true gives each pod its own FB_USED and GPU_UTIL from exporter 4.5.3-4.8.2 on, under these names only. Before that version, every pod's row repeats the device's value."},
		{found[causeDriver], "Memory of MIG instances: a driver other than branch 535."},
		{found[causeOldExporter], "Exact throttled time by reason (CLOCKS_EVENT_REASON_*_NS) and NVLink errors of Hopper and Blackwell: dcgm-exporter 4.x."},
		{found[causeNoValue], "Fields that are listed but have no value: DCGM has no value for this GPU or driver (row remapping requires Ampere or later), or no value yet. dcgmi dmon -e FIELD_ID shows DCGM's own value."},
		{found[causeUnit], "The unit of ambiguous ratios is known as soon as one value is not 0 or 1, or with exporter 4.7.0-4.9.0 and later."},
	} {
		if setting.when {
			out.Settings = append(out.Settings, setting.text)
		}
	}
	return out
}

// The line method returns the CSV line for a field, with the name that this version of the exporter
// uses for the field.
func (e *Exposition) line(id catalogue.ID) string {
	f := catalogue.ByID(id)
	name := dcgm.ListedName(f)
	if e.scrape.Clues.Age() == Before335 {
		name = f.Name // exporters this old do not support the field names introduced in DCGM 4.0
	}
	return dcgm.Line(f, name)
}

// The lines method returns the fields that must be added to the CSV file to enable a missing
// signal.
func (e *Exposition) lines(v *Verdict) []catalogue.ID {
	switch v.cause {
	case causeNotInCSV, causeCapacity, causeOldExporter:
	case causeNoEvent:
		// The field that contains the last XID code has no row until the first error occurs.
		if e.scrape.Clues.Age() >= Since483 {
			return []catalogue.ID{xidCount, xidTotal}
		}
		return []catalogue.ID{xidCount}
	default:
		return nil
	}
	var out []catalogue.ID
	for _, id := range v.Missing {
		if e.scrape.best[id] >= Blank {
			continue
		}
		out = append(out, id)
		if companion := dcgm.AdviceFor(id).Companion; companion != "" && e.scrape.best[field(companion)] == Unseen {
			out = append(out, field(companion))
		}
	}
	return out
}

// addLine adds a CSV line to the group of lines for the signal's metric.
func addLine(to *[]Lines, s *Signal, text string) {
	if n := len(*to); n > 0 && (*to)[n-1].For == s.Metric.Name {
		(*to)[n-1].Lines = append((*to)[n-1].Lines, text)
		return
	}
	*to = append(*to, Lines{For: s.Metric.Name, Feeds: signal.Names(s.Feeds), Lines: []string{text}})
}
