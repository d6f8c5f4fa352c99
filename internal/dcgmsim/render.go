package dcgmsim

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// label is the name and value of a label.
type label struct {
	name, value string
}

func (l label) compare(o label) int { return cmp.Compare(l.name, o.name) }

// labelSet contains the labels of a row in three groups. Exporters up to version 4.8.2 write the
// groups in the order of the struct's fields.
type labelSet struct {
	// identity contains the labels that are written first, in the given order.
	identity []label
	// labels contains the CSV fields of type label and the labels of derived metrics, sorted by
	// name.
	labels []label
	// attributes contains the labels that transformations add, sorted by name.
	attributes []label
}

// The with method returns a copy of the label set with additional labels and attributes.
func (s *labelSet) with(labels, attributes []label) labelSet {
	out := labelSet{
		identity:   s.identity,
		labels:     slices.Concat(s.labels, labels),
		attributes: slices.Concat(s.attributes, attributes),
	}
	slices.SortStableFunc(out.labels, label.compare)
	slices.SortStableFunc(out.attributes, label.compare)
	return out
}

// text formats the labels in the given style, including the braces.
func (s *labelSet) text(style Style) string {
	all := slices.Concat(s.identity, s.labels, s.attributes)
	if style.in(since483) {
		slices.SortFunc(all, label.compare)
	}
	var b strings.Builder
	b.WriteByte('{')
	for i, l := range all {
		if i > 0 {
			b.WriteByte(',')
			if style == Style2 && i < len(s.identity) {
				b.WriteByte(' ')
			}
		}
		b.WriteString(l.name)
		b.WriteString(`="`)
		if style.in(since483) {
			escaper.WriteString(&b, l.value) //nolint:errcheck // a strings.Builder never fails
		} else {
			b.WriteString(l.value)
		}
		b.WriteByte('"')
	}
	b.WriteString("} ")
	return b.String()
}

var escaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// row contains the labels of the samples for an entity, one of its holders, or one of its NVLinks.
// All fields of the same kind have the same rows.
type row struct {
	entity int
	// pod is the holder whose processes the row measures. If the row measures the device, pod is
	// nil.
	pod  *pod
	link bool
	set  labelSet
	text string
}

// rowTable contains the rows of a node in the order in which the exporter exposes them.
type rowTable struct {
	// plain contains the rows of most fields: one row for each holder of an entity, or one row for
	// an entity without a holder.
	plain []row
	// perProcess contains the rows of FB_USED and GPU_UTIL if devices are shared.
	perProcess []row
	// The links field contains the rows of the NVLinks. The withLinks field contains all rows of
	// plain and links.
	links, withLinks []row
}

// newRowTable formats the labels of a node's rows. The labels never change.
func (s *Simulation) newRowTable(n *node) rowTable {
	var t rowTable
	style := s.config.Style
	add := func(rows []row, r row) []row {
		r.text = r.set.text(style)
		return append(rows, r)
	}
	for i, e := range n.entities {
		bare := s.deviceLabels(n, e)
		if len(e.holders) == 0 {
			t.plain = add(t.plain, row{entity: i, set: s.withoutPod(bare)})
			t.perProcess = add(t.perProcess, row{entity: i, set: s.withoutPod(bare)})
			continue
		}
		t.perProcess = add(t.perProcess, row{entity: i, set: bare})
		for k := range e.holders {
			p := &e.holders[k]
			t.plain = add(t.plain, row{entity: i, set: bare.with(nil, s.podLabels(n, p, s.config.PodUID))})
			t.perProcess = add(t.perProcess, row{entity: i, pod: p, set: bare.with(nil, s.podLabels(n, p, true))})
		}
	}
	if !n.virtualGPUs || s.config.SharedRows == SharedRowsCopies {
		t.perProcess = t.plain
	}
	for _, g := range n.gpus {
		entity := slices.IndexFunc(n.entities, func(e *entity) bool { return e.gpu == g })
		for link := range s.config.Links {
			t.links = add(t.links, row{entity: entity, link: true, set: s.linkLabels(n, g, link+1)})
		}
	}
	t.withLinks = slices.Concat(t.plain, t.links)
	if style.in(since483) {
		for _, rows := range [][]row{t.plain, t.perProcess, t.withLinks} {
			slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.text, b.text) })
		}
	}
	return t
}

