package catalogue

import (
	"fmt"
	"slices"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Exporter describes one exporter: its labels, fields, and identity rules.
type Exporter struct {
	// Name is the exporter's common name. Vendor is the value of hw.vendor.
	Name, Vendor string
	// Experimental tells users on which devices the table has not been tested. Experimental is ""
	// if the table has been tested.
	Experimental string
	// TurnOn tells users how to enable fields that are not exposed. TurnOn is set for exporters
	// that have no list of counters.
	TurnOn string
	// Groups contains the fields in the order in which they are documented.
	Groups []Group
	// Signals contains the signals that no field lists in Provides. The signals in Signals are
	// documented after the signals of the fields.
	Signals []Signal
	// Gaps explains to users why the exporter does not provide metrics that other exporters
	// provide.
	Gaps map[*signal.Metric]string

	// Claims reports whether a row that has one of the exporter's metric names also has the
	// exporter's labels. If Claims is nil, the metric name is sufficient.
	Claims func(*Row) bool
	// Labels maps each known role to the possible names of its label. The name that the exporter
	// uses comes before other spellings. Case is ignored in rows that have none of the names with
	// uppercase letters. BlankText reports whether a label value means "no value". BlankText needs
	// to recognize only values that NoText does not recognize. BlankText may be nil.
	Labels map[Role][]string
	// PublicLabels lists the labels whose values describe hardware or software, and do not identify
	// an owner, a machine, or a board. Only these values may be part of a recording that users
	// share. The names are lowercase, because some storage backends convert label names to
	// lowercase. Labels whose values are numbers of at most four digits are not listed, because such
	// values identify nothing.
	PublicLabels []string
	BlankText    func(Role, string) bool
	// OwnsName reports whether a metric name that is not in the table belongs to the exporter. If
	// OwnsName is nil, the exporter has no metric names outside the table.
	OwnsName func(name string) bool
	// Identify returns the device that a row describes, or the reason why the row does not describe
	// one of the exporter's devices.
	Identify func(*Row) (Identity, Refusal)
	// IsExporter reports whether a container has the exporter's name.
	IsExporter func(Holder) bool

	// OfContainers is true if the rows describe how containers use devices that other exporters
	// expose. An exporter for which OfContainers is true does not count as an additional source for
	// a device. Each row is matched by device ID to a device of another exporter. The ID is
	// compared first as exposed, and then with NVIDIA's prefix added. Fields that give signals
	// other than ByProcesses signals measure the device. The rows of these fields are used only if
	// no other source provides the device. If rows of the same field and container differ only in
	// the label with RolePart, their values are summed or, for ratios, the highest value is used.
	OfContainers bool
	// OfProcesses is true if the rows describe processes by their PIDs. If a row does not name a
	// device, gpu_k8s determines the device. OfProcesses implies OfContainers.
	OfProcesses bool
	// Vitals contains the names of fields that are never 0 on a board that the driver can read. If
	// all of the fields in Vitals are exposed and their values are 0, no value of the board or its
	// instances is an observation.
	Vitals []string

	// Hooks are the functions that only this exporter needs.
	Hooks
	// Index is computed from the table by New.
	Index
}

// Index contains the data that New computes from an exporter's table.
type Index struct {
	// Code is the ID of the field that contains the code of the last event. Energy is the ID of the
	// field that counts the energy used by the board. An ID of 0 means that the exporter has no
	// such field. Healths contains the fields that describe the board's health.
	Code, Energy ID
	Healths      []*Field
	// Rates contains the IDs of the counters from whose rates signals are computed.
	Rates []ID
	// First is the ID of the first field. The other fields have consecutive IDs.
	First ID
	// VitalIDs contains the IDs of the fields in Vitals.
	VitalIDs []ID
	// Board lists the fields that measure a board.
	Board []*Field

	fields    []*Field
	signals   []*Signal
	spellings map[string]Spelling
	// folded contains the same entries as spellings, indexed by lowercase name.
	folded map[string]Spelling
	labels labelNames
	// links contains the signals that are the ratio of a byte rate to the capacity of a link.
	links []*Signal

	dropContradicted func(Values) // may be nil
}

// Group is a list of fields under one title.
type Group struct {
	Title  string
	Fields []Field
}

// Identity identifies the device that a row describes.
type Identity struct {
	// Board is the hw.id of the board. Instance identifies the instance if the row describes an
	// instance. Instance is passed to InstanceID.
	Board, Instance string
	// Number is the number of the instance on the board.
	Number int
	// Of is the number of instances of the board. If the board has no instances, or if the number
	// is unknown, Of is 0.
	Of int
	// Model is the board's model name, and Part is the value of RolePart. Model and Part are set
	// only if the row's labels do not contain their values.
	Model, Part string
	// Detail is data that Identify stores for Resolve.
	Detail any
}

// Reading is a row that is passed to Exporter.Resolve, together with the other rows of the scrape.
type Reading struct {
	Field *Field
	// Identity is the row's device. Resolve may replace the pointer but must not modify the
	// Identity, because other rows share the Identity.
	Identity *Identity
	// Holder is the row's holder, or nil if the row has no holder.
	Holder *Holder

	// Resolve sets the following fields. Unresolved is true if the row's device is unknown.
	// AmbiguousHolder is true if the holder in the row may hold a different device.
	Unresolved, AmbiguousHolder bool
}

// PluginID is a parsed device ID from a device plugin. If a value is unknown, its field is empty.
type PluginID struct {
	// Resource is the extended resource of the plugin, such as nvidia.com/gpu. The form of the
	// device ID does not depend on Resource.
	Resource string
	// Raw is the unparsed device ID.
	Raw string
	// UUID is the GPU-<uuid> of a board. MIGUUID is the MIG-<uuid> of a MIG device.
	UUID, MIGUUID string
	// Name is the board's name in the operating system, such as nvidia0.
	Name string
	// GPUInstance is the NVML GPU instance ID of a MIG device.
	GPUInstance string
	// Replica is true if the ID is one of several IDs of the same device.
	Replica bool
}

// IsKnown reports whether the form of the ID is known, which means that the ID identifies a device.
func (d *PluginID) IsKnown() bool { return d.UUID != "" || d.MIGUUID != "" || d.Name != "" }

// Refusal is the reason why a row does not describe one of the exporter's devices.
type Refusal uint8

const (
	// Accepted means that the row describes a device.
	Accepted Refusal = iota
	// NoDevice means that the row does not name a device.
	NoDevice
	// OtherEntity means that the row describes something other than a device, such as a link, a
	// switch, or a CPU.
	OtherEntity
	// OtherVendor means that the row describes another vendor's device.
	OtherVendor
)

// Capacities contains the capacities of a board model. A value of 0 means that the capacity is
// unknown or does not exist.
type Capacities struct {
	// Memory is the size of the board's memory in bytes. Memory is set only for exporters that do
	// not expose the memory size.
	Memory float64
	// PCIe and NVLink are the capacities of the links in one direction, in bytes per second.
	PCIe, NVLink float64
}

// FoldModel normalizes a model name so that model names can be compared. Exporters may replace
// spaces with dashes, and vendors capitalize model names differently.
func FoldModel(model string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(model), func(r rune) bool {
		return r == ' ' || r == '-' || r == '_'
	}), " ")
}

