// Package findings detects GPUs that hang, report wrong values, are slow, or are likely to fail
// soon. Its input is frames. Each rule is evaluated from the values and times of the samples. The
// package does not use pdata or logging. Callers pass the current time.
package findings
