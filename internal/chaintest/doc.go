// Package chaintest tests the components of an agent together, in one process:
// receivers, attribution, power and windows.
package chaintest
