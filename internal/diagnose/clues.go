package diagnose

import (
	"cmp"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
)

// Age is the exporter generation that probably produced the text of the scrape.
type Age uint8

const (
	// UnknownAge means that the text contains no row about a GPU, or that label names were
	// converted to lowercase and pci_bus_id is missing.
	UnknownAge Age = iota
	// Before335 means that the exporter is older than 3.3.7-3.5.0, the release that added
	// pci_bus_id.
	Before335
	// Since335 means that the exporter version is 3.3.7-3.5.0 or later. Labels that would show
	// whether the version is 4.6.0-4.8.3 or later are missing or ambiguous.
	Since335
	// Until482 means that the exporter version is between 3.3.7-3.5.0 and 4.5.3-4.8.2. These
	// exporter versions name the host label "Hostname".
	Until482
	// Since483 means that the exporter version is 4.6.0-4.8.3 or later. These exporter versions
	// name the label "hostname" instead of "Hostname".
	Since483
)

// String returns the range of exporter versions.
func (a Age) String() string {
	return [...]string{"", "before 3.3.7-3.5.0", "3.3.7-3.5.0 or later", "3.3.7-3.5.0 to 4.5.3-4.8.2", "4.6.0-4.8.3 or later"}[a]
}

// branchWithoutInstanceMemory is the driver branch that provides no memory fields for MIG instances
// (dcgm-exporter issues 380, 434, and 512).
const branchWithoutInstanceMemory = "535"

// Clues contains facts about the scrape that can be derived from the labels of its rows: the
// exporter's generation, the driver, and whether pods are mapped. The zero value is empty.
type Clues struct {
	// Driver is the driver version, if the exporter's CSV file turns the driver version into a
	// label.
	Driver string

	uuid, busID, lowerHost, upperHost bool
	lowerModel                        bool // a label is named modelname, by a storage backend or by a pod
	mixed                             bool // a label of the exporter has uppercase letters
	emptyPod                          bool
}

// Label records the facts that a row's label indicates.
func (c *Clues) Label(name, value string) {
	switch name {
	case "DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION", "dcgm_fi_driver_version", "dcgm_fi_system_driver_version":
		if dcgm.IsDriverVersion(value) { // other values are pod labels
			c.Driver = value
		}
	case "UUID":
		c.uuid, c.mixed = true, true
	case "uuid":
		c.uuid = true
	case "pci_bus_id":
		c.busID = true
	case "hostname":
		c.lowerHost = true
	case "Hostname":
		c.upperHost, c.mixed = true, true
	case "modelName":
		c.mixed = true
	case "modelname":
		c.lowerModel = true
	}
	// An empty pod_uid is not a sign that no pod holds the device, because rows that name a pod may
	// also have an empty pod_uid.
	if value == "" && (name == "pod" || name == "pod_name") {
		c.emptyPod = true
	}
}

// Merge adds the clues from another row.
func (c *Clues) Merge(o Clues) {
	if !o.uuid {
		return // rows of links, switches, and CPUs have different label names
	}
	c.Driver = cmp.Or(c.Driver, o.Driver)
	c.uuid = true
	c.busID = c.busID || o.busID
	c.lowerHost = c.lowerHost || o.lowerHost
	c.upperHost = c.upperHost || o.upperHost
	c.lowerModel = c.lowerModel || o.lowerModel
	c.mixed = c.mixed || o.mixed
	c.emptyPod = c.emptyPod || o.emptyPod
}

// lowered reports whether a storage backend converted label names to lowercase, so that "Hostname"
// and "hostname" cannot be distinguished.
func (c *Clues) lowered() bool { return c.lowerModel && !c.mixed }

// Age returns the exporter generation that the labels indicate.
func (c *Clues) Age() Age {
	switch {
	case !c.uuid, c.lowered() && !c.busID:
		return UnknownAge
	case c.lowerHost && !c.upperHost && !c.lowered():
		return Since483
	case c.busID && c.upperHost && !c.lowerHost:
		return Until482
	case c.busID:
		return Since335
	}
	return Before335
}
