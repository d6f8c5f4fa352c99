package synth

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// soundScrapes is the number of scrapes without a split after which the detection of splits stops.
const soundScrapes = 100

// The splits type detects whether one scrape arrives in several batches. If a scrape is split, two
// batches contain different fields for the same device and sample time. The batches may have one
// field in common, because the rows of one field for several holders, links, or instances may also
// be split.
type splits struct {
	decided atomic.Bool
	mu      sync.Mutex
	scrapes int
	devices map[*Device]seenFields
}

// seenFields contains the fields of a device in the last batch that contained the device.
type seenFields struct {
	at     int64
	fields [(catalogue.MaxFields + 63) / 64]uint64
}

// The watch method checks those rows of a batch that have the same sample time. The result is true
// only for the first split that is found.
func (s *splits) watch(rows []observation) (split bool) {
	if s.decided.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.decided.Load() {
		return false
	}
	at := rows[0].time
	now := map[*Device]seenFields{}
	for i := range rows {
		f := now[rows[i].row.device]
		f.at = at
		f.fields[rows[i].field.ID/64] |= 1 << (rows[i].field.ID % 64)
		now[rows[i].row.device] = f
	}
	if s.devices == nil {
		s.devices = map[*Device]seenFields{}
	}
	for d, f := range now {
		if before, ok := s.devices[d]; ok && before.at == at && before.continues(&f) {
			split = true
		}
		s.devices[d] = f
	}
	s.scrapes++
	if split || s.scrapes >= soundScrapes {
		s.decided.Store(true)
		s.devices = nil
	}
	return split
}

// The continues method reports whether f and other are parts of the same scrape. Two sets of fields
// are considered parts of the same scrape if they have at most one field in common, and at least
// one field that is not in both. Two exporters of the same device have most fields in common.
func (f *seenFields) continues(other *seenFields) bool {
	common, all := 0, 0
	for i := range f.fields {
		common += bits.OnesCount64(f.fields[i] & other.fields[i])
		all += bits.OnesCount64(f.fields[i] | other.fields[i])
	}
	return common == 0 || common == 1 && all > 1
}
