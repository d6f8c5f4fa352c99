package exposition

// Reason is the reason why a line was skipped.
type Reason uint8

const (
	// ReasonSyntax means that the line matches neither the strict nor the tolerant grammar.
	ReasonSyntax Reason = iota
	// ReasonValue means that the series is valid but the value is not a number.
	ReasonValue
	// ReasonDuplicateSeries means that an earlier line of the body has the same series.
	ReasonDuplicateSeries
	// ReasonLineTooLong means that the line is longer than MaxLine.
	ReasonLineTooLong
	// ReasonTooManyLabels means that the series has more than MaxLabels labels.
	ReasonTooManyLabels
	// ReasonLabelTooLong means that a name is longer than MaxName, or that a label value is longer
	// than MaxLabelValue.
	ReasonLabelTooLong
	// ReasonTimestamp means that the sample's timestamp is outside the honored limits.
	ReasonTimestamp

	// NumReasons is the number of reasons.
	NumReasons
)

var reasonNames = [NumReasons]string{
	"syntax", "value", "duplicate_series", "line_too_long", "too_many_labels", "label_too_long", "timestamp",
}

func (r Reason) String() string { return reasonNames[r] }

// Label is one exposed label. The value is decoded and valid UTF-8.
type Label struct {
	Name, Value string
}

// Metric is a metric name with its type in the body.
type Metric struct {
	// Name is the exposed name.
	Name string
	// Counter is true if the name has at least one TYPE line and all of its TYPE lines declare a
	// counter.
	Counter bool

	typed uint32 // generation of the last TYPE line for the name
	mark  uint32 // generation of the last sweep that found the metric in use
}

// Sample is the value of one metric.
type Sample struct {
	Metric *Metric
	Value  float64
}

// LabelSet is a distinct set of labels with its samples.
type LabelSet struct {
	// Labels are in the order in which the set was first exposed. They never change, so callers may
	// keep them.
	Labels []Label
	// Samples are the samples of the current body, in order.
	Samples []Sample
	// Times are the timestamps in the samples' lines, in nanoseconds since the epoch, or 0 for a
	// sample without a timestamp. If Times is shorter than Samples, the remaining samples have no
	// timestamps. See Parser.HonorTimestamps.
	Times []int64

	tail string // the braces and everything between them, as first exposed
	seen uint32 // generation of the last body that contained the set
	mark uint32 // generation of the last sweep that found the set in use
}

// Scrape is the content of one body. It belongs to the parser and is valid until the next call to
// Parse or Read.
type Scrape struct {
	// Sets are the label sets in the order of their first sample.
	Sets []*LabelSet
	// Samples is the total number of samples.
	Samples int
	// Skipped contains the number of skipped lines by reason. Comments and empty lines do not
	// count.
	Skipped [NumReasons]int
	// TooLarge is true if the body exceeds MaxItems. The parser then drops the entire body and
	// clears the cache.
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
