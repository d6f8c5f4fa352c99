package lease

import (
	"fmt"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
)

const (
	minRetryPeriod = 100 * time.Millisecond
	// retryJitter equals client-go's JitterFactor. client-go requires renew_deadline to be longer
	// than retry_period times this factor.
	retryJitter = 1.2

	podNamespaceEnv = "POD_NAMESPACE"
)

// namespaceFile contains the namespace of the pod in which the process runs.
var namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Config configures leader election among replicas. In a component's configuration, Config is the
// leader_election section.
type Config struct {
	// If Enabled is true, only the replica that holds the Lease is a leader. Otherwise, every
	// replica is a leader.
	Enabled bool `mapstructure:"enabled"`
	// Namespace is the namespace of the Lease. The default namespace is the value of the
	// POD_NAMESPACE environment variable or, if that variable is unset, the namespace of the
	// service account.
	Namespace string `mapstructure:"namespace"`
	// Name is the Lease's name. Replicas that use the same Lease name compete for leadership.
	Name string `mapstructure:"name"`
	// LeaseDuration is how long other replicas wait after the last renewal of the Lease before they
	// may acquire it.
	LeaseDuration time.Duration `mapstructure:"lease_duration"`
	// RenewDeadline is how long the leader keeps trying to renew the Lease before it stops leading.
	RenewDeadline time.Duration `mapstructure:"renew_deadline"`
	// RetryPeriod is the time between attempts to acquire or renew the Lease.
	RetryPeriod time.Duration `mapstructure:"retry_period"`
}

var _ confmap.Validator = (*Config)(nil)

// NewDefaultConfig returns the default configuration for a Lease with the given name.
func NewDefaultConfig(name string) Config {
	return Config{
		Enabled:       true,
		Name:          name,
		LeaseDuration: 15 * time.Second,
		RenewDeadline: 10 * time.Second,
		RetryPeriod:   2 * time.Second,
	}
}

// Validate implements confmap.Validator. Each error message includes the field's name, its value,
// and the allowed values.
func (cfg *Config) Validate() error {
	if !cfg.Enabled {
		return nil
	}
	var p componenthelper.Problems
	if namespace := cfg.namespace(); namespace == "" {
		p.Add(fmt.Errorf("namespace is empty and the process does not run in a pod (neither %s nor a service account): "+
			"must be the namespace of the lease, or set enabled to false", podNamespaceEnv))
	} else {
		p.Check(componenthelper.IsObjectName(namespace), "namespace is %q: must be a namespace", namespace)
	}
	p.Check(componenthelper.IsObjectName(cfg.Name), "name is %q: must be a name that consists of lowercase letters, digits, '-', and '.'", cfg.Name)
	p.Check(cfg.RetryPeriod >= minRetryPeriod, "retry_period is %s: must be at least %s; write the unit, as in 2s", cfg.RetryPeriod, minRetryPeriod)
	least := time.Duration(retryJitter * float64(cfg.RetryPeriod))
	p.Check(cfg.RenewDeadline > least, "renew_deadline is %s: must be more than %s, which is %g times retry_period", cfg.RenewDeadline, least, retryJitter)
	// The API stores the duration of a lease in seconds.
	p.Check(cfg.LeaseDuration > cfg.RenewDeadline && cfg.LeaseDuration%time.Second == 0,
		"lease_duration is %s: must be whole seconds and more than renew_deadline, %s", cfg.LeaseDuration, cfg.RenewDeadline)
	return p.Err()
}

// namespace returns the namespace of the Lease, or "" if it is unknown.
func (cfg *Config) namespace() string { return orOwnNamespace(cfg.Namespace) }

// orOwnNamespace returns its argument or, if the argument is empty, the process's own namespace.
func orOwnNamespace(namespace string) string {
	if namespace != "" {
		return namespace
	}
	if namespace := os.Getenv(podNamespaceEnv); namespace != "" {
		return namespace
	}
	text, err := os.ReadFile(namespaceFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// String returns the Lease's namespace and name in the form <namespace>/<name>, for use in
// messages.
func (cfg *Config) String() string { return cfg.namespace() + "/" + cfg.Name }
