package dcgm

// XIDClass groups XID codes by what an operator does about them.
type XIDClass uint8

const (
	// XIDUnknown codes are not in the table.
	XIDUnknown XIDClass = iota
	// XIDApplication errors are caused by the program that used the GPU.
	XIDApplication
	// XIDFatal errors mean that the board needs a reset or a replacement.
	XIDFatal
	// XIDMemory errors were corrected or contained; the board degrades.
	XIDMemory
	// XIDMicrocontroller errors come from the GPU's own controllers.
	XIDMicrocontroller
	// XIDLink errors come from PCIe, NVLink, C2C or the fabric.
	XIDLink
	// XIDPower errors come from power delivery and clocks.
	XIDPower
	// XIDNotice codes report a change of state.
	XIDNotice
)

// String names the class.
func (c XIDClass) String() string {
	return [...]string{
		"unknown", "application", "fatal", "memory", "microcontroller", "link", "power", "notice",
	}[c]
}

// xidClasses follows the ignore list of NVIDIA's device plugin (application),
// DCGM's health checks (fatal, memory) and NVIDIA's XID catalogue. Texts change
// between drivers, numbers do not.
var xidClasses = func() map[int]XIDClass {
	m := map[int]XIDClass{}
	for class, codes := range map[XIDClass][]int{
		XIDApplication:     {13, 31, 43, 45, 68, 109},
		XIDFatal:           {48, 64, 74, 79, 95, 119, 120, 140, 158},
		XIDMemory:          {63, 92, 94, 171, 172},
		XIDMicrocontroller: {60, 61, 62, 143},
		XIDLink:            {38, 39, 42, 67, 73, 121, 137, 144, 145, 146, 147, 148, 149, 150, 155},
		XIDPower:           {54, 56, 57, 58, 78, 162, 163},
		XIDNotice:          {93, 154, 156, 157, 160, 161},
	} {
		for _, code := range codes {
			m[code] = class
		}
	}
	return m
}()

// ClassifyXID returns the class of an XID code.
func ClassifyXID(code int) XIDClass { return xidClasses[code] }

// MaxXID bounds XID codes; NVIDIA's catalogue has stayed far below it. Larger
// numbers are not codes.
const MaxXID = 999
