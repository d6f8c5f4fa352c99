package dcgmsim

// Style is a generation of dcgm-exporter. The style determines the text layout, the default
// counters, and the labels.
type Style string

// Each of the following styles reproduces the output of one exporter generation.
const (
	// Style2 is exporter 2.0 with DCGM 1.7/2.0: all HELP and TYPE lines first, followed by the
	// samples of each GPU; spaces after commas; no model, host, or MIG labels; and sentinels
	// printed as 9223372036854775794.
	Style2 Style = "2.x"
	// Style3 is exporter 3.1: the Hostname label, empty pod labels on devices that no pod holds,
	// CLOCK_THROTTLE_REASONS, and violations described as "(in us)".
	Style3 Style = "3.x"
	// Style45 is exporter 4.5.3-4.8.2, the last version before the new renderer: families in the
	// order of their field IDs, floats formatted with %f, labels without escaping, and HELP and
	// TYPE repeated before NVLink samples.
	Style45 Style = "4.5"
	// Style483 is exporter 4.6.0-4.8.3: families sorted by name, samples sorted by labels, the
	// hostname label, escaped labels, floats formatted with %g, a Content-Type header, and
	// DCGM_EXP_*_TOTAL.
	Style483 Style = "4.8.3"
	// Style49 is exporter 4.7.0-4.9.0: like 4.8.3, but with the new field names and base units of
	// DCGM 4.7.
	Style49 Style = "4.9"
)

// Styles returns all styles, oldest first.
func Styles() []Style {
	return []Style{Style2, Style3, Style45, Style483, Style49}
}

// generation is a set of styles. A style's bit is its position in Styles.
type generation uint8

const (
	gen2 generation = 1 << iota
	gen3
	gen45
	gen483
	gen49

	since3   = gen3 | since45
	since45  = gen45 | since483
	since483 = gen483 | gen49
	until3   = gen2 | gen3
	always   = gen2 | since3
)

func (s Style) generation() generation {
	switch s {
	case Style2:
		return gen2
	case Style3:
		return gen3
	case Style45:
		return gen45
	case Style483:
		return gen483
	default:
		return gen49
	}
}

// The in method reports whether the style belongs to the set.
func (s Style) in(set generation) bool {
	return s.generation()&set != 0
}

// hardware returns a board that was typical when exporters of the style were current.
func (s Style) hardware() *hardware {
	switch s {
	case Style2:
		return &v100
	case Style3:
		return &a100
	default:
		return &h100
	}
}

// hostLabel returns the name of the label that contains the host.
func (s Style) hostLabel() string {
	if s.in(since483) {
		return "hostname"
	}
	return "Hostname"
}

// driverLabel returns the name of the label that contains the driver version, as listed in the
// counters CSV file.
func (s Style) driverLabel() string {
	if s == Style49 {
		return "DCGM_FI_SYSTEM_DRIVER_VERSION"
	}
	return "DCGM_FI_DRIVER_VERSION"
}
