package exposition

// Reason is why a line was skipped.
type Reason uint8

const (
	// ReasonSyntax means that the line matches neither the strict nor the tolerant grammar.
	ReasonSyntax Reason = iota
	// ReasonValue means that the series is valid but the value or the timestamp is not a number, or
	// that other text follows them.
	ReasonValue
	// ReasonDuplicateSeries means that an earlier line of the body contains the same series.
	ReasonDuplicateSeries
	// ReasonLineTooLong means that the line is longer than MaxLine.
	ReasonLineTooLong
	// ReasonTooManyLabels means that the series has more than MaxLabels labels.
	ReasonTooManyLabels
	// ReasonLabelTooLong means that a name is longer than MaxName, or that a label value is longer
	// than MaxLabelValue.
	ReasonLabelTooLong
	// ReasonTimestamp means that the sample's timestamp is outside the allowed range.
	ReasonTimestamp

	// NumReasons is the number of reasons.
	NumReasons
)

var reasonNames = [NumReasons]string{
	"syntax", "value", "duplicate_series", "line_too_long", "too_many_labels", "label_too_long", "timestamp",
}

func (r Reason) String() string { return reasonNames[r] }

// Label is one label of a sample. The value is decoded and valid UTF-8.
type Label struct {
	Name, Value string
}

// Metric is a metric's name, together with its type in the current body.
type Metric struct {
	// Name is the exposed name.
	Name string
	// Counter is true if the name has at least one TYPE line and all of its TYPE lines declare a
	// counter.
	Counter bool

	typed uint32 // Generation of the last body with a TYPE line for the name.
	mark  uint32 // Generation of the last sweep that found the metric in use.
}

// Sample is the value of one metric.
type Sample struct {
	Metric *Metric
	Value  float64
}

// LabelSet is a distinct set of labels, together with the samples that have these labels.
type LabelSet struct {
	// Labels contains the labels in the order in which they appeared when the set was first
	// exposed. The slice never changes, so callers may keep it.
	Labels []Label
	// Samples contains the samples from the current body, in the order of their lines.
	Samples []Sample
	// Times contains the timestamp of each sample, in nanoseconds since the epoch, or 0 for a
	// sample without a timestamp. If Times is shorter than Samples, the remaining samples have no
	// timestamps. See Parser.HonorTimestamps.
	Times []int64

	tail string // The text from the end of the metric name through the closing brace when the set was first exposed.
	seen uint32 // Generation of the last body that contained the set.
	mark uint32 // Generation of the last sweep that found the set in use.
}

// Scrape contains the samples from one body. The parser reuses the Scrape, so it is valid only
// until the next call to Parse or Read.
type Scrape struct {
	// Sets contains the label sets, in the order of their first samples.
	Sets []*LabelSet
	// Samples is the total number of samples.
	Samples int
	// Skipped contains the number of skipped lines by reason. Comments and blank lines do not count
	// unless they are longer than MaxLine.
	Skipped [NumReasons]int
	// TooLarge is true if the body exceeds MaxItems. If a body is too large, the parser drops the
	// entire body and clears its cache.
	TooLarge bool

	items int
}

// BadLines returns the total number of skipped lines.
func (s *Scrape) BadLines() int {
	n := 0
	for _, c := range s.Skipped {
		n += c
	}
	return n
}
