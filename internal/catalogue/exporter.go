package catalogue

import (
	"fmt"
	"slices"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Exporter is the table of one exporter.
type Exporter struct {
	// Name is the exporter's common name, Vendor is hw.vendor.
	Name, Vendor string
	// Experimental tells users on which devices the table has not been tested. It is "" if the
	// table has been tested.
	Experimental string
	// TurnOn tells users how to enable fields that are not exposed, for exporters without a list of
	// counters.
	TurnOn string
	// Groups are the fields in reading order.
	Groups []Group
	// Signals are signals that no field lists. They follow the signals of the fields.
	Signals []Signal
	// Gaps tells users why the exporter has no source for metrics that other exporters have.
	Gaps map[*signal.Metric]string

	// Claims reports whether a row with one of the exporter's names also has the exporter's labels.
	// If it is nil, the names are sufficient.
	Claims func(*Row) bool
	// Labels contains the names of the labels with a known role, the exporter's own name before
	// other spellings. Case is ignored if all labels of a row are in lower case. BlankText reports
	// texts that mean "no value", in addition to those of NoText. It may be nil.
	Labels    map[Role][]string
	BlankText func(Role, string) bool
	// OwnsName reports whether a name without a field belongs to the exporter. If it is nil, there
	// are no such names.
	OwnsName func(name string) bool
	// Identify returns the device of a row, or the reason why the row is not about one of this
	// exporter's devices.
	Identify func(*Row) (Identity, Refusal)
	// IsExporter reports whether a container has the exporter's name.
	IsExporter func(Holder) bool

	// OfContainers is true if the rows describe containers on devices that other exporters expose.
	// Such an exporter is not a second source of a device: its rows are matched to another
	// exporter's device by id, first unchanged, then with NVIDIA's prefix. Its rows without a
	// holder measure the device, and are used if no other exporter exposes it. Rows of one field
	// and container that differ only in the label of RolePart are summed.
	OfContainers bool
	// OfProcesses is true if the rows describe processes by their PID. The rows may lack a device,
	// which gpu_k8s then finds. It implies OfContainers.
	OfProcesses bool
	// Vitals are names of fields that are never 0 on a board that the driver can read. While all of
	// them are exposed and 0, no value of the board or its instances is an observation.
	Vitals []string

	// Hooks are the functions that only this exporter needs.
	Hooks
	// Index is computed from the table by New.
	Index
}

// Index contains the data that New computes from an exporter's table.
type Index struct {
	// Code is the field with the code of the last event. Energy is the field that counts the
	// board's energy. 0 means that there is no such field. Healths are the fields about the board's
	// health.
	Code, Energy ID
	Healths      []*Field
	// Rates are the counters whose rates are signals.
	Rates []ID
	// First is the ID of the first field; the other fields have the following IDs.
	First ID
	// VitalIDs are the IDs of Vitals.
	VitalIDs []ID
	// Board lists the fields that measure a board.
	Board []*Field

	fields    []*Field
	signals   []*Signal
	spellings map[string]Spelling
	folded    map[string]Spelling // by name in lower case
	labels    labelNames
	links     []*Signal // ratios to the capacity of a link

	dropContradicted func(Values) // may be nil
}

// Group is a list of fields under one title.
type Group struct {
	Title  string
	Fields []Field
}

// Identity is the device of a row.
type Identity struct {
	// Board is the hw.id of the board. For a row about an instance, Instance is the argument for
	// InstanceID.
	Board, Instance string
	// Number is the number of the instance on its board.
	Number int
	// Of is the number of instances of the board if the exporter exposes it. 0 means that the
	// number is unknown or that there are none.
	Of int
	// Model is the board's model name and Part the value of RolePart, if they are not in the labels
	// of these roles.
	Model, Part string
	// Detail is data that Identify stores for Resolve.
	Detail any
}

// Reading is a row of one scrape, for Exporter.Resolve.
type Reading struct {
	Field *Field
	// Identity is the row's device. Resolve may replace the pointer but must not modify the
	// identity, which other readings share.
	Identity *Identity
	// Holder is the row's holder, or nil if there is none.
	Holder *Holder

	// Resolve sets the following fields. Unresolved is true if the row's device is unknown, and
	// AmbiguousHolder is true if the holder may hold another device instead.
	Unresolved, AmbiguousHolder bool
}

// PluginID is a parsed device id of a device plugin. Empty fields are unknown.
type PluginID struct {
	// Resource is the extended resource of the plugin, such as nvidia.com/gpu. The form of the id
	// does not depend on it.
	Resource string
	// Raw is the unparsed id.
	Raw string
	// UUID is the GPU-<uuid> of a board. MIGUUID is the MIG-<uuid> of a MIG device.
	UUID, MIGUUID string
	// Name is the operating system's name of the board: nvidia0.
	Name string
	// GPUInstance is the NVML GPU instance id of a MIG device.
	GPUInstance string
	// Replica is true if the id is one of several ids of one device.
	Replica bool
}

// IsKnown reports whether the form of the id is known, so that it identifies a device.
func (d *PluginID) IsKnown() bool { return d.UUID != "" || d.MIGUUID != "" || d.Name != "" }

// Refusal is the reason why a row is not about a device of the exporter.
type Refusal uint8

const (
	// Accepted rows are about a device.
	Accepted Refusal = iota
	// NoDevice rows do not name a device.
	NoDevice
	// OtherEntity rows are about a link, a switch or a CPU.
	OtherEntity
	// OtherVendor rows are about a device of another vendor.
	OtherVendor
)

// Capacities are the capacities of a board that follow from its model name; 0 means unknown or none.
type Capacities struct {
	// Memory is the size of the board's memory in bytes, for exporters that do not expose it.
	Memory float64
	// PCIe and NVLink are the capacities of the links in one direction, in bytes per second.
	PCIe, NVLink float64
}

// FoldModel makes model names comparable: exporters may replace blanks with dashes, and vendors use
// different case.
func FoldModel(model string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(model), func(r rune) bool {
		return r == ' ' || r == '-' || r == '_'
	}), " ")
}

// fields contains the fields of all tables by ID. ID 0 is not a field.
var fields = []*Field{nil}

// NumFields is one more than the highest ID.
func NumFields() int { return len(fields) }

// ByID returns the field with the given ID.
func ByID(id ID) *Field { return fields[id] }

// New assigns IDs to the fields of a table and resolves the names in it. It panics if the table is
// inconsistent.
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
		for i := range f.Gives {
			s := &f.Gives[i]
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

// spell adds an exposed name. Several fields may share a name if a label distinguishes them.
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

// Field returns the field with a name, which must be in the table.
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

// Lookup returns the meaning of an exposed metric name. Case is ignored, because some stores
// convert names to lower case. It returns false for names from which no signal is computed.
func (x *Exporter) Lookup(name string) (Spelling, bool) {
	s, ok := x.spellings[name]
	if !ok {
		s, ok = x.folded[strings.ToLower(name)]
	}
	return s, ok
}

// Prefixed returns the meaning of a name after a user's prefix, which ends with an underscore. It
// returns false if no field has the rest of the name.
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

// Takes reports whether a row with one of the exporter's names belongs to the exporter.
func (x *Exporter) Takes(s Spelling, r *Row) bool {
	return (x.Claims == nil || x.Claims(r)) && (!s.Prefixed || x.AnyPrefix(r))
}

// Fields returns the fields in order. They are shared and must not be modified.
func (x *Exporter) Fields() []*Field { return x.fields }

// AllSignals returns the signals of the exporter's fields and labels, in reading order. They are
// shared and must not be modified.
func (x *Exporter) AllSignals() []*Signal { return x.signals }
