package kube

import (
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/confmap"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
)

// The values of auth_type.
const (
	AuthServiceAccount = "serviceAccount" // Use the pod's service account.
	AuthKubeConfig     = "kubeConfig"     // Use a kubeconfig file.
	AuthNone           = "none"           // Do not use the API server.
)

var authTypes = []string{AuthServiceAccount, AuthKubeConfig, AuthNone}

// userAgent identifies this program in the API server's audit log and metrics.
const userAgent = "otelcol-gpu"

// Config configures access to the API server. In a component's configuration, Config is the
// kubernetes section.
type Config struct {
	// AuthType is serviceAccount (the default), kubeConfig, or none. If AuthType is none, the
	// program does not use the API server. If the program runs outside a cluster, serviceAccount
	// has the same effect as none, and a message is logged.
	AuthType string `mapstructure:"auth_type"`

	// KubeConfig is the path of the kubeconfig file if auth_type is kubeConfig. KubeConfig defaults
	// to the value of the KUBECONFIG environment variable or, if the variable is not set, to
	// ~/.kube/config.
	KubeConfig string `mapstructure:"kubeconfig"`

	// Context is the name of the context in the kubeconfig file if auth_type is kubeConfig. Context
	// defaults to the kubeconfig file's current context.
	Context string `mapstructure:"context"`
}

var _ confmap.Validator = (*Config)(nil)

// NewDefaultConfig returns the default configuration, which is for a program that runs in a pod.
func NewDefaultConfig() Config { return Config{AuthType: AuthServiceAccount} }

// Validate implements confmap.Validator. Each error message includes the field's name, its value,
// and the allowed values.
func (c *Config) Validate() error {
	var p componenthelper.Problems
	p.Check(slices.Contains(authTypes, c.AuthType), "auth_type is %q: must be one of %s", c.AuthType, strings.Join(authTypes, ", "))
	unused := c.AuthType != AuthKubeConfig
	p.Check(!unused || c.KubeConfig == "", "kubeconfig is %q: must only be set with auth_type %s", c.KubeConfig, AuthKubeConfig)
	p.Check(!unused || c.Context == "", "context is %q: must only be set with auth_type %s", c.Context, AuthKubeConfig)
	return p.Err()
}

// restConfig returns the configuration of the API client, or nil if the API server is not used. The
// second result, offReason, explains why: either the program runs outside a cluster
// ([rest.ErrNotInCluster]), or the service account has no token. If the configuration disables the
// API server, offReason is nil.
func (c *Config) restConfig() (config *rest.Config, offReason, err error) {
	switch c.AuthType {
	case AuthNone:
		return nil, nil, nil
	case AuthKubeConfig:
		rules := clientcmd.NewDefaultClientConfigLoadingRules()
		rules.ExplicitPath = c.KubeConfig
		overrides := &clientcmd.ConfigOverrides{CurrentContext: c.Context}
		config, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
		if err != nil {
			return nil, nil, fmt.Errorf("kubeconfig is %q, context is %q: %w", c.KubeConfig, c.Context, err)
		}
	default:
		config, err = rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("auth_type is %q: %w", c.AuthType, err), nil
		}
	}
	config.UserAgent = userAgent
	// client-go's default rate limits are intended for command-line tools. With client-go's default
	// limits, fetching all kinds of objects would take several seconds.
	config.QPS, config.Burst = 20, 40
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	config.ContentType = "application/vnd.kubernetes.protobuf"
	// Without this handler, client-go would log the warning in every response from a beta API.
	config.WarningHandlerWithContext = rest.NoWarnings{}
	return config, nil, nil
}
