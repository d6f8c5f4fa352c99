// Package packages builds the Debian and RPM packages of the built programs, installs and removes
// both in a directory, and checks the systemd unit and the source archive. If a tool is missing on
// the machine, the test is listed as not run.
package packages
