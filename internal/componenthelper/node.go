package componenthelper

import (
	"fmt"
	"os"
	"regexp"
)

// NodeNameEnv is the environment variable that contains the name of the Kubernetes node. The
// manifests for the agents use the downward API to set this environment variable.
const NodeNameEnv = "NODE_NAME"

// NodeName returns the name of the node on which the process runs, or "" if it is unknown.
func NodeName() string { return os.Getenv(NodeNameEnv) }

// CheckNodeName returns an error if node_name cannot be the name of a node. An empty name is
// allowed and means that node_name is not set.
func CheckNodeName(name string) error {
	if name == "" || IsObjectName(name) {
		return nil
	}
	return fmt.Errorf("node_name is %q: must be empty or a DNS subdomain name: lower case letters, digits, '-' and '.'", name)
}

// maxObjectName is the maximum length of an API object's name, in bytes.
const maxObjectName = 253

var subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// IsObjectName reports whether a string is a valid name for an API object. A valid name is a DNS
// subdomain as defined in RFC 1123.
func IsObjectName(name string) bool { return len(name) <= maxObjectName && subdomain.MatchString(name) }
