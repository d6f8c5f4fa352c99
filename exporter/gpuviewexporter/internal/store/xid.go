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

// maxIncreases limits the increases that are stored for one device.
const maxIncreases = 256

// XID has the counts of one XID code of a device, from hw.errors.
type XID struct {
	Code int `json:"code"`
	// Count is the increase within the device's newest window.
	Count float64 `json:"count"`
	// Total is the count since Since, which is 0 if it is unknown. Last is the time of the last
	// increase, 0 if none was observed.
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

// xids has the XID counts of a device and their recent increases.
type xids struct {
	// newestPoint is the time of the newest point of hw.errors, previousPoint the time of the
	// previous one.
	newestPoint, previousPoint int64
	codes                      map[int]*xidCount
	increases                  []Mark
}

// xidCount is the last point of a code. Times are in Unix nanoseconds.
type xidCount struct {
	start, at, last int64
	value           float64
}

// xidCode returns the code of an XID error type. A point without a type reports that
// XID errors are counted; its code is 0. For other errors, xidCode returns false.
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

// count adds a cumulative count; step is the length of a window. The first value of a code
// counts as an increase only if the counter started after the device's previous point or
// within one window length. Otherwise it includes errors from an unknown time.
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

// expire deletes codes without a point after oldest, and increases up to oldest.
func (x *xids) expire(oldest int64) {
	maps.DeleteFunc(x.codes, func(_ int, c *xidCount) bool { return c.at <= oldest })
	x.increases = slices.DeleteFunc(x.increases, func(m Mark) bool { return int64(m.At) <= oldest })
}

// XIDs returns the XID codes that the device has counted, sorted by code.
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

// Marks returns the increases of XID codes within the retention, oldest first.
func (d *Device) Marks() []Mark {
	out := append([]Mark{}, d.xids.increases...)
	slices.SortStableFunc(out, func(a, b Mark) int { return cmp.Compare(a.At, b.At) })
	return out
}
