package catalogue

import (
	"fmt"
	"slices"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Exporter is the table of one exporter.
type Exporter struct {
	// Name is what people call the exporter, Vendor is hw.vendor.
	Name, Vendor string
	// Experimental says to a person what the table was not tried on; empty where it holds.
	Experimental string
	// TurnOn says to a person what turns on fields that the exporter does not show, where
	// no list of counters does.
	TurnOn string
	// Groups are the fields in the order in which signals are best read.
	Groups []Group
	// Signals are those that stand at no field, after the others.
	Signals []Signal
	// Gaps say to a person why the exporter does not give metrics that others give.
	Gaps map[*signal.Metric]string

	// Prefix may precede each name, where users can configure one.
	Prefix string
	// Claims reports whether a row with a name of the exporter's is the exporter's by its
	// labels too. Without it the names alone tell.
	Claims func(*Row) bool
	// Certain reports whether the labels of a row that Claims takes alone are the exporter's, so
	// that any other prefix may precede a field's name. Without it none may.
	Certain func(*Row) bool
	// Labels are the names of the labels that have a meaning, the exporter's own before other
	// spellings. Their case does not matter where all of a row's labels were lowered. BlankText
	// reports further texts that mean "no value", in addition to NoText. It may be nil.
	Labels    map[Role][]string
	BlankText func(Role, string) bool
	// BlankValue reports values that stand for "no value" in every unit, beside those of
	// the units. It may be nil.
	BlankValue func(float64) bool
	// OwnsName reports names that are the exporter's though no field has them. Without it none are.
	OwnsName func(name string) bool
	// Identify returns which device a row is about, or why it is about none of this
	// exporter's.
	Identify func(*Row) (Identity, Refusal)
	// InstanceID returns the hw.id of an instance of a board. Without it the instance is its own.
	InstanceID func(board, instance string) string
	// CalledExporter reports whether a container is called as the exporter is.
	CalledExporter func(Holder) bool
	// RepeatsJobs is true if the exporter labels every instance of a board with the job that holds
	// the board.
	RepeatsJobs bool
	// EqualParts says that all instances of a board are of one size, whatever their profile.
	EqualParts bool
	// FirstMeasures says that of the rows of instances, those of number 0 alone measure the board.
	FirstMeasures bool
	// OfContainers is true if the rows describe containers on devices that other exporters expose.
	// Such an exporter is not a second source of a device: its rows are matched to the device that
	// another exporter exposes by their id, else by their id with NVIDIA's prefix. Its rows without
	// a holder measure a device that no other exporter exposes. Rows of one field and container
	// that differ only in the label of RolePart are added up.
	OfContainers bool
	// Model returns what is known of a board by its model name. Without it nothing is.
	Model func(name string) Model

	// Vitals are names of fields that are never 0 on a board which the driver reads. While all of
	// them are exposed and all are 0, nothing of the board and its instances is an observation.
	Vitals []string
	// ZeroTogether are sets of field names. If all fields of a set are 0, their zeros are not
	// observations.
	ZeroTogether [][]string
	// Profiler is set where the exporter's profiler is known to stop.
	Profiler Profiler
	// Fatal reports codes of events after which a board fails until it is reset.
	Fatal func(code int) bool

	// New sets these. Healths are the fields of the board's health, Energy the one that counts
	// its energy. Code is the field with the last code of an event, 0 where there is none.
	Code    ID
	Energy  ID
	Healths []*Field
	// Rates are the counters whose rate is a signal.
	Rates []ID
	// First is the ID of the first field; the others follow.
	First ID
	// Renumbers says that some fields are Renumbered.
	Renumbers bool
	// VitalIDs are Vitals by number.
	VitalIDs []ID
	// Board are the fields that measure a board.
	Board []*Field

	fields    []*Field
	signals   []*Signal
	spellings map[string]Spelling
	folded    map[string]Spelling // by the name in lower case
	labels    labelNames

	zeroTogether [][]ID
	profiling    []ID
	links        []*Signal // shares of what a link can carry
}

// Group are fields under one title.
type Group struct {
	Title  string
	Fields []Field
}

// Identity is the device that a row is about.
type Identity struct {
	// Board is the hw.id of the board, Instance what InstanceID makes the hw.id of the
	// board's instance of, if it is one's.
	Board, Instance string
	// Number is the number of the instance on its board, or of the device in its Group.
	Number int
	// Of is how many instances the board is cut into, of exporters that tell it; 0 is unknown or
	// none.
	Of int
	// Index numbers the exporter's devices on its host, of exporters whose identities may be
	// those of several: rows of one identity that differ by it are of several devices. Apart
	// identifies the device of such a row, nil where nothing tells it.
	Index string
	Apart *Identity
	// Group is a text that devices have in common that are numbered together, of exporters
	// that number them in two ways.
	Group string
	// Model is the board's model name and Part what RolePart tells, where the labels of these
	// roles do not tell it.
	Model, Part string
}

// PluginID is what the id says by which a device plugin gave a device to a container. Empty is
// unknown.
type PluginID struct {
	// Resource is the extended resource that the plugin serves, such as nvidia.com/gpu. The id does
	// not depend on it.
	Resource string
	// Raw is the id as it was spelled.
	Raw string
	// UUID is the board's GPU-<uuid>, MIGUUID the MIG-<uuid>.
	UUID, MIGUUID string
	// Name is the operating system's name of the board: nvidia0.
	Name string
	// GPUInstance is the NVML GPU instance id of a MIG device.
	GPUInstance string
	// Replica says that the id is one of several for one device.
	Replica bool
}

// Understood reports whether the form of the id is known, so that it names a device.
func (d *PluginID) Understood() bool { return d.UUID != "" || d.MIGUUID != "" || d.Name != "" }

// Refusal says why a row is about no device of the exporter.
type Refusal uint8

const (
	// Accepted rows are about a device.
	Accepted Refusal = iota
	// NoDevice rows name none.
	NoDevice
	// OtherEntity rows are about a link, a switch or a CPU.
	OtherEntity
	// OtherVendor rows are about a device that another vendor made.
	OtherVendor
)

// Model is what is known of a board by its name. The zero value knows nothing.
type Model struct {
	// Memory is the size of the board's memory in bytes, of exporters that do not tell it; 0 is
	// unknown.
	Memory float64
	// PCIe and NVLink are the capacities of the links in one direction, in bytes per second; 0
	// is unknown or none.
	PCIe, NVLink float64
	// NVLinkGeneration is 4 of Hopper and 5 of Blackwell, which count errors in fields of
	// their own; 0 is older or unknown.
	NVLinkGeneration int
	// Virtual is the guest of a virtual GPU. It shares its board's links and has
	// none of its own.
	Virtual bool
	// WithoutNVLink are boards that cannot have NVLink, not by a bridge either. With
	// NVLinkByBridge they have it where a bridge connects them to another board.
	WithoutNVLink, NVLinkByBridge bool
	// WithoutProfiling are boards that DCGM does not profile.
	WithoutProfiling bool
}

// FoldModel makes model names comparable: exporters may replace blanks by
// dashes, and vendors vary the case.
func FoldModel(model string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(model), func(r rune) bool {
		return r == ' ' || r == '-' || r == '_'
	}), " ")
}

