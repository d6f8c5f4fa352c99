package dcgm

import cat "github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"

// BusyUtilization is the minimum utilization of a busy device. If the driver reports a utilization
// of at least BusyUtilization, zeros from the profiler are not observations.
const BusyUtilization = 0.1

// contradictions returns a function that drops zeros that conflict with other values of the device:
//   - DCGM reports 0 for both used and free memory for boards that it has not read yet, and for
//     some boards after MIG was enabled.
//   - After some XID errors, DCGM's profiler reports zeros until the profiler is restarted.
func contradictions(x *cat.Exporter) func(cat.Values) {
	used, free := x.Field(fbUsed).ID, x.Field(fbFree).ID
	engine, utilization := x.Field(grEngine).ID, x.Field(gpuUtil).ID
	var profiling []*cat.Field
	for _, f := range x.Fields() {
		if isProfiling(f.Name) {
			profiling = append(profiling, f)
		}
	}
	return func(d cat.Values) {
		if isZero(d, used, false) && isZero(d, free, false) {
			d.Drop(used, cat.Unread)
			d.Drop(free, cat.Unread)
		}
		if !isZero(d, engine, false) {
			return
		}
		if v, ok := d.Value(utilization, false); !ok || v < BusyUtilization {
			return
		}
		for _, f := range profiling {
			if isZero(d, f.ID, false) || f.Kind == cat.Counter && isZero(d, f.ID, true) {
				d.Drop(f.ID, cat.Frozen)
			}
		}
	}
}

// isZero reports whether a field's value or rate is 0 or negative.
func isZero(d cat.Values, id cat.ID, rate bool) bool {
	v, ok := d.Value(id, rate)
	return ok && v <= 0
}
