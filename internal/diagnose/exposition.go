package diagnose

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/exposition"
)

// Label is one label of a row, as the exporter exposes it.
type Label = exposition.Label

// Exposition collects the rows of one scrape for a [Report]. The zero value is
// empty.
type Exposition struct {
	scrape  Scrape
	rows    []row
	devices map[deviceKey]*device
	order   []*device
	series  map[string]bool
	// targets contains the pods that an intermediate Prometheus server scraped. Even in rows of
	// devices without a holder, the scraped pods appear in labels that look like the labels of a
	// holder.
	targets catalogue.Targets
	// typedCounter lists the metrics that are rates although their TYPE line says "counter".
	// microseconds lists the metrics whose HELP text contains "(in us)".
	typedCounter, microseconds []string
	counts                     tally
	// unresolved and unknown contain rows of an exporter that has the Resolve hook. Signals are
	// computed from the rows in unresolved, but not from the rows in unknown.
	unresolved, unknown []unresolvedRow
}

// tally contains the counts and flags that determine the warnings in the report.
type tally struct {
	rows, withoutUUID, otherVendor, blanks, duplicates, unresolved int
	relayed, ownPod, reservation, boardDRA                         bool
	noHost, podAsHost, containerAsHost, localhost, baseUnits       bool

	memoryUtil bool
	second     string // another exporter whose rows were found

	ownPodHosts []string // hosts whose rows name the exporter's own pod instead of a holder
}

// memoryUtilRatio is the name that exporters 4.9 and later use for MEM_COPY_UTIL.
const memoryUtilRatio = "DCGM_FI_DEV_MEMORY_UTIL_RATIO"

// row is a row of the exposition that has a known field. Exposition stores each row until all rows
// have been read, because the scale of a value may depend on other rows.
type row struct {
	device   *device
	spelling catalogue.Spelling
	exposed  float64
	// holder is the container that the row's labels name. held is true if that container holds the
	// device.
	holder        catalogue.Holder
	reserved      bool // true if the named container belongs to a reservation pod
	held, relayed bool
	ambiguous     bool // the container may hold a different device instead
	host          string
	job           string // the batch job that the row names, even if the row also names a container
}

// unresolvedRow is a row whose device can be determined only after all rows have been read.
type unresolvedRow struct {
	row    row
	text   *catalogue.Row
	is     catalogue.Identity
	target string // the scrape target
}

// deviceKey identifies a device in one exposition.
type deviceKey struct {
	host, board, instance string
}

// device is a board or a MIG instance, together with its description.
type device struct {
	*Device
	key           deviceKey
	name, profile string
	scrapeTargets []string // Scrape targets that an intermediate Prometheus server names.
	xids          []int    // XID codes in the device's rows.
}

// Declare processes a HELP or TYPE line.
func (e *Exposition) Declare(keyword, name, text string) {
	sp, of := exporters.Lookup(name)
	if sp.Field == nil || of.OfContainers {
		return
	}
	e.scrape.Declare(sp.Field.ID)
	switch {
	case keyword == "HELP" && sp.Unit == catalogue.Nanosecond && strings.Contains(text, "(in us)"):
		e.microseconds = add(e.microseconds, name)
	case keyword == "TYPE" && text == "counter" && sp.Unit == catalogue.BytePerSecond:
		e.typedCounter = add(e.typedCounter, name)
	}
}

// add appends an item to the list unless the list already contains that item.
func add[T comparable](list []T, one T) []T {
	if slices.Contains(list, one) {
		return list
	}
	return append(list, one)
}

// Rows returns how many of the added rows belong to the diagnosed exporter.
func (e *Exposition) Rows() int { return e.counts.rows }