// fields contains the fields of all tables, indexed by ID. No field has the ID 0.
var fields = []*Field{nil}

// NumFields returns one more than the highest field ID.
func NumFields() int { return len(fields) }

// ByID returns the field with the given ID.
func ByID(id ID) *Field { return fields[id] }

// New assigns IDs to the fields of a table and resolves the field names in the table. New panics if
// the table is inconsistent.
func New(x Exporter) *Exporter {
	x.OfContainers = x.OfContainers || x.OfProcesses
	if x.OwnsName == nil {
		x.OwnsName = func(string) bool { return false }
	}
	if x.Spellings == nil {
		x.Spellings = func(name string) []string { return []string{name} }
	}
	if x.InstanceID == nil {
		x.InstanceID = func(_, instance string) string { return instance }
	}
	if x.Capacities == nil {
		x.Capacities = func(string) Capacities { return Capacities{} }
	}
	x.spellings, x.folded = map[string]Spelling{}, map[string]Spelling{}
	x.labels = newLabelNames(x.Labels)
	x.First = ID(len(fields))
	for g := range x.Groups {
		for i := range x.Groups[g].Fields {
			x.add(&x.Groups[g].Fields[i])
		}
	}
	for _, f := range x.fields {
		for i := range f.Provides {
			s := &f.Provides[i]
			if s.Metric == signal.HwEnergy {
				x.Energy = f.ID
			}
			if s.From == nil {
				s.From = [][]string{{f.Name}}
			}
			x.resolve(s)
		}
	}
	for i := range x.Signals {
		x.resolve(&x.Signals[i])
	}
	x.VitalIDs = x.ids(x.Vitals)
	if x.Contradictions != nil {
		x.dropContradicted = x.Contradictions(&x)
	}
	return &x
}

