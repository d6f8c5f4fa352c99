// Package exposition parses the Prometheus text format as all versions of dcgm-exporter write it.
// The parser caches parsed series, because most series occur in every scrape. Each line is parsed
// separately, so that an invalid line does not affect other lines.
//
// # Accepted deviations
//
//   - HELP and TYPE lines that are repeated or missing, have no samples, or follow their samples.
//   - Spaces around names, braces, commas, equals signs, and values; trailing commas; an empty pair
//     of braces; CRLF; no newline at the end.
//   - Label values that are not escaped: quotes, backslashes, braces, commas, and number signs
//     inside a value (exporters up to 4.8.2 escape nothing).
//   - Timestamps and exemplars after the value. Exemplars are ignored. Timestamps are ignored
//     unless [Parser.HonorTimestamps] has been called.
//
// If a line cannot be parsed, the parser skips the line and increments the count for the [Reason].
//
// # How a label value ends
//
// The parser tries the strict grammar first: a label value ends at the first quote that is not
// escaped by a backslash, and the escape sequences are \\, \", and \n. If the line does not match
// the strict grammar, the parser tries the tolerant grammar, which has no escape sequences: a label
// value ends at the first quote that is followed either by another label or by the closing brace
// and a sample value.
//
// # Types
//
// A TYPE line applies to every sample in the body with the same metric name, including samples
// before the TYPE line. If a body declares a name both as a counter and as another type, the metric
// is not a counter. Therefore, the types of metrics do not depend on the order of the lines.
//
// # The series cache
//
// A [Parser] caches the text of each series (everything before the value) with its parsed form. The
// parser first compares a line with the series that came next in the last scrape. If the line does
// not match, the parser uses a hash of the text to look up the series, and then compares the texts.
// If the text of a cached series matches, the parser parses only the value. When the cached series
// that are missing from the current scrape outnumber the current series, the parser removes the
// series that were also missing from the previous scrape, so label churn cannot grow the cache
// without limit. If the parser cannot read a body to its end, it clears the cache.
package exposition
