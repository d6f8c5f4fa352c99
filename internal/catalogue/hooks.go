package catalogue

// Hooks are functions that only one or two exporters need. An exporter's package implements them;
// nil means the usual behavior.
type Hooks struct {
	// Spellings returns the spellings of a name in the table, including the name itself.
	Spellings func(name string) []string
	// AnyPrefix reports whether the labels alone prove that a claimed row belongs to the exporter,
	// so that names with any prefix that ends at an underscore are accepted.
	AnyPrefix func(*Row) bool
	// BlankValue reports values that mean "no value" in every unit, in addition to those of the
	// units.
	BlankValue func(float64) bool
	// Resolve corrects the devices and holders of one scrape's rows on one host. It is set if the
	// labels of a single row do not determine them, so that Identify is provisional.
	Resolve func([]*Reading)
	// InstanceID returns the hw.id of an instance of a board. The usual hw.id is Identity.Instance.
	InstanceID func(board, instance string) string
	// MeasuresBoard reports whether the row of the instance with this number measures the board.
	// Usually the rows of all instances do.
	MeasuresBoard func(number int) bool
	// JobsOfBoard reports whether the jobs that the rows of a board's instances name are about the
	// board, so that it is unknown which job uses which instance. The jobs of each instance are
	// sorted.
	JobsOfBoard func(instances [][]string) bool
	// EqualParts returns the number of instances of a board. It is set if all instances of a board
	// have the same size, regardless of their profile, and together make up the board. reported is
	// the number that an instance's row shows (Identity.Of), or "". seen is the largest number of
	// instances seen so far.
	EqualParts func(reported string, seen int) int
	// Capacities returns the known capacities of a board by its model name.
	Capacities func(model string) Capacities
	// Contradictions returns a function that drops values of a device which other values of the
	// scrape contradict. It is called once, with the complete table.
	Contradictions func(*Exporter) func(Values)
	// Fatal reports codes of events after which a board does not work until it is reset.
	Fatal func(code int) bool
}
