// Package findings detects GPUs that hang, report incorrect values, are slow, or are likely to fail
// soon. The input is a sequence of frames. The result of each rule depends only on the values and
// times of the samples. The package does not use pdata, write logs, or read the clock: callers pass
// the current time.
package findings
