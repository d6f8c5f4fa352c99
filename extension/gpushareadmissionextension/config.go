package gpushareadmissionextension

import (
	"net"
	"strconv"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/config/confignet"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configtls"
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
)

const (
	// defaultEndpoint makes the server listen on all addresses, because the API server runs on
	// another host.
	defaultEndpoint = ":9443"
	// maxBody is the default maximum size of an AdmissionReview, in bytes. The API server accepts
	// objects of up to 3 MiB, and the AdmissionReview for an update contains two objects.
	maxBody = 8 << 20
	// reloadInterval is the default interval at which the certificate files are reloaded.
	reloadInterval = time.Minute
)

// Config configures the gpu_share_admission extension.
type Config struct {
	// HTTP configures the HTTP server for the webhooks. TLS settings are required, because the API
	// server calls webhooks only over HTTPS.
	HTTP confighttp.ServerConfig `mapstructure:",squash"`
	// If Enforce is true, pods that break a rule are rejected. Otherwise, pods that break a rule
	// are accepted with warnings.
	Enforce bool `mapstructure:"enforce"`
	// Resources lists additional resource names for vendors' GPUs. Each entry is a full name or a
	// prefix that ends in *. The list should be the same as in gpu_cluster.
	Resources []string `mapstructure:"resources"`
	// DeviceClasses lists the device classes whose implicit extended resource is a GPU. The list
	// should be the same as in gpu_cluster.
	DeviceClasses []string `mapstructure:"device_classes"`

	// prevent unkeyed literal initialization
	_ struct{}
}

func createDefaultConfig() component.Config {
	http := confighttp.NewDefaultServerConfig()
	http.NetAddr.Endpoint = defaultEndpoint
	http.MaxRequestBodySize = maxBody
	http.TLS = configoptional.Default(configtls.ServerConfig{Config: configtls.Config{ReloadInterval: reloadInterval}})
	return &Config{HTTP: http, Enforce: true, DeviceClasses: gpushare.DefaultDeviceClasses()}
}

// Unmarshal implements confmap.Unmarshaler with [componenthelper.Unmarshal].
func (cfg *Config) Unmarshal(conf *confmap.Conf) error { return componenthelper.Unmarshal(conf, cfg) }

// Validate implements confmap.Validator. Error messages contain the field, its value, and the
// allowed values.
func (cfg *Config) Validate() error {
	var p componenthelper.Problems
	p.Check(cfg.HTTP.NetAddr.Transport != confignet.TransportTypeTCP || isAddress(cfg.HTTP.NetAddr.Endpoint),
		"endpoint is %q: must be a host, or empty for all addresses, and a port, as in %s", cfg.HTTP.NetAddr.Endpoint, defaultEndpoint)
	p.Check(cfg.HTTP.TLS.HasValue(),
		"tls is not set: must have cert_file and key_file, because the API server calls webhooks only over HTTPS")
	if tls := cfg.HTTP.TLS.Get(); tls != nil {
		p.Check(tls.CertFile != "" || tls.CertPem != "", "tls::cert_file is not set: must be the file of the server's certificate")
		p.Check(tls.KeyFile != "" || tls.KeyPem != "", "tls::key_file is not set: must be the file of the certificate's key")
	}
	p.Check(cfg.HTTP.MaxRequestBodySize > 0, "max_request_body_size is %d: must be above 0, in bytes", cfg.HTTP.MaxRequestBodySize)
	_, err := cfg.families()
	p.Add(err)
	return p.Err()
}

// families returns the resource names to which the rules apply.
func (cfg *Config) families() (gpushare.Families, error) {
	return gpushare.NewFamilies(cfg.Resources, cfg.DeviceClasses)
}

// isAddress reports whether text has the form host:port. An empty host stands for all addresses.
func isAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}
