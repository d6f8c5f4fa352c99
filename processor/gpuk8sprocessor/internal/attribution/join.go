package attribution

import (
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// Reason is why an allocation cannot be joined with a device of the telemetry.
type Reason uint8

const (
	// Joined means that there is no reason.
	Joined Reason = iota
	// UnknownID is an id in no known spelling.
	UnknownID
	// UnknownMIG is a MIG device whose GPU instance no source names.
	UnknownMIG
	// UnknownName is a device name that no scrape showed, or two boards at once.
	UnknownName
	// NoSlice is a DRA device that no complete pool lists.
	NoSlice
	// NoUUID is a DRA device that its driver does not identify.
	NoUUID
	// NotScraped is a device that is well known and that no scrape shows.
	NotScraped
	// NumReasons is one more than the highest reason.
	NumReasons
)

// String returns the reason as the self-metric spells it.
func (r Reason) String() string {
	return [...]string{"", "unknown_id", "unknown_mig_device", "unknown_device_name", "no_slice", "no_uuid", "not_scraped"}[r]
}

// joiner finds the hw.id of a device in every way that does not guess.
type joiner struct {
	// The entry of an ambiguous name is empty.
	names    map[string]string    // nvidia0 → board
	migs     map[string]string    // MIG-<uuid> → instance, as points say
	written  map[string]string    // MIG-<uuid> → instance, as schedulers wrote it down
	labelled map[DRADevice]string // DRA device → instance, as the exporter's labels say
	slices   map[DRADevice]SliceDevice
	shown    map[string]gpudata.Description // by hw.id
	// profiles holds the instances that telemetry shows of a board and profile,
	// advertised counts those that drivers advertise.
	profiles   map[profile][]string
	advertised map[profile]int
}

type profile struct {
	board, name string
}

// newJoiner returns the joiner of the devices that telemetry shows. labelled is on which instance it last
// showed each DRA device.
func newJoiner(devices map[string]gpudata.Description, labelled map[DRADevice]string, listed map[DRADevice]SliceDevice, instances []Instance) *joiner {
	j := &joiner{
		names: map[string]string{}, migs: map[string]string{}, written: map[string]string{}, labelled: labelled,
		slices: listed, shown: devices, profiles: map[profile][]string{}, advertised: map[profile]int{},
	}
	for _, i := range instances {
		if i.MIGUUID != "" && i.UUID != "" && i.GPUInstance != "" {
			note(j.written, i.MIGUUID, exporters.InstanceID(i.UUID, i.GPUInstance))
		}
	}
	for id, d := range devices {
		board := id
		if d.Parent != "" {
			board = d.Parent
			j.profiles[profile{board, d.Profile}] = append(j.profiles[profile{board, d.Profile}], id)
		}
		if d.Name != "" {
			note(j.names, d.Name, board)
		}
		if d.MIGUUID != "" {
			note(j.migs, d.MIGUUID, id)
		}
	}
	for _, s := range listed {
		if s.Parent != "" && s.Profile != "" {
			j.advertised[profile{s.Parent, s.Profile}]++
		}
	}
	return j
}

// note records which device a name means, or that the name is ambiguous.
func note[K comparable](m map[K]string, name K, id string) {
	if other, ok := m[name]; ok && other != id {
		id = ""
	}
	m[name] = id
}

// ref joins a device plugin's id.
func (j *joiner) ref(d *catalogue.PluginID) (string, Reason) {
	board := d.UUID
	if board == "" && d.Name != "" {
		board = j.names[d.Name]
		if board == "" {
			return "", UnknownName
		}
	}
	switch {
	case board != "" && d.GPUInstance != "":
		return exporters.InstanceID(board, d.GPUInstance), Joined
	case d.MIGUUID != "":
		return j.mig(d.MIGUUID)
	case board != "":
		return board, Joined
	}
	if _, shown := j.shown[d.Raw]; shown {
		return d.Raw, Joined
	}
	return "", UnknownID
}

// mig joins a MIG device by its UUID.
func (j *joiner) mig(uuid string) (string, Reason) {
	for _, m := range [...]map[string]string{j.migs, j.written} {
		if id := m[uuid]; id != "" {
			return id, Joined
		}
	}
	for _, s := range j.slices {
		if s.UUID == uuid {
			if id := j.only(s); id != "" {
				return id, Joined
			}
		}
	}
	return "", UnknownMIG
}

// only returns the instance of a slice's board and profile when there is one
// alone, by telemetry and by the driver. The order of several is no evidence.
func (j *joiner) only(s SliceDevice) string {
	k := profile{s.Parent, s.Profile}
	if seen := j.profiles[k]; s.Profile != "" && len(seen) == 1 && j.advertised[k] == 1 {
		return seen[0]
	}
	return ""
}

// dra joins a device of a DRA driver.
func (j *joiner) dra(d DRADevice) (string, Reason) {
	s, listed := j.slices[d]
	switch {
	case exporters.IsBoard(s.UUID):
		return s.UUID, Joined
	case exporters.IsInstance(s.UUID):
		if id, reason := j.mig(s.UUID); reason == Joined {
			return id, Joined
		}
	default:
		if id := j.only(s); id != "" {
			return id, Joined
		}
	}
	// The exporter asked NVML, which knows better than half a slice.
	if id := j.labelled[d]; id != "" {
		return id, Joined
	}
	switch {
	case !listed:
		return "", NoSlice
	case s.UUID != "" && s.Parent != "":
		return "", UnknownMIG
	}
	return "", NoUUID
}
