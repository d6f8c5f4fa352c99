package oracle

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// kind controls what random timelines can contain.
type kind struct {
	// If mig is true, some boards are partitioned into two to seven instances, which can appear and
	// disappear. The values of board fields are repeated in the rows of all instances.
	mig bool
	// If churn is true, the number of pods changes, and so do the labels that do not identify a
	// device: the pod labels, err_code, and err_msg.
	churn bool
	// If complete is true, no scrape fails, no row or board is missing, and no exporter repeats old
	// values.
	complete bool
	// If steady is true, exporters do not restart.
	steady bool
}

// longest is the maximum duration of random timelines. longest is shorter than Prometheus' lookback
// delta, so that Prometheus looks back across every gap.
const longest = 290 * time.Second

// pace is the maximum increase in random nanosecond counters, in thousandths of the elapsed time.
// cachedPace is the maximum for exporters that repeat values and then increase a counter by several
// steps at once. cachedPace is lower than pace, so that even after missed scrapes, the increase
// does not exceed the time between the samples.
const (
	pace       = 1000
	cachedPace = 300
)

// cut lists the GPU instance IDs that a partitioned board may have. All instances have a 1g
// profile.
var cut = []string{"7", "8", "9", "10", "11", "12", "13"}

// fleet contains the states of all exporters in a random timeline.
type fleet struct {
	*rapid.T
	kind
	step      time.Duration
	exporters []*nodeState
}

// nodeState is the state of one node's exporter.
type nodeState struct {
	name   string
	boards []*boardState
	// refresh is the number of consecutive scrapes for which the exporter returns the same values.
	refresh int
	// If processes is true, FB_USED and GPU_UTIL have a row for each process in addition to the
	// device's row. A process's row has the labels of the process's pod.
	processes bool
	// The down field is the number of upcoming scrapes that will fail.
	down int
}

// boardState is the state of one board.
type boardState struct {
	base map[string]string
	// mask is the name of the board's mask field.
	mask string
	// missing is the name prefix of fields that the board does not have.
	missing  string
	counters map[string]float64
	gauges   map[string]float64
	pods     []string
	// devices contains the board's instances, or the board itself if it is not partitioned.
	devices []*deviceState
}

// deviceState contains the values of an instance or an unpartitioned board.
type deviceState struct {
	// id is the GPU_I_ID of the instance.
	id string
	// The device exists in the scrapes with indices in [from, until).
	from, until int
	xid         int
	values      map[string]float64
	pods        []string
}

var (
	counterFields = boardFields[:9]
	linkFields    = boardFields[9:]
	ratioFields   = instanceFields[3:7]
)

// withProbability returns true with the given probability in percent. When rapid shrinks a failing
// case, the result shrinks to false.
func (f *fleet) withProbability(percent int) bool {
	return rapid.IntRange(0, 99).Draw(f.T, "") >= 100-percent
}

// pick draws an integer from 0 to below-1.
func (f *fleet) pick(below int) int { return rapid.IntRange(0, below-1).Draw(f.T, "") }

// random draws a timeline with one or two exporters, each of which has one to three boards.
func random(t *rapid.T, k kind) timeline {
	f := &fleet{T: t, kind: k}
	f.step = rapid.SampledFrom([]time.Duration{10, 15, 20, 30}).Draw(t, "step") * time.Second
	scrapes := rapid.IntRange(2, int(longest/f.step)).Draw(t, "scrapes")
	for n := range rapid.IntRange(1, 2).Draw(t, "exporters") {
		f.exporters = append(f.exporters, f.exporter(n, scrapes))
	}
	tl := timeline{step: f.step}
	for i := range scrapes {
		s := scrape{at: time.Duration(i) * f.step}
		for _, e := range f.exporters {
			s.rows = append(s.rows, f.scrape(e, i)...)
		}
		s.failed = len(s.rows) == 0
		tl.scrapes = append(tl.scrapes, s)
	}
	return tl
}

