package store

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// maxIncreases limits the number of increases that are stored per device.
const maxIncreases = 256

// XID contains the counts of one XID code for a device, from hw.errors.
type XID struct {
	Code int `json:"code"`
	// Count is the increase during the device's newest window.
	Count float64 `json:"count"`
	// Total is the count since Since. Since is 0 if the start of the count is unknown. Last is the
	// time of the last increase, or 0 if no increase was observed.
	Total float64 `json:"total"`
	Since Time    `json:"since"`
	Last  Time    `json:"last"`
}

// Mark is an increase of an XID code by Count, observed at time At.
type Mark struct {
	At    Time    `json:"at"`
	Code  int     `json:"code"`
	Count float64 `json:"count"`
}

// xids contains the XID counts of a device and their recent increases.
type xids struct {
	// newestPoint is the time of the newest point of hw.errors. previousPoint is the time of the
	// point before it.
	newestPoint, previousPoint int64
	codes                      map[int]*xidCount
	increases                  []Mark
}

// xidCount contains the last point for an XID code. Times are in Unix nanoseconds.
type xidCount struct {
	start, at, last int64
	value           float64
}

// xidCode returns the XID code of an error type. A point without an error type reports that XID
// errors are counted; xidCode returns 0 for it. For errors that are not XID errors, xidCode returns
// false.
func xidCode(errorType string) (int, bool) {
	if errorType == "" {
		return 0, true
	}
	digits, ok := strings.CutPrefix(errorType, "xid_")
	code, err := strconv.Atoi(digits)
	return code, ok && err == nil && code > 0 && code <= catalogue.MaxCode
}

// full reports whether a new code would exceed maxCodes.
func (x *xids) full(code int) bool {
	return code > 0 && x.codes[code] == nil && len(x.codes) >= maxCodes
}

// count adds a point with a cumulative count. step is the length of a window. The first value of a
// code counts as an increase only if the counter started after the device's previous point, or at
// most one window length before the point. Otherwise, the value includes errors that occurred at an
// unknown time.
func (x *xids) count(code int, p *Point, step time.Duration) {
	if p.End > x.newestPoint {
		x.previousPoint, x.newestPoint = x.newestPoint, p.End
	}
	if code == 0 {
		return
	}
	c := x.codes[code]
	grown := p.Value
	switch {
	case c == nil:
		if p.Start == 0 || (x.previousPoint == 0 || p.Start < x.previousPoint) && p.End-p.Start > int64(step) {
			grown = 0
		}
		c = &xidCount{}
		if x.codes == nil {
			x.codes = map[int]*xidCount{}
		}
		x.codes[code] = c
	case p.End <= c.at:
		return
	case p.Start <= c.at && p.Value >= c.value:
		grown = p.Value - c.value
	}
	c.start, c.at, c.value = p.Start, p.End, p.Value
	if grown <= 0 {
		return
	}
	c.last = p.End
	if len(x.increases) >= maxIncreases {
		x.increases = slices.Delete(x.increases, 0, 1)
	}
	x.increases = append(x.increases, Mark{Time(p.End), code, grown})
}

// expire deletes codes that have no point after oldest. It also deletes increases at or before
// oldest.
func (x *xids) expire(oldest int64) {
	maps.DeleteFunc(x.codes, func(_ int, c *xidCount) bool { return c.at <= oldest })
	x.increases = slices.DeleteFunc(x.increases, func(m Mark) bool { return int64(m.At) <= oldest })
}

// XIDs returns the counts of all XID codes of the device, sorted by code.
func (d *Device) XIDs() []XID {
	var from, to Time
	if n := d.Len(); n > 0 {
		to = Time(d.End(n - 1))
		from = to - Time(float64(d.Length(n-1))*1e9)
	}
	out := make([]XID, 0, len(d.xids.codes))
	for code, c := range d.xids.codes {
		x := XID{Code: code, Total: c.value, Since: Time(c.start), Last: Time(c.last)}
		for _, i := range d.xids.increases {
			if i.Code == code && i.At > from && i.At <= to {
				x.Count += i.Count
			}
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b XID) int { return cmp.Compare(a.Code, b.Code) })
	return out
}

// Marks returns the increases of XID counts during the retention period, oldest first.
func (d *Device) Marks() []Mark {
	out := append([]Mark{}, d.xids.increases...)
	slices.SortStableFunc(out, func(a, b Mark) int { return cmp.Compare(a.At, b.At) })
	return out
}
