package live

import (
	"fmt"
	"strconv"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/store"
)

// Text is text that can contain times. Each element is either a string or a [store.Time], which
// clients show in their own time zone.
type Text []any

// Banner is a message that concerns the whole page.
type Banner struct {
	Title Text `json:"title"`
	Text  Text `json:"text"`
}

// State summarizes whether the exporter receives data.
type State struct {
	Text string `json:"text"`
	// Live is true if the page shows current data.
	Live bool `json:"live,omitempty"`
}

// noNewData is the state if all devices are lost.
var noNewData = State{Text: "Connected, no new data"}

// maxListed is the maximum number of exporters that are listed in a banner.
const maxListed = 3

// addBanners sets the State and Banners fields of the document.
func (d *Document) addBanners(v *store.View) {
	x := &d.Exporters
	down, stale := len(x.Down), len(x.Stale)
	lost := 0
	var last store.Time // the end of the newest window among all lost devices
	for i := range d.Devices {
		if loss := d.Devices[i].Lost; loss != nil {
			lost++
			last = max(last, loss.Last)
		}
	}
	allLost := lost > 0 && lost == len(d.Devices)
	newest, step := v.Newest()
	var downSince store.Time // the start of the most recent outage
	for _, e := range x.Down {
		downSince = max(downSince, e.Since)
	}
	switch {
	case len(d.Devices) == 0:
		d.State = State{Text: "Connected, no data yet"}
	case allLost:
		d.State = noNewData
	// If a window ended less than one window length after the start of the outage, the window may
	// contain only samples from before the outage. Later windows come from the nvml receiver, which
	// does not need exporters.
	case down > 0 && down == x.Total && newest < int64(downSince)+int64(step):
		d.State = State{Text: "Connected, no exporter gives samples"}
	default:
		d.State = State{"Live", true}
	}

	d.Banners = []Banner{}
	add := func(title, text Text) { d.Banners = append(d.Banners, Banner{title, text}) }
	of := func(n int) string { return grouped(n) + " of " + grouped(x.Total) + " exporters" }
	if down == x.Total && down > 0 {
		add(Text{"No exporter gives samples."}, append(list(x.Down), "."))
	} else if down > 0 {
		add(Text{of(down) + " give no samples."}, append(list(x.Down), "."))
	}
	if stale > 0 && (!allLost && len(d.Devices) > 0 || stale < x.Total) {
		add(Text{"No data about " + of(stale) + "."}, append(list(x.Stale), ": check the collectors that scrape them."))
	}
	if allLost && down == 0 {
		why := Text{"The exporters answer: check the pipeline between them and gpu_view."}
		switch {
		case !x.Reported:
			why = Text{"The reason is unknown: gpu.exporter.up is not received."}
		case x.LastResult > 0:
			why = Text{"No data about the exporters since ", x.LastResult, ": check the collectors that scrape them."}
		case stale > 0:
			why = Text{"The others answer: check the pipeline between them and gpu_view."}
		}
		add(Text{"No data since ", last, "."}, why)
	}
	for _, l := range d.Limits {
		setting, do := l.Setting, "Raise the limit, or find"
		if setting == "" {
			setting, do = "a limit", "Find"
		}
		add(Text{fmt.Sprintf("The page is incomplete, because %s has reached %s.", l.Component, setting)},
			Text{fmt.Sprintf("It keeps %s %s and refuses others. %s out what creates so many items.", grouped(l.Limit), l.Of, do)})
	}
}

// The list function returns a Text that lists up to maxListed exporters. For each exporter, the
// Text includes the time at which the exporter went down or its scrape results stopped arriving.
func list(exporters []Exporter) Text {
	var out Text
	for i, e := range exporters {
		if i == maxListed {
			return append(out, " and "+grouped(len(exporters)-maxListed)+" more")
		}
		about := e.URL
		if e.Node != "" {
			about += " on " + e.Node
		}
		if i > 0 {
			about = ", " + about
		}
		out = append(out, about+" since ", e.Since)
		if e.Cause != "" {
			out = append(out, " ("+e.Cause+")")
		}
	}
	return out
}

// lostText returns a Text that explains why a device has no current data. If the reason is unknown,
// the Text contains the time of the device's last data. If the reason is an outage of the exporter,
// the Text contains the start of the outage, because the last window may have ended after the
// outage started.
func lostText(l *store.Loss) Text {
	if l.URL != "" {
		return Text{l.URL + " has exposed no samples since ", l.Since, "."}
	}
	return nothingSince(l.Last)
}

func nothingSince(last store.Time) Text {
	return Text{"Nothing since ", last, ": the device, its exporter or the connection is down."}
}

// The grouped function formats a number with commas between groups of three digits.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