// deviceLabels returns the labels of an entity without the labels of its holders.
func (s *Simulation) deviceLabels(n *node, e *entity) labelSet {
	style := s.config.Style
	device := "nvidia" + strconv.Itoa(e.gpu.index)
	set := labelSet{identity: []label{{"gpu", strconv.Itoa(e.gpu.index)}, {"UUID", e.gpu.uuid}}}
	if style == Style2 {
		set.identity = append(set.identity, label{"device", device})
		return set
	}
	if style.in(since45) {
		set.identity = append(set.identity, label{"pci_bus_id", e.gpu.pci})
	}
	set.identity = append(set.identity, label{"device", device}, label{"modelName", e.gpu.hardware.model})
	if e.mig {
		set.identity = append(set.identity,
			label{"GPU_I_PROFILE", e.gpu.hardware.profile}, label{"GPU_I_ID", strconv.Itoa(e.instanceID)})
	}
	set.identity = append(set.identity, label{style.hostLabel(), n.name})
	set.labels = []label{{style.driverLabel(), e.gpu.hardware.driver}}
	return set
}

// withoutPod returns the labels of a device that no pod holds. In exporters up to 3.x, the labels
// include empty pod labels.
func (s *Simulation) withoutPod(set labelSet) labelSet {
	if s.config.Style.in(until3) {
		return set.with(nil, podNames(&pod{}))
	}
	return set
}

// podNames returns the labels that name a pod.
func podNames(p *pod) []label {
	return []label{{"container", p.container}, {"namespace", p.namespace}, {"pod", p.name}}
}

// podLabels returns the labels of a holder.
func (s *Simulation) podLabels(n *node, p *pod, withUID bool) []label {
	if p.job != "" {
		return []label{{"hpc_job", p.job}}
	}
	out := podNames(p)
	if withUID && (p.claim == nil || s.config.Style.in(since483)) {
		// Exporters up to 4.8.2 do not add the pod's UID to rows with the labels of a claim.
		out = append(out, label{"pod_uid", p.uid})
	}
	if p.vgpu != "" && n.virtualGPUs {
		out = append(out, label{"vgpu", p.vgpu})
	}
	if c := p.claim; c != nil {
		out = append(out,
			label{"dra_claim_name", c.name}, label{"dra_claim_namespace", c.namespace},
			label{"dra_driver_name", "gpu.nvidia.com"}, label{"dra_pool_name", c.pool}, label{"dra_device_name", c.device})
		if c.migProfile != "" {
			out = append(out, label{"dra_mig_profile", c.migProfile}, label{"dra_mig_device_uuid", c.migUUID})
		}
	}
	return out
}

// linkLabels returns the labels of a GPU's NVLink. The names of some labels differ from the names
// in the GPU's own rows: gpu_uuid, model_name, and, even in 4.5, hostname.
func (s *Simulation) linkLabels(n *node, g *gpu, link int) labelSet {
	return labelSet{
		identity: []label{
			{"nvlink", strconv.Itoa(link)},
			{"gpu", strconv.Itoa(g.index)},
			{"gpu_uuid", g.uuid},
			{"pci_bus_id", g.pci},
			{"device", "nvidia" + strconv.Itoa(g.index)},
			{"model_name", g.hardware.model},
			{"hostname", n.name},
		},
		labels: []label{{s.config.Style.driverLabel(), g.hardware.driver}},
	}
}

