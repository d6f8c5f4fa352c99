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

// maxIncreases bounds the increases of one device that are kept.
const maxIncreases = 256

// XID counts one XID code of a device, from hw.errors.
type XID struct {
	Code int
	// Count is the increase within the device's newest window.
	Count float64
	// Total is the count since Since; Last is when the last error was seen, 0
	// where none was seen to come. Unix nanoseconds; Since is 0 where it is not
	// known.
	Total       float64
	Since, Last int64
}

// xids are the XID counts of a device and their recent growth.
type xids struct {
	// seen is the newest point of hw.errors, before the newest one of another
	// time.
	seen, before int64
	codes        map[int]*xidCount
	increases    []increase
}

// xidCount is the last point of a code, in Unix nanoseconds.
type xidCount struct {
	start, at, last int64
	value           float64
}

type increase struct {
	at    int64
	code  int
	count float64
}

// xidCode returns the code of an error type: 0 of the point without a type, which
// says that XID errors are watched; false of other errors.
func xidCode(errorType string) (int, bool) {
	if errorType == "" {
		return 0, true
	}
	digits, ok := strings.CutPrefix(errorType, "xid_")
	code, err := strconv.Atoi(digits)
	return code, ok && err == nil && code > 0 && code <= catalogue.MaxCode
}

// full says whether a code is one too many.
func (x *xids) full(code int) bool {
	return code > 0 && x.codes[code] == nil && len(x.codes) >= maxCodes
}

// count takes in a cumulative count; step is the length of a window. A count that
// appears is an increase only where it began after the device's last point, or
// within a window's length: what came before is not known.
func (x *xids) count(code int, p *Point, step time.Duration) {
	if p.End > x.seen {
		x.before, x.seen = x.seen, p.End
	}
	if code == 0 {
		return
	}
	c := x.codes[code]
	grown := p.Value
	switch {
	case c == nil:
		if p.Start == 0 || (x.before == 0 || p.Start < x.before) && p.End-p.Start > int64(step) {
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
	x.increases = append(x.increases, increase{p.End, code, grown})
}

// expire forgets codes without a point since oldest, and increases up to then.
func (x *xids) expire(oldest int64) {
	maps.DeleteFunc(x.codes, func(_ int, c *xidCount) bool { return c.at <= oldest })
	x.increases = slices.DeleteFunc(x.increases, func(i increase) bool { return i.at <= oldest })
}

// XIDs returns the XID codes that the device has counted, by code.
func (d *Device) XIDs() []XID {
	var from, to int64
	if n := d.Len(); n > 0 {
		to = d.End(n - 1)
		from = to - int64(float64(d.Length(n-1))*1e9)
	}
	out := make([]XID, 0, len(d.xids.codes))
	for code, c := range d.xids.codes {
		x := XID{Code: code, Total: c.value, Since: c.start, Last: c.last}
		for _, i := range d.xids.increases {
			if i.code == code && i.at > from && i.at <= to {
				x.Count += i.count
			}
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b XID) int { return cmp.Compare(a.Code, b.Code) })
	return out
}
