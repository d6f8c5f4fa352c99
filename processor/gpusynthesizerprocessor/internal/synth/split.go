package synth

import (
	"math/bits"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// soundScrapes is how many scrapes without a split show that batches are whole.
const soundScrapes = 100

// splits notices that one scrape comes in several batches: the fields of a device and time
// in one of them are others than in the one before. One field may be in both: its rows for
// several holders, links or instances were split.
type splits struct {
	decided bool
	scrapes int
	devices map[*Device]seenFields
}

// seenFields are the fields of a device in the newest batch that had any.
type seenFields struct {
	at     int64
	fields [(catalogue.MaxFields + 63) / 64]uint64
}

// watch looks at the rows of one sample time in a batch, and reports a split, once.
func (s *splits) watch(rows []observation) (split bool) {
	if s.decided {
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
	if s.decided = split || s.scrapes >= soundScrapes; s.decided {
		s.devices = nil
	}
	return split
}

// continues reports whether these are parts of one scrape: they have at most one field in common,
// and at least one more. Two exporters of a device have most fields in common.
func (f *seenFields) continues(other *seenFields) bool {
	common, all := 0, 0
	for i := range f.fields {
		common += bits.OnesCount64(f.fields[i] & other.fields[i])
		all += bits.OnesCount64(f.fields[i] | other.fields[i])
	}
	return common == 0 || common == 1 && all > 1
}