// AppendBody appends the body that the node's exporter serves at time t, measured from the start.
// The values are those of the last collect interval.
func (s *Simulation) AppendBody(dst []byte, node int, t time.Duration) []byte {
	r := renderer{Simulation: s, node: &s.nodes[node], at: s.Sampled(t), out: dst}
	if r.node.vendor == amd {
		r.at = r.at.Truncate(tick) // residencies and their clock advance in the same steps
	}
	r.read()
	switch {
	case r.node.vendor == amd:
		r.amdBody()
	case r.node.vendor == google:
		r.tpuBody()
	case r.node.vendor == aws:
		r.neuronBody()
	case s.config.Style == Style2:
		r.perGPU()
	case s.config.Style.in(since483):
		r.sorted()
	default:
		r.template()
	}
	return r.out
}

// renderer writes one body.
type renderer struct {
	*Simulation
	node     *node
	at       time.Duration
	readings []reading
	out      []byte
}

// read reads the values of all entities.
func (r *renderer) read() {
	r.readings = make([]reading, len(r.node.entities))
	for i, e := range r.node.entities {
		if i > 0 && r.node.entities[i-1].gpu == e.gpu {
			r.readings[i] = r.readings[i-1]
		} else {
			r.readBoard(&r.readings[i], e.gpu, r.at)
		}
		r.readEntity(&r.readings[i], e, r.at)
	}
}

// perGPU writes the body in the layout of exporter 2.0. The HELP and TYPE lines of all counters
// come first, followed by the samples of each GPU. There is an empty line before each GPU.
func (r *renderer) perGPU() {
	for i := range r.fields {
		r.header(&r.fields[i])
	}
	r.out = append(r.out, '\n')
	for i := range r.node.rows.plain {
		r.out = append(r.out, '\n')
		for k := range r.fields {
			r.rows(&r.fields[k], r.node.rows.plain[i:i+1])
		}
	}
}

// template writes the body in the layout of exporters up to 4.8.2: families in the order of their
// field IDs, followed by the NVLink families with their own HELP and TYPE.
func (r *renderer) template() {
	for i := range r.fields {
		r.family(&r.fields[i], r.rowsOf(&r.fields[i], false))
	}
	for i := range r.links {
		r.family(&r.links[i], r.node.rows.links)
	}
}

// The sorted method writes the body in the layout of exporter 4.8.3 and later. The families are
// sorted by name, and each family appears once.
func (r *renderer) sorted() {
	fields := slices.Clone(r.fields)
	slices.SortFunc(fields, func(a, b field) int { return cmp.Compare(a.name, b.name) })
	for i := range fields {
		perLink := slices.ContainsFunc(r.links, func(l field) bool { return l.name == fields[i].name })
		r.family(&fields[i], r.rowsOf(&fields[i], perLink))
	}
}

// rowsOf returns the rows of a field. Exporters recognize the fields with per-process rows by the
// names DCGM_FI_DEV_FB_USED and DCGM_FI_DEV_GPU_UTIL, so a renamed field is copied to each holder.
func (r *renderer) rowsOf(f *field, perLink bool) []row {
	switch {
	case perLink:
		return r.node.rows.withLinks
	case f.name == "DCGM_FI_DEV_FB_USED" || f.name == "DCGM_FI_DEV_GPU_UTIL":
		return r.node.rows.perProcess
	default:
		return r.node.rows.plain
	}
}

func (r *renderer) header(f *field) {
	r.out = fmt.Appendf(r.out, "# HELP %s %s\n# TYPE %[1]s %[3]s\n", f.name, f.help, f.typ)
}

// family writes a field with its HELP and TYPE. If the field has no sample, family writes nothing.
func (r *renderer) family(f *field, rows []row) {
	start := len(r.out)
	r.header(f)
	header := len(r.out)
	r.rows(f, rows)
	if len(r.out) == header {
		r.out = r.out[:start]
	}
}

