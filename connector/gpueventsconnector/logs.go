package gpueventsconnector

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otelcol-gpu/otelcol-gpu/internal/events"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
)

var severities = [...]struct {
	number plog.SeverityNumber
	text   string
}{
	events.Info: {plog.SeverityNumberInfo, "INFO"},
	events.Warn: {plog.SeverityNumberWarn, "WARN"},
	events.Err:  {plog.SeverityNumberError, "ERROR"},
}

// The logs function converts events to log records. Each record has its own Resource.
func logs(found []events.Event, observed time.Time) plog.Logs {
	out := plog.NewLogs()
	for i := range found {
		e := &found[i]
		rl := out.ResourceLogs().AppendEmpty()
		h := e.Holder
		resource := rl.Resource().Attributes()
		_ = resource.FromRaw(e.Resource) // FromRaw cannot fail, because the values come from attributes
		pdatagpu.PutPlace(resource, e.Place, e.Host)
		pdatagpu.PutHolder(resource, &h)
		r := rl.ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
		r.SetEventName(e.Name)
		r.SetTimestamp(pcommon.Timestamp(e.Time))
		r.SetObservedTimestamp(pcommon.NewTimestampFromTime(observed))
		r.SetSeverityNumber(severities[e.Severity].number)
		r.SetSeverityText(severities[e.Severity].text)
		r.Body().SetStr(e.Body)
		a := r.Attributes()
		if e.Device != "" {
			d := &gpudata.DeviceFrame{Device: gpudata.NewDevice(e.Place, e.Device), Description: e.Description}
			var one *gpudata.User
			if !h.IsZero() {
				one = &gpudata.User{Holder: h, Holds: true, Strategy: e.Strategy, Allocation: e.Allocation}
			}
			pdatagpu.PutDevice(a, d, one)
		}
		if e.Own[0] != "" {
			a.PutStr(e.Own[0], e.Own[1])
		}
		for k, v := range e.Texts {
			a.PutStr(k, v)
		}
		for k, v := range e.Numbers {
			a.PutDouble(k, v)
		}
		for k, list := range e.Lists {
			s := a.PutEmptySlice(k)
			for _, v := range list {
				s.AppendEmpty().SetStr(v)
			}
		}
		if e.Count > 1 || e.Name == events.XID || e.Name == events.XIDIncident || e.Name == events.Error {
			a.PutInt(events.AttrCount, e.Count)
		}
	}
	return out
}
