// Package exposition reads the Prometheus text format the way dcgm-exporter
// has written it over its generations: fast, because the same series come back
// with every scrape, and line by line, because one bad line must not cost the
// others.
//
// # What is tolerated
//
//   - HELP and TYPE lines repeated, missing, without samples, before or after
//     the samples they belong to.
//   - Blanks around names, braces, commas, equal signs and values; trailing
//     commas; an empty pair of braces; CRLF; no newline at the end.
//   - Label values that are not escaped: quotes, backslashes, braces, commas
//     and number signs inside a value (exporters up to 4.8.2 escape nothing).
//   - Timestamps and exemplars after the value: read over, timestamps unless they are to be
//     honored.
//
// A line that has no reading is skipped and counted by [Reason].
//
// # How a label value ends
//
// The strict reading comes first: a value ends at the first quote that no
// backslash precedes, and \\, \" and \n stand for a backslash, a quote and a
// newline. If the line as a whole has no strict reading, the tolerant one is
// tried: nothing is an escape, and a value ends at the first quote after which
// another label or the closing brace and a value follow.
//
// # Types
//
// A TYPE line holds for every sample of that name in the body, wherever it
// stands. A name that one body declares as a counter and also as something else
// is not a counter: the order of families must not decide.
//
// # The series cache
//
// A [Parser] remembers the text of each series, all that stands before the
// value, with what it was read as. In the steady state a line costs one
// comparison with the series that followed its predecessor in the last scrape,
// or else one hash and one comparison, and one number. A hash alone is never
// believed. Series that two scrapes did not show are dropped as soon as they
// outnumber the live ones, so label churn cannot grow the cache. A body that
// cannot be read to its end empties the cache.
package exposition
