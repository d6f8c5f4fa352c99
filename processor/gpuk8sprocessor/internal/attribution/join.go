package attribution

import (
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// Reason is the reason why an allocation matches no device in the telemetry.
type Reason uint8

const (
	// Joined means that the allocation matches a device.
	Joined Reason = iota
	// UnknownID is an ID with an unknown form.
	UnknownID
	// UnknownMIG is a MIG device for which no source provides the GPU instance.
	UnknownMIG
	// UnknownName is a device name that is in no scrape, or that two boards have.
	UnknownName
	// NoSlice is a DRA device that is in no complete pool.
	NoSlice
	// NoUUID is a DRA device without a UUID in its slice.
	NoUUID
	// NotScraped is a device that was identified but is in no scrape.
	NotScraped
	// NumReasons is the number of reasons.
	NumReasons
)

// String returns the value of the self-metric's attribute.
func (r Reason) String() string {
	return [...]string{"", "unknown_id", "unknown_mig_device", "unknown_device_name", "no_slice", "no_uuid", "not_scraped"}[r]
}

// joiner finds the hw.id of a device. It returns none if the match is ambiguous.
type joiner struct {
	// In names, migs, annotated, and labeled, an ambiguous key maps to "".
	names     map[string]string    // nvidia0 → board
	migs      map[string]string    // MIG-<uuid> → instance, from the attributes of points
	annotated map[string]string    // MIG-<uuid> → instance, from schedulers' annotations
	labeled   map[DRADevice]string // DRA device → instance, from the exporter's labels
	slices    map[DRADevice]SliceDevice
	scraped   map[string]gpudata.Description // by hw.id
	// profiles contains the instances of each board and profile in the telemetry. advertised
	// contains the number of instances that drivers advertise.
	profiles   map[profile][]string
	advertised map[profile]int
}

type profile struct {
	board, name string
}

// newJoiner returns a joiner for the devices in the telemetry. labeled maps each DRA device to the
// instance that the labels last identified.
func newJoiner(devices map[string]gpudata.Description, labeled map[DRADevice]string, listed map[DRADevice]SliceDevice, instances []Instance) *joiner {
	j := &joiner{
		names: map[string]string{}, migs: map[string]string{}, annotated: map[string]string{}, labeled: labeled,
		slices: listed, scraped: devices, profiles: map[profile][]string{}, advertised: map[profile]int{},
	}
	for _, i := range instances {
		if i.MIGUUID != "" && i.UUID != "" && i.GPUInstance != "" {
			recordName(j.annotated, i.MIGUUID, exporters.InstanceID(i.UUID, i.GPUInstance))
		}
	}
	for id, d := range devices {
		board := id
		if d.Parent != "" {
			board = d.Parent
			j.profiles[profile{board, d.Profile}] = append(j.profiles[profile{board, d.Profile}], id)
		}
		if d.Name != "" {
			recordName(j.names, d.Name, board)
		}
		if d.MIGUUID != "" {
			recordName(j.migs, d.MIGUUID, id)
		}
	}
	for _, s := range listed {
		if s.Parent != "" && s.Profile != "" {
			j.advertised[profile{s.Parent, s.Profile}]++
		}
	}
	return j
}

// recordName maps a name to a device. If the name already belongs to another device, it marks the
// name as ambiguous.
func recordName[K comparable](m map[K]string, name K, id string) {
	if other, ok := m[name]; ok && other != id {
		id = ""
	}
	m[name] = id
}

// pluginDeviceID returns the hw.id for a device plugin's device ID.
func (j *joiner) pluginDeviceID(d *catalogue.PluginID) (string, Reason) {
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
		return j.migDeviceID(d.MIGUUID)
	case board != "":
		return board, Joined
	}
	if _, scraped := j.scraped[d.Raw]; scraped {
		return d.Raw, Joined
	}
	return "", UnknownID
}

// migDeviceID returns the hw.id of a MIG device with this UUID.
func (j *joiner) migDeviceID(uuid string) (string, Reason) {
	for _, m := range [...]map[string]string{j.migs, j.annotated} {
		if id := m[uuid]; id != "" {
			return id, Joined
		}
	}
	for _, s := range j.slices {
		if s.UUID == uuid {
			if id := j.onlyInstance(s); id != "" {
				return id, Joined
			}
		}
	}
	return "", UnknownMIG
}

// onlyInstance returns the instance with a slice's board and profile, if both telemetry and the
// driver have exactly one. The order of several instances does not identify them.
func (j *joiner) onlyInstance(s SliceDevice) string {
	k := profile{s.Parent, s.Profile}
	if instances := j.profiles[k]; s.Profile != "" && len(instances) == 1 && j.advertised[k] == 1 {
		return instances[0]
	}
	return ""
}

// draDeviceID returns the hw.id of a DRA driver's device.
func (j *joiner) draDeviceID(d DRADevice) (string, Reason) {
	s, listed := j.slices[d]
	switch {
	case exporters.IsBoard(s.UUID):
		return s.UUID, Joined
	case exporters.IsInstance(s.UUID):
		if id, reason := j.migDeviceID(s.UUID); reason == Joined {
			return id, Joined
		}
	default:
		if id := j.onlyInstance(s); id != "" {
			return id, Joined
		}
	}
	// The exporter asked NVML, which is more reliable than an incomplete slice.
	if id := j.labeled[d]; id != "" {
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