// fields are those of all tables by ID; the first is none.
var fields = []*Field{nil}

// NumFields is one more than the highest ID.
func NumFields() int { return len(fields) }

// ByID returns a field by its number.
func ByID(id ID) *Field { return fields[id] }

// New numbers the fields of a table and resolves the names in it. A table that contradicts
// itself panics.
func New(x Exporter) *Exporter {
	if x.OwnsName == nil {
		x.OwnsName = func(string) bool { return false }
	}
	if x.InstanceID == nil {
		x.InstanceID = func(_, instance string) string { return instance }
	}
	if x.Model == nil {
		x.Model = func(string) Model { return Model{} }
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
	for _, names := range x.ZeroTogether {
		x.zeroTogether = append(x.zeroTogether, x.ids(names))
	}
	if p := &x.Profiler; p.Activity != "" {
		p.activity, p.utilization = x.Field(p.Activity).ID, x.Field(p.Utilization).ID
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
	if f.Profiling {
		x.profiling = append(x.profiling, f.ID)
	}
	x.fields = append(x.fields, f)
	x.Renumbers = x.Renumbers || f.Renumbered
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

// spell notes an exposed name. Several fields may share one when a label tells them apart.
func (x *Exporter) spell(name string, s Spelling) {
	f := s.Field
	before, twice := x.spellings[name]
	switch {
	case twice && (before.Cut == nil || f.Cut == nil):
		panic("catalogue: two fields are called " + name)
	case twice && (before.Unit != s.Unit || before.Alias != s.Alias || before.BaseUnits != s.BaseUnits):
		panic("catalogue: the fields called " + name + " differ in more than a label")
	case twice:
		s = before
	case f.Cut != nil:
		s.Cut = map[string]*Field{}
	}
	for _, value := range f.Cut {
		if s.Cut[value] != nil {
			panic("catalogue: two fields are called " + name + " with the value " + value)
		}
		s.Cut[value] = f
	}
	for _, prefix := range slices.Compact([]string{"", x.Prefix}) {
		x.spellings[prefix+name] = s
		lower := strings.ToLower(prefix + name)
		if before, twice := x.folded[lower]; twice && before.Field != s.Field && s.Cut == nil {
			panic("catalogue: two fields are called " + lower)
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

// Field returns the field of a name that must be in the table.
func (x *Exporter) Field(name string) *Field {
	if s, ok := x.spellings[name]; ok && s.Cut == nil {
		return s.Field
	}
	for _, f := range x.fields {
		if f.Name == name {
			return f
		}
	}
	panic(fmt.Sprintf("catalogue: %q is no field", name))
}

// Lookup returns the meaning of an exposed metric name. Case is ignored, because some stores
// convert names to lower case. It returns false for names that no signal is derived from.
func (x *Exporter) Lookup(name string) (Spelling, bool) {
	s, ok := x.spellings[name]
	if !ok {
		s, ok = x.folded[strings.ToLower(name)]
	}
	return s, ok
}

// Prefixed returns what a name means whose part before some underscore is a prefix that users
// chose. It reports false for names of no field.
func (x *Exporter) Prefixed(name string) (Spelling, bool) {
	for x.Certain != nil {
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

// Takes reports whether a row with a name of the exporter's is the exporter's.
func (x *Exporter) Takes(s Spelling, r *Row) bool {
	return (x.Claims == nil || x.Claims(r)) && (!s.Prefixed || x.Certain(r))
}

// Fields returns the fields in their order. They are shared and must not be changed.
func (x *Exporter) Fields() []*Field { return x.fields }

// AllSignals returns what the exporter's fields and labels make, in the order in which it
// is best read. The signals are shared and must not be changed.
func (x *Exporter) AllSignals() []*Signal { return x.signals }
