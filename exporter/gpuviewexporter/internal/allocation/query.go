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

// defaultSpan is the time span of a query without a window parameter.
const defaultSpan = 10 * time.Minute

// Query contains the parsed parameters of a request.
type Query struct {
	// Span is the length of the time span in which windows are combined.
	Span time.Duration
	// Aggregate is one of the values of [Aggregates], or "label:" followed by the key of a pod
	// label.
	Aggregate string
}

// ParameterError reports an invalid parameter of a query.
type ParameterError struct {
	Code      int    `json:"code"`
	Message   string `json:"message"`
	Parameter string `json:"parameter"`
	Value     string `json:"value"`
	Allowed   string `json:"allowed"`
}

func (e *ParameterError) Error() string { return e.Message }

// badParameter returns an error for a parameter whose value is invalid.
func badParameter(parameter, value, allowed string) *ParameterError {
	parameter, value = shorten(parameter), shorten(value)
	return &ParameterError{
		Code: 400, Message: fmt.Sprintf("%s must be %s, got %q", parameter, allowed, value),
		Parameter: parameter, Value: value, Allowed: allowed,
	}
}

// shorten truncates long text from a request, so that an error message stays readable and is not
// larger than the request.
func shorten(text string) string {
	const longest = 100
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest], "") + "…"
}

// ParseQuery parses the window and aggregate parameters of a raw query. OpenCost's accumulate
// parameter is accepted and ignored, because a response always contains a single set of
// allocations. If a parameter is unknown, malformed or repeated, ParseQuery returns an error. If an
// unknown filter were ignored, the response would contain wrong numbers.
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

// parseSpan parses a duration. Days can be specified in OpenCost's notation, such as 7d.
func parseSpan(text string) (time.Duration, bool) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * day, err == nil
	}
	span, err := time.ParseDuration(text)
	return span, err == nil
}

// writeSpan formats a duration. Multiples of a day are formatted as days. Zero minutes and zero
// seconds are omitted.
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
