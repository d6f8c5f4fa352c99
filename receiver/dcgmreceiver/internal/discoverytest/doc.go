// Package discoverytest tests the receiver's discovery against a real API server:
// what selectors, watches and permissions do there, no double knows.
package discoverytest
