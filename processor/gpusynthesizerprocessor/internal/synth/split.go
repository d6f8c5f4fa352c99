package synth

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// soundScrapes is the number of scrapes without a split after which batches count as complete.
const soundScrapes = 100

// splits detects that one scrape arrives in several batches: the fields of a device and time in one
// batch differ from those in the previous one. One field may be in both: its rows for several
// holders, links or instances were split.
type splits struct {
	decided atomic.Bool
	mu      sync.Mutex
	scrapes int
	devices map[*Device]seenFields
}

// seenFields are the fields of a device in the newest batch that had any.
type seenFields struct {
	at     int64
	fields [(catalogue.MaxFields + 63) / 64]uint64
}

// watch examines the rows of one sample time in a batch, and reports a split once.
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

// continues reports whether these are parts of one scrape: they share at most one field, and there
// is at least one new field. Two exporters of a device share most fields.
func (f *seenFields) continues(other *seenFields) bool {
	common, all := 0, 0
	for i := range f.fields {
		common += bits.OnesCount64(f.fields[i] & other.fields[i])
		all += bits.OnesCount64(f.fields[i] | other.fields[i])
	}
	return common == 0 || common == 1 && all > 1
}