func (r *renderer) rows(f *field, rows []row) {
	switch f.quantity {
	case xidLast, xidWindow, clockEventsWindow, xidTotal, clockEventsTotal:
		r.labeled(f, rows)
		return
	}
	for i := range rows {
		row := &rows[i]
		e := r.node.entities[row.entity]
		if e.mig && slices.Contains(ofGPUs, f.quantity) {
			continue
		}
		n := r.readings[row.entity][f.quantity]
		switch {
		case !n.valid:
			continue
		case row.link:
			n = integer(n.int / int64(e.gpu.hardware.links))
		case row.pod != nil && f.quantity == fbUsed:
			n = integer(int64(row.pod.memoryShare * float64(n.int)))
		case row.pod != nil && f.quantity == gpuUtil:
			n = integer(int64(row.pod.loadShare * float64(n.int)))
		}
		if f.convert != nil && n.int != notSupported {
			n = f.convert(n)
		}
		r.out = append(r.out, f.name...)
		r.out = append(r.out, row.text...)
		r.value(n)
	}
}

// value writes a number and ends the line.
func (r *renderer) value(n number) {
	switch {
	case r.config.Style.in(since483):
		r.out = strconv.AppendFloat(r.out, n.value(), 'g', -1, 64)
	case n.double:
		r.out = strconv.AppendFloat(r.out, n.float, 'f', 6, 64)
	default:
		r.out = strconv.AppendInt(r.out, n.int, 10)
	}
	r.out = append(r.out, '\n')
}

// sample contains a value and the labels that depend on the value.
type sample struct {
	labels, attributes []label
	value              int64
}

// The labeled method writes a field whose labels depend on its value.
func (r *renderer) labeled(f *field, rows []row) {
	type line struct {
		text  string
		value int64
	}
	var lines []line
	for i := range rows {
		for _, s := range r.samples(f, rows[i].entity) {
			set := rows[i].set.with(s.labels, s.attributes)
			lines = append(lines, line{set.text(r.config.Style), s.value})
		}
	}
	if r.config.Style.in(since483) {
		slices.SortFunc(lines, func(a, b line) int { return cmp.Compare(a.text, b.text) })
	}
	for _, l := range lines {
		r.out = append(r.out, f.name...)
		r.out = append(r.out, l.text...)
		r.value(integer(l.value))
	}
}

// The samples method returns the samples of one entity for a field whose labels depend on its
// value.
func (r *renderer) samples(f *field, entity int) []sample {
	e := r.node.entities[entity]
	since := r.restarted(r.at)
	var out []sample
	switch f.quantity {
	case xidLast:
		code := r.readings[entity][xidLast]
		if !code.valid {
			return nil
		}
		s := sample{value: code.int}
		if r.config.Style.in(since45) {
			s.attributes = []label{{"err_code", strconv.FormatInt(code.int, 10)}, {"err_msg", xidTexts[int(code.int)]}}
		}
		return []sample{s}
	case xidWindow:
		out = r.xidSamples(e, max(since, r.at-windowSize))
	case xidTotal:
		return r.xidSamples(e, since)
	case clockEventsWindow:
		for i, n := range r.clockEventCounts(e.gpu, r.at) {
			out = appendClockEvent(out, i, n)
		}
	case clockEventsTotal:
		for i, c := range clockEvents {
			gate := e.gpu.story.reasons[c.reason]
			out = appendClockEvent(out, i, gate.edges(e.gpu.phase+r.at)-gate.edges(e.gpu.phase+since))
		}
		return out
	}
	// If there are no events in the window, the exporter exposes one sample without the label that
	// identifies the event.
	if len(out) == 0 {
		out = []sample{{}}
	}
	for i := range out {
		out[i].labels = append(out[i].labels, label{"window_size_in_ms", strconv.FormatInt(windowSize.Milliseconds(), 10)})
	}
	return out
}

// xidSamples returns, for each XID code, the number of the entity's XIDs after the given time.
func (r *renderer) xidSamples(e *entity, from time.Duration) []sample {
	var out []sample
	for _, code := range e.gpu.story.xidCodes {
		if n := e.xidCount(code, from, r.at); n > 0 {
			out = append(out, sample{labels: []label{{"xid", strconv.Itoa(code)}}, value: n})
		}
	}
	return out
}

// appendClockEvent appends the count of the ith clock event unless the count is zero.
func appendClockEvent(out []sample, i int, n int64) []sample {
	if n == 0 {
		return out
	}
	return append(out, sample{labels: []label{{"clock_event", clockEvents[i].name}}, value: n})
}