// Add processes one row. Add ignores rows from unknown exporters. If rows come from several
// exporters, Add uses only the rows from the exporter of the first row.
func (e *Exposition) Add(name string, labels []Label, value float64) {
	sp, of := exporters.Lookup(name)
	if of == nil || of.OfContainers { // rows of containers do not describe devices
		return
	}
	text := catalogue.NewRow(of)
	var clues Clues
	target := ""
	for _, l := range labels {
		text.Set(l.Name, l.Value)
		clues.Label(l.Name, l.Value)
		if l.Name == "instance" {
			target = l.Value
		}
	}
	switch {
	case !of.Takes(sp, text):
		return
	case e.scrape.Of != nil && e.scrape.Of != of:
		e.counts.second = of.Name
		return
	}
	e.scrape.Of = of
	e.counts.rows++
	e.scrape.Clues.Merge(clues)
	if sp.Cut != nil {
		sp.Field = sp.Cut[text.Get(catalogue.RoleCut)]
	}
	known := sp.Field != nil
	e.counts.memoryUtil = e.counts.memoryUtil || name == memoryUtilRatio
	is, refusal := of.Identify(text)
	switch refusal {
	case catalogue.NoDevice:
		e.counts.withoutUUID++
		return
	case catalogue.OtherEntity:
		if known {
			e.scrape.Declare(sp.Field.ID)
		}
		return
	case catalogue.OtherVendor:
		e.counts.otherVendor++
		return
	case catalogue.Accepted:
	}
	if e.isDuplicate(name, labels) {
		e.counts.duplicates++
	}
	e.recordHost(text)
	r := row{spelling: sp, exposed: value}
	e.recordHolder(&r, text)
	if job := text.Get(catalogue.RoleJob); catalogue.IsJobID(job) {
		r.job = job
	}
	switch u := (unresolvedRow{r, text, is, target}); {
	case of.Resolve == nil:
		e.storeRow(r, is, text, target)
	case known:
		e.unresolved = append(e.unresolved, u)
	default:
		e.unknown = append(e.unknown, u)
	}
}

// storeRow stores a row about a device. A row without a known field proves only that the device
// exists.
func (e *Exposition) storeRow(r row, is catalogue.Identity, text *catalogue.Row, target string) {
	r.device = e.device(is, text)
	if target != "" {
		r.device.scrapeTargets = add(r.device.scrapeTargets, target)
	}
	if r.spelling.Field == nil {
		return
	}
	e.counts.baseUnits = e.counts.baseUnits || r.spelling.BaseUnits
	e.rows = append(e.rows, r)
	if code := xidCode(r.spelling, r.exposed, text.Get(catalogue.RoleXID)); code > 0 {
		r.device.xids = add(r.device.xids, code)
	}
}

// resolve uses the exporter's Resolve hook to determine the device of each row that does not
// identify its device.
func (e *Exposition) resolve() {
	readings := make([]catalogue.Reading, len(e.unresolved))
	hosts := map[string][]*catalogue.Reading{}
	for i := range e.unresolved {
		u := &e.unresolved[i]
		readings[i] = catalogue.Reading{Field: u.row.spelling.Field, Identity: &u.is}
		if u.row.held && !e.isTarget(&u.row) {
			readings[i].Holder = &u.row.holder
		}
		hosts[u.row.host] = append(hosts[u.row.host], &readings[i])
	}
	for _, rows := range hosts {
		e.scrape.Of.Resolve(rows)
	}
	for i, u := range e.unresolved {
		if readings[i].Unresolved {
			e.counts.unresolved++
			continue
		}
		u.row.ambiguous = readings[i].AmbiguousHolder
		e.storeRow(u.row, *readings[i].Identity, u.text, u.target)
	}
	if len(e.order) == 0 { // no signal is computed from the unknown rows, but they prove that the devices exist
		for _, u := range e.unknown {
			e.storeRow(u.row, u.is, u.text, u.target)
		}
	}
}

// isDuplicate reports whether an earlier row has the same name and labels.
func (e *Exposition) isDuplicate(name string, labels []Label) bool {
	sorted := slices.SortedFunc(slices.Values(labels), func(a, b Label) int { return cmp.Compare(a.Name, b.Name) })
	key := fmt.Sprintf("%s%q", name, sorted)
	if e.series[key] {
		return true
	}
	if e.series == nil {
		e.series = map[string]bool{}
	}
	e.series[key] = true
	return false
}

// device returns the device to which a row belongs.
func (e *Exposition) device(is catalogue.Identity, text *catalogue.Row) *device {
	key := deviceKey{text.Get(catalogue.RoleHost), is.Board, is.Instance}
	board := e.findOrAdd(deviceKey{key.host, key.board, ""}, nil)
	d := board
	if key.instance != "" {
		d = e.findOrAdd(key, board)
		if p := text.Get(catalogue.RoleInstanceProfile); p != "" {
			d.profile = p
		}
	} else if text.Claimed() && text.Get(catalogue.RoleMIGUUID) != "" {
		e.counts.boardDRA = true
	}
	for _, x := range []*device{d, board} {
		if n := text.Get(catalogue.RoleDevice); n != "" {
			x.name = n
		}
		if m := cmp.Or(is.Model, text.Get(catalogue.RoleModel), text.Get(catalogue.RoleSeries)); m != "" {
			x.Model = m
		}
	}
	return d
}

