// Package exposition parses the Prometheus text format as all versions of dcgm-exporter write it.
// It caches parsed series, because every scrape contains the same series. It parses line by line,
// so that a bad line does not affect other lines.
//
// # Accepted deviations
//
//   - HELP and TYPE lines that are repeated, missing, without samples, or after their samples.
//   - Spaces around names, braces, commas, equals signs, and values; trailing commas; an empty pair
//     of braces; CRLF; no newline at the end.
//   - Label values that are not escaped: quotes, backslashes, braces, commas, and number signs
//     inside a value (exporters up to 4.8.2 escape nothing).
//   - Timestamps and exemplars after the value. They are ignored unless timestamps are honored.
//
// A line that cannot be parsed is skipped and counted by [Reason].
//
// # How a label value ends
//
// The parser tries the strict grammar first: a value ends at the first quote without a preceding
// backslash, and \\, \" and \n are escapes. If the line does not match the strict grammar, the
// parser tries the tolerant grammar: there are no escapes, and a value ends at the first quote that
// is followed by another label, or by the closing brace and a value.
//
// # Types
//
// A TYPE line applies to every sample with that name in the body, including samples before the
// line. If a body declares a name both as a counter and as another type, the metric is not a
// counter. Therefore, the result does not depend on the order of the lines.
//
// # The series cache
//
// A [Parser] caches the text of each series (everything before the value) with its parsed form. The
// parser first compares a line with the series that came next in the last scrape. If they differ,
// it finds the series by its hash and compares the text. If the text matches, only the number is
// parsed. Series that are missing from two scrapes are removed when they outnumber the current
// series, so label churn cannot grow the cache without limit. If a body cannot be read to its end,
// the cache is cleared.
package exposition
