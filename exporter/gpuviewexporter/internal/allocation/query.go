package allocation

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// defaultSpan is how far back an answer looks when the query does not say.
const defaultSpan = 10 * time.Minute

// Query is what a client asks for.
type Query struct {
	// Span is how far back the answer looks.
	Span time.Duration
	// Aggregate is one of Aggregates, or label: with the key of a label.
	Aggregate string
}

// ParameterError says which parameter of a query cannot be used.
type ParameterError struct {
	Code      int    `json:"code"`
	Message   string `json:"message"`
	Parameter string `json:"parameter"`
	Value     string `json:"value"`
	Allowed   string `json:"allowed"`
}

func (e *ParameterError) Error() string { return e.Message }

// badParameter says that a parameter has a value that is not allowed.
func badParameter(parameter, value, allowed string) *ParameterError {
	return &ParameterError{
		Code: 400, Message: fmt.Sprintf("%s must be %s, got %q", parameter, allowed, value),
		Parameter: parameter, Value: value, Allowed: allowed,
	}
}

// ParseQuery reads the parameters window and aggregate of a raw query. OpenCost's
// accumulate is let pass: an answer is always one set. Any other one is an error,
// and so is a parameter that cannot be read or is given twice, since an answer
// that ignores a filter would be a wrong one.
func ParseQuery(raw string, retention time.Duration) (Query, *ParameterError) {
	q := Query{Span: min(defaultSpan, retention), Aggregate: byContainer}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, badParameter("query", raw, "name=value pairs with & between them")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values[name][0]
		if len(values[name]) > 1 {
			return q, badParameter(name, strings.Join(values[name], ", "), "given once")
		}
		switch name {
		case "window":
			span, ok := parseSpan(value)
			if !ok || span < time.Second || span > retention {
				return q, badParameter(name, value,
					fmt.Sprintf("a duration in s, m, h or d such as 10m, from 1s to %s, the retention", writeSpan(retention)))
			}
			q.Span = span
		case "aggregate":
			if label, ok := strings.CutPrefix(value, byLabel); !slices.Contains(Aggregates(), value) && (!ok || label == "") {
				return q, badParameter(name, value, "one of "+strings.Join(Aggregates(), ", ")+", or label:<key>")
			}
			q.Aggregate = value
		case "accumulate":
		default:
			return q, badParameter(name, value, "absent: the parameters are window, aggregate and accumulate")
		}
	}
	return q, nil
}

const day = 24 * time.Hour

// parseSpan reads a duration, also in days as OpenCost writes it: 7d.
func parseSpan(text string) (time.Duration, bool) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * day, err == nil
	}
	span, err := time.ParseDuration(text)
	return span, err == nil
}

// writeSpan writes whole days as days, and no zero minutes and seconds.
func writeSpan(span time.Duration) string {
	if span%day == 0 {
		return strconv.Itoa(int(span/day)) + "d"
	}
	text := span.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if short, ok := strings.CutSuffix(text, zero); ok {
			text = short + zero[:1]
		}
	}
	return text
}