func (x *Exporter) add(f *Field) {
	if len(fields) >= MaxFields {
		panic("catalogue: more fields than MaxFields")
	}
	f.ID = ID(len(fields))
	fields = append(fields, f)
	if f.Kind == Code {
		x.Code = f.ID
	}
	if f.Health != nil {
		x.Healths = append(x.Healths, f)
	}
	x.fields = append(x.fields, f)
	if f.Scope == Board {
		x.Board = append(x.Board, f)
	}
	x.spell(f.Exposed(), Spelling{Field: f, Unit: f.Unit})
	for i, name := range f.Aliases {
		x.spell(name, Spelling{Field: f, Unit: f.Unit, Alias: uint8(i + 1)})
	}
	for _, r := range f.Rescaled {
		x.spell(r.Name, Spelling{Field: f, Unit: r.Unit, BaseUnits: r.Unit == Byte || r.Unit == Second || r.Unit == Ratio})
	}
}

// spell adds an exposed name for a field. Several fields may share a name if a label distinguishes
// the fields.
func (x *Exporter) spell(name string, s Spelling) {
	f := s.Field
	before, twice := x.spellings[name]
	switch {
	case twice && (before.Cut == nil || f.Cut == nil):
		panic("catalogue: two fields are named " + name)
	case twice && (before.Unit != s.Unit || before.Alias != s.Alias || before.BaseUnits != s.BaseUnits):
		panic("catalogue: the fields named " + name + " differ in more than a label")
	case twice:
		s = before
	case f.Cut != nil:
		s.Cut = map[string]*Field{}
	}
	for _, value := range f.Cut {
		if s.Cut[value] != nil {
			panic("catalogue: two fields are named " + name + " with the value " + value)
		}
		s.Cut[value] = f
	}
	for _, spelling := range x.Spellings(name) {
		x.spellings[spelling] = s
		lower := strings.ToLower(spelling)
		if before, twice := x.folded[lower]; twice && before.Field != s.Field && s.Cut == nil {
			panic("catalogue: two fields are named " + lower)
		}
		x.folded[lower] = s
	}
}

func (x *Exporter) resolve(s *Signal) {
	x.signals = append(x.signals, s)
	for _, names := range s.From {
		s.Sets = append(s.Sets, x.ids(names))
	}
	s.Inputs = x.ids(s.With)
	for _, id := range slices.Concat(s.Sets...) {
		f := ByID(id)
		if s.Capacity != nil && f.Unit.isByteRate() && !slices.Contains(x.links, s) {
			x.links = append(x.links, s)
		}
		if s.By == ByProcesses {
			f.Process = s
		}
		if f.Kind == Counter && s.Metric.Kind == signal.Gauge && f.Rate == 0 {
			x.Rates = append(x.Rates, id)
			f.Rate = len(x.Rates)
		}
	}
}

func (x *Exporter) ids(names []string) []ID {
	var out []ID
	for _, name := range names {
		out = append(out, x.Field(name).ID)
	}
	return out
}

// Field returns the field with the given name, which must be in the table.
func (x *Exporter) Field(name string) *Field {
	if s, ok := x.spellings[name]; ok && s.Cut == nil {
		return s.Field
	}
	for _, f := range x.fields {
		if f.Name == name {
			return f
		}
	}
	panic(fmt.Sprintf("catalogue: %q is not a field", name))
}

// Lookup returns the meaning of an exposed metric name. Case is ignored, because some storage
// backends convert names to lowercase. Lookup returns false for names that are not in the table.
func (x *Exporter) Lookup(name string) (Spelling, bool) {
	s, ok := x.spellings[name]
	if !ok {
		s, ok = x.folded[strings.ToLower(name)]
	}
	return s, ok
}

// Prefixed returns the meaning of a metric name that starts with a user-defined prefix. The prefix
// ends with an underscore. Prefixed returns false if the table does not contain the rest of the
// name, or if the exporter has no AnyPrefix hook.
func (x *Exporter) Prefixed(name string) (Spelling, bool) {
	for x.AnyPrefix != nil {
		var found bool
		if _, name, found = strings.Cut(name, "_"); !found {
			break
		}
		if s, ok := x.spellings[name]; ok {
			s.Prefixed = true
			return s, true
		}
	}
	return Spelling{}, false
}

// Takes reports whether a row that has one of the exporter's metric names belongs to the exporter.
func (x *Exporter) Takes(s Spelling, r *Row) bool {
	return (x.Claims == nil || x.Claims(r)) && (!s.Prefixed || x.AnyPrefix(r))
}

// Fields returns the fields in table order. Callers must not modify the fields.
func (x *Exporter) Fields() []*Field { return x.fields }

// AllSignals returns the signals of the exporter's fields and labels, in the order in which they
// are documented. Callers must not modify the signals.
func (x *Exporter) AllSignals() []*Signal { return x.signals }
