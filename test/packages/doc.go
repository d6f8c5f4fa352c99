// Package packages builds Debian and RPM packages from the built programs, installs and removes
// both packages in a directory, and checks the systemd unit and the source archive. If the machine
// lacks a tool, the tests that need the tool are listed as not run.
package packages