func (f *fleet) exporter(n, scrapes int) *nodeState {
	e := &nodeState{name: "gpu-node-" + strconv.Itoa(n), refresh: 1, processes: f.churn && f.withProbability(50)}
	if !f.complete && f.withProbability(30) {
		e.refresh = int(30 * time.Second / f.step)
	}
	for i := range rapid.IntRange(1, 3).Draw(f.T, "boards") {
		model := models[f.pick(len(models))].name
		b := &boardState{
			base: map[string]string{
				"gpu": strconv.Itoa(i), "UUID": fmt.Sprintf("GPU-%d-%d", n, i), "device": "nvidia" + strconv.Itoa(i),
				"modelName": model, "Hostname": e.name,
			},
			mask:     maskFields[f.pick(2)],
			missing:  rapid.SampledFrom([]string{"none", "DCGM_FI_PROF", "DCGM_FI_DEV_CLOCK", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_XID", "DCGM_FI_PROF_GR"}).Draw(f.T, "without"),
			counters: map[string]float64{},
			gauges:   map[string]float64{},
		}
		for _, c := range counterFields {
			b.counters[c] = float64(f.pick(1000)) * 1e9
		}
		ids := []string{""}
		if f.mig && f.withProbability(60) {
			ids = cut[:2+f.pick(len(cut)-1)]
		}
		for _, id := range ids {
			d := &deviceState{id: id, until: scrapes, values: map[string]float64{}}
			if id != "" && !f.complete && f.withProbability(20) {
				d.from = f.pick(scrapes)
				d.until = d.from + 1 + f.pick(scrapes)
			}
			b.devices = append(b.devices, d)
		}
		e.boards = append(e.boards, b)
	}
	return e
}

// scrape advances an exporter by one step and returns its rows.
func (f *fleet) scrape(e *nodeState, i int) []row {
	restart := i > 0 && !f.steady && f.withProbability(4)
	for _, b := range e.boards {
		f.move(e, b, i%e.refresh == 0 || restart, restart)
	}
	switch {
	case e.down > 0:
		e.down--
		return nil
	case f.complete:
	case f.withProbability(4):
		return nil
	case f.withProbability(2):
		e.down = f.pick(int(4 * time.Minute / f.step))
	}
	var rows []row
	for _, b := range e.boards {
		if !f.complete && f.withProbability(3) {
			continue
		}
		absent := ""
		if !f.complete && f.withProbability(10) {
			all := slices.Concat(instanceFields, boardFields, maskFields)
			absent = all[f.pick(len(all))]
		}
		rows = append(rows, f.rows(e, b, i, absent)...)
	}
	return rows
}

// move advances a board by one step. The board gets new values only if the read parameter is true.
// If restart is true, counters and the last XID are reset first.
func (f *fleet) move(e *nodeState, b *boardState, read, restart bool) {
	if f.churn {
		b.pods = f.holders(b.pods)
	}
	if !read {
		return
	}
	limit := pace
	if e.refresh > 1 {
		limit = cachedPace
	}
	for _, c := range counterFields {
		if restart {
			b.counters[c] = 0
		}
		moved := float64(f.pick(limit+1)) / 1000 * f.step.Seconds() * 1e9
		if !restart {
			moved *= float64(e.refresh)
		}
		b.counters[c] += moved
	}
	b.gauges[b.mask] = float64(f.pick(1 << 9))
	for _, l := range linkFields {
		b.gauges[l] = float64(f.pick(24)) * 1e9 // at most 1.5 times the capacity of any link; higher rates would be rejected
	}
	// An error of the entire board appears on all of its instances.
	all := f.withProbability(3)
	code := []int{13, 31, 43, 79}[f.pick(4)]
	for _, d := range b.devices {
		if restart {
			d.xid = 0
		} else if all || f.withProbability(5) {
			d.xid = code
		}
		for _, r := range ratioFields {
			d.values[r] = float64(f.pick(1050)) / 1000
		}
		total := 81559.0
		d.values["DCGM_FI_DEV_FB_USED"] = math.Floor(total * float64(f.pick(1001)) / 1000)
		d.values["DCGM_FI_DEV_FB_FREE"] = total - d.values["DCGM_FI_DEV_FB_USED"]
		d.values["DCGM_FI_DEV_GPU_UTIL"] = float64(f.pick(101))
		if d.values["DCGM_FI_PROF_GR_ENGINE_ACTIVE"] == 0 {
			d.values["DCGM_FI_DEV_GPU_UTIL"] = 0 // otherwise the profiler would appear to have stopped
		}
		d.values["DCGM_FI_DEV_XID_ERRORS"] = float64(d.xid)
		if f.churn {
			d.pods = f.holders(d.pods)
		}
	}
}

// holders occasionally returns different pods.
func (f *fleet) holders(pods []string) []string {
	if !f.withProbability(20) {
		return pods
	}
	return []string{"train-0", "train-1", "serve-0"}[:f.pick(4)]
}

// The rows method returns a board's rows for scrape i. The absent parameter is the name of a field
// to omit, or "" to omit none.
func (f *fleet) rows(e *nodeState, b *boardState, i int, absent string) []row {
	var rows []row
	add := func(d *deviceState, name string, v float64, counter bool) {
		if name == absent || strings.HasPrefix(name, b.missing) {
			return
		}
		ls := maps.Clone(b.base)
		if d.id != "" {
			ls["GPU_I_ID"], ls["GPU_I_PROFILE"] = d.id, "1g.10gb"
		}
		if name == "DCGM_FI_DEV_XID_ERRORS" && f.churn {
			ls["err_code"], ls["err_msg"] = strconv.Itoa(int(v)), "text of "+strconv.Itoa(int(v))
		}
		perProcess := e.processes && (name == "DCGM_FI_DEV_FB_USED" || name == "DCGM_FI_DEV_GPU_UTIL")
		if len(d.pods) == 0 || perProcess {
			rows = append(rows, row{name, counter, ls, v})
		}
		for n, pod := range d.pods {
			ls := maps.Clone(ls)
			ls["pod"], ls["namespace"], ls["container"] = pod, "ml", "main"
			if perProcess {
				rows = append(rows, row{name, counter, ls, math.Floor(v / float64(n+2))})
			} else {
				rows = append(rows, row{name, counter, ls, v})
			}
		}
	}
	for _, d := range b.devices {
		if i < d.from || i >= d.until {
			continue
		}
		if d.id == "" {
			d.pods = b.pods
		}
		for _, name := range instanceFields {
			if name != "DCGM_FI_DEV_GPU_UTIL" || d.id == "" {
				add(d, name, d.values[name], false)
			}
		}
		for _, name := range counterFields {
			add(d, name, b.counters[name], true)
		}
		for _, name := range linkFields {
			add(d, name, b.gauges[name], b.mask == maskFields[0]) // some exporters declare these rates as counters
		}
		add(d, b.mask, b.gauges[b.mask], false)
	}
	return rows
}
