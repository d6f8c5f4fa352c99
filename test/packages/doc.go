// Package packages makes the Debian and the RPM package of the built programs,
// installs and removes both in a directory, and looks at the systemd unit and at
// the source archive. What the machine has no tool for is listed as not tested.
package packages