func (e *Exposition) findOrAdd(key deviceKey, board *device) *device {
	if d := e.devices[key]; d != nil {
		return d
	}
	if e.devices == nil {
		e.devices = map[deviceKey]*device{}
	}
	d := &device{key: key}
	if board == nil {
		d.Device = e.scrape.Device(nil)
	} else {
		d.Device = e.scrape.Device(board.Device)
	}
	d.Host = key.host
	e.devices[key] = d
	e.order = append(e.order, d)
	return d
}

// shortContainerID matches the default hostname of a Docker container. If the matched name consists
// only of digits, it may also be the name of a real host.
var shortContainerID = regexp.MustCompile(`^[0-9a-f]{12}$`)

func (e *Exposition) recordHost(text *catalogue.Row) {
	switch host := text.Get(catalogue.RoleHost); {
	case host == "":
		e.counts.noHost = true
	case strings.Contains(host, "dcgm-exporter"):
		e.counts.podAsHost = true
	case shortContainerID.MatchString(host) && strings.ContainsAny(host, "abcdef"):
		e.counts.containerAsHost = true
	case host == "localhost":
		e.counts.localhost = true
	}
}

// recordHolder records the container that the row names. The exporter's own pod is never a holder.
// The labels in a federated row may name the scrape target instead of a holder. recordHolder
// recognizes a scrape target by the name of the pod.
func (e *Exposition) recordHolder(r *row, text *catalogue.Row) {
	r.holder, r.held = text.Named()
	r.host = text.Get(catalogue.RoleHost)
	if r.held && (text.Federated() && text.Of().IsExporter(r.holder) || text.NamesTarget()) {
		e.recordOwnPod(r)
	}
	if r.relayed = text.Relayed(); r.relayed {
		e.counts.relayed = true
		if e.targets == nil {
			e.targets = catalogue.Targets{}
		}
		e.targets.Add(text.Target())
	}
	r.reserved = catalogue.IsReservation(r.holder)
	e.counts.reservation = e.counts.reservation || r.reserved
}

// recordOwnPod records that a row names the exporter's own pod instead of a holder.
func (e *Exposition) recordOwnPod(r *row) {
	r.held, e.counts.ownPod = false, true
	if r.host != "" {
		e.counts.ownPodHosts = add(e.counts.ownPodHosts, r.host)
	}
}

// isTarget reports whether the holder that a row names is a scrape target.
func (e *Exposition) isTarget(r *row) bool {
	return !r.relayed && e.targets.Has(r.holder)
}

// addRows adds the stored rows to the scrape. Call addRows only after all rows have been read.
func (e *Exposition) addRows() {
	e.resolve()
	scale := e.scale()
	for i := range e.rows {
		r := &e.rows[i]
		if r.held && e.isTarget(r) {
			e.recordOwnPod(r)
		}
		r.holder.UID = "" // rows that name the same container may or may not have a UID
		st, value := stateOf(r.spelling, r.exposed, scale)
		if blank := e.scrape.exporter().BlankValue; blank != nil && blank(r.exposed) {
			st = Blank
		}
		if st == Blank {
			e.counts.blanks++
		}
		r.device.RecordNames(r.job, r.held && r.holder.Job == "")
		r.device.RecordRow(r.spelling.Field.ID, st, value, r.held, r.ambiguous, r.reserved)
	}
}

// The scale method uses all rows to determine the scale of the RatioOrPercent values.
func (e *Exposition) scale() catalogue.Scale {
	settled := catalogue.ScaleUnknown
	if e.counts.baseUnits {
		settled = catalogue.ScaleRatio
	}
	for _, r := range e.rows {
		if r.spelling.Unit != catalogue.RatioOrPercent {
			continue
		}
		if s := catalogue.Settle(r.exposed); s == catalogue.ScalePercent || settled == catalogue.ScaleUnknown {
			settled = s
		}
	}
	return settled
}

// stateOf returns the state of an exposed value and converts the value to base units.
func stateOf(sp catalogue.Spelling, exposed float64, scale catalogue.Scale) (State, float64) {
	v, verdict := sp.Unit.Value(exposed)
	if sp.Unit == catalogue.RatioOrPercent && verdict == catalogue.Valid {
		fraction, ok := scale.Apply(v)
		if !ok {
			return Ambiguous, 0
		}
		v = fraction
		_, _, verdict = catalogue.Clamp(v)
	}
	switch {
	case verdict != catalogue.Valid, sp.Field.Kind == catalogue.Code && (v > catalogue.MaxCode || v != math.Trunc(v)):
		return Blank, 0
	case v == 0:
		return Zero, 0
	}
	return Positive, v
}
