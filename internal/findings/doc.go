// Package findings decides from frames whether a GPU hangs, reports wrong values, is slow or is about
// to fail. The rules are a table; each is judged on the values and times of the samples. The package
// knows neither pdata nor logs, and its clock is an argument.
package findings
