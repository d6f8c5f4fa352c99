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

// maxIncreases is the maximum number of increases that are stored per device.
const maxIncreases = 256

// XID contains the number of errors with one XID code on a device, according to hw.errors.
type XID struct {
	Code int `json:"code"`
	// Count is the number of new errors during the device's newest window.
	Count float64 `json:"count"`
	// Total is the total number of errors. Since is the time at which counting started, or 0 if
	// that time is unknown. Last is the time of the last increase, or 0 if no increase was
	// observed.
	Total float64 `json:"total"`
	Since Time    `json:"since"`
	Last  Time    `json:"last"`
}

// Mark is an increase in the number of errors with an XID code. At is the time at which the
// increase was observed.
type Mark struct {
	At    Time    `json:"at"`
	Code  int     `json:"code"`
	Count float64 `json:"count"`
}

// xids contains the number of errors with each XID code on a device, and the recent increases in
// these numbers.
type xids struct {
	// newestPoint is the timestamp of the newest point of hw.errors, and previousPoint is the
	// timestamp of the previous point.
	newestPoint, previousPoint int64
	codes                      map[int]*xidCount
	increases                  []Mark
}

// xidCount contains the last point for an XID code. Times are in Unix nanoseconds.
type xidCount struct {
	start, at, last int64
	value           float64
}

// xidCode extracts the XID code from an error type. If the error type is empty, xidCode returns 0,
// because the point only indicates that XID errors are counted. If the error type is not an XID
// error, xidCode returns false.
func xidCode(errorType string) (int, bool) {
	if errorType == "" {
		return 0, true
	}
	digits, ok := strings.CutPrefix(errorType, "xid_")
	code, err := strconv.Atoi(digits)
	return code, ok && err == nil && code > 0 && code <= catalogue.MaxCode
}

// The full method reports whether the given code is new and maxCodes has already been reached.
func (x *xids) full(code int) bool {
	return code > 0 && x.codes[code] == nil && len(x.codes) >= maxCodes
}

// The count method adds a point with a cumulative count. The step parameter is the length of a
// window. The first value for a code counts as an increase only if the counter started after the
// device's previous point, or at most one window length before the new point. Otherwise, the value
// includes errors that occurred at an unknown time.
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

// The expire method deletes the codes whose last point is not later than the time in the oldest
// parameter, and the increases that occurred at or before that time.
func (x *xids) expire(oldest int64) {
	maps.DeleteFunc(x.codes, func(_ int, c *xidCount) bool { return c.at <= oldest })
	x.increases = slices.DeleteFunc(x.increases, func(m Mark) bool { return int64(m.At) <= oldest })
}

// XIDs returns the number of errors on the device for each XID code, sorted by code.
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

// Marks returns all increases in the XID error counts during the retention period, oldest first.
func (d *Device) Marks() []Mark {
	out := append([]Mark{}, d.xids.increases...)
	slices.SortStableFunc(out, func(a, b Mark) int { return cmp.Compare(a.At, b.At) })
	return out
}
