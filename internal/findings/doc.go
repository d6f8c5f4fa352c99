// Package findings detects, from frames, GPUs that hang, report wrong values, are slow, or are
// about to fail. The rules are a table. Each rule is evaluated from the values and times of the
// samples. The package does not depend on pdata or logging, and callers pass in the current time.
package findings
