package component

import (
	"fmt"
	"os"
	"regexp"
)

// NodeNameEnv is the environment variable with the name of the Kubernetes node. The
// manifests that deploy an agent set it from the downward API.
const NodeNameEnv = "NODE_NAME"

// NodeName returns the name of the node that the process runs on, empty if unknown.
func NodeName() string { return os.Getenv(NodeNameEnv) }

// CheckNodeName returns an error for a node_name that no node can have. Empty is one that
// is not set.
func CheckNodeName(name string) error {
	if name == "" || IsObjectName(name) {
		return nil
	}
	return fmt.Errorf("node_name is %q: must be empty or a DNS subdomain name: lower case letters, digits, '-' and '.'", name)
}

// maxObjectName is the longest name of an object of the API server.
const maxObjectName = 253

var subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// IsObjectName reports whether an object of the API server can have this name, which is a
// DNS subdomain as in RFC 1123.
func IsObjectName(name string) bool { return len(name) <= maxObjectName && subdomain.MatchString(name) }
