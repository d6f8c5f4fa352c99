// Package exposition parses the Prometheus text format as all versions of dcgm-exporter write it.
// It is fast, because the same series occur in every scrape. It parses line by line, so that a bad
// line does not affect the others.
//
// # What is tolerated
//
//   - HELP and TYPE lines that are repeated, missing, without samples, or before or after their
//     samples.
//   - Blanks around names, braces, commas, equal signs and values; trailing commas; an empty pair of
//     braces; CRLF; no newline at the end.
//   - Label values that are not escaped: quotes, backslashes, braces, commas and number signs inside
//     a value (exporters up to 4.8.2 escape nothing).
//   - Timestamps and exemplars after the value: they are ignored, except timestamps that are to be
//     honored.
//
// A line that cannot be parsed is skipped and counted by [Reason].
//
// # How a label value ends
//
// The strict grammar is tried first: a value ends at the first quote without a preceding backslash,
// and \\, \" and \n stand for a backslash, a quote and a newline. If the line as a whole does not
// match it, the tolerant grammar is tried: nothing is an escape, and a value ends at the first
// quote that is followed by another label, or by the closing brace and a value.
//
// # Types
//
// A TYPE line applies to every sample of that name in the body, wherever it is. A name that one
// body declares both as a counter and as something else is not a counter, because the result must
// not depend on the order of families.
//
// # The series cache
//
// A [Parser] caches the text of each series (everything before the value) with its parsed form. For
// a known series, a line costs one comparison with the series that followed its predecessor in the
// last scrape, or else one hash and one comparison, plus parsing the number. A matching hash is
// always confirmed by comparing the text. Series that are missing from two scrapes are removed as
// soon as they outnumber the current ones, so label churn cannot grow the cache. If a body cannot
// be read to its end, the cache is cleared.
package exposition
