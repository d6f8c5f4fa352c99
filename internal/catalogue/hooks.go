package catalogue

// Hooks are functions that only one or two exporters need. The package of each exporter implements
// the functions that the exporter needs. If a function is nil, the default behavior applies.
type Hooks struct {
	// Spellings returns all spellings of a name in the table, including the name itself.
	Spellings func(name string) []string
	// AnyPrefix reports whether the labels alone prove that a row belongs to the exporter. If
	// AnyPrefix returns true, the metric name may have any prefix that ends with an underscore.
	AnyPrefix func(*Row) bool
	// BlankValue reports whether a value means "no value" in every unit. A unit may have additional
	// values that mean "no value".
	BlankValue func(float64) bool
	// Resolve corrects the devices and holders in the rows of one scrape and host. Resolve is set
	// if the labels of a single row are not sufficient to identify the device. If Resolve is set,
	// the result of Identify is provisional.
	Resolve func([]*Reading)
	// InstanceID returns the hw.id of a board's instance. If InstanceID is nil, the hw.id is
	// Identity.Instance.
	InstanceID func(board, instance string) string
	// MeasuresBoard reports whether the row of the instance with the given number measures the
	// board. If MeasuresBoard is nil, the rows of all instances measure the board.
	MeasuresBoard func(number int) bool
	// JobsOfBoard reports whether the jobs in the rows of a board's instances are jobs of the
	// entire board. If the jobs are those of the entire board, it is unknown which job uses which
	// instance. The jobs of each instance are passed in sorted order.
	JobsOfBoard func(instances [][]string) bool
	// EqualParts returns the number of instances of a board. EqualParts is set if all instances of
	// a board have the same size, regardless of their profile, and together make up the board. The
	// reported argument is the number that an instance's row contains (Identity.Of), or "" if the
	// row does not contain the number. The seen argument is the largest number of instances seen so
	// far.
	EqualParts func(reported string, seen int) int
	// Capacities returns the known capacities of a board model.
	Capacities func(model string) Capacities
	// Contradictions returns a function that drops values of a device that conflict with other
	// values in the same scrape. Contradictions is called once, with the complete table.
	Contradictions func(*Exporter) func(Values)
	// Fatal reports whether an event with the given code makes a board unusable until the board is
	// reset.
	Fatal func(code int) bool
}
