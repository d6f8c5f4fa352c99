package attribution

import (
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// Reason is the reason why an allocated device matches no device in the telemetry.
type Reason uint8

const (
	// Joined means that the allocation matches a device.
	Joined Reason = iota
	// UnknownID means that the device ID has an unknown format.
	UnknownID
	// UnreadableAnnotation means that a scheduler's annotation cannot be read, or that the device in
	// the annotation has an ID in an unknown format.
	UnreadableAnnotation
	// UnknownMIG means that no source identifies the GPU instance of the MIG device.
	UnknownMIG
	// UnknownName means that the device name appears in no scrape, or that several boards have that
	// name.
	UnknownName
	// NoSlice means that the DRA device is not in any complete pool.
	NoSlice
	// NoUUID means that the slice of the DRA device contains no UUID that identifies the device.
	NoUUID
	// NotScraped means that the device was identified but does not appear in any scrape.
	NotScraped
	// NumReasons is the number of reasons.
	NumReasons
)

// String returns the reason as an attribute value of the self-metric.
func (r Reason) String() string {
	return [...]string{"", "unknown_id", "unreadable_annotation", "unknown_mig_device", "unknown_device_name", "no_slice", "no_uuid", "not_scraped"}[r]
}

// joiner finds the hw.id of an allocated device. If several devices match, joiner returns no hw.id.
type joiner struct {
	// In the following four maps, the value of an ambiguous key is "".
	names     map[string]string    // names contains the board for each name, such as nvidia0.
	migs      map[string]string    // migs contains the instance for each MIG-<uuid>, according to the attributes of points.
	annotated map[string]string    // annotated contains the instance for each MIG-<uuid>, according to schedulers' annotations.
	labeled   map[DRADevice]string // labeled contains the instance for each DRA device, according to the exporter's labels.
	slices    map[DRADevice]SliceDevice
	scraped   map[string]gpudata.Description // scraped contains the devices in the telemetry, by hw.id.
	// profiles contains the instances in the telemetry, grouped by board and profile. The
	// advertised map contains the number of instances that drivers advertise for each board and
	// profile.
	profiles   map[profile][]string
	advertised map[profile]int
}

type profile struct {
	board, name string
}

// newJoiner returns a joiner for the devices in the telemetry. The labeled map contains, for each
// DRA device, the instance that the exporter's labels identified most recently.
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

// recordName sets the device ID of a name in the map m. If m already contains a different ID for
// the name, recordName marks the name as ambiguous.
func recordName[K comparable](m map[K]string, name K, id string) {
	if other, ok := m[name]; ok && other != id {
		id = ""
	}
	m[name] = id
}

// pluginDeviceID returns the hw.id of the device that a device plugin's device ID refers to.
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

// migDeviceID returns the hw.id of the MIG device with the given UUID.
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

// onlyInstance returns the instance that has the board and profile of s, if both the telemetry and
// the driver's slices contain exactly one instance with that board and profile. If several
// instances have the same board and profile, nothing shows which of the instances is s.
func (j *joiner) onlyInstance(s SliceDevice) string {
	k := profile{s.Parent, s.Profile}
	if instances := j.profiles[k]; s.Profile != "" && len(instances) == 1 && j.advertised[k] == 1 {
		return instances[0]
	}
	return ""
}

// draDeviceID returns the hw.id of a DRA device.
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
	// The exporter's labels come from NVML, which is more reliable than an incomplete slice.
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
