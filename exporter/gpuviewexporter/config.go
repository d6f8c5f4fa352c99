package gpuviewexporter

import (
	"net"
	"strconv"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/config/confignet"
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
)

// maxLimit is the largest allowed value of max_devices and max_holders.
const maxLimit = 1_000_000

// Config is the configuration of the exporter.
type Config struct {
	// HTTP configures the HTTP server that serves the page and the API. By default, the server
	// listens on localhost:9411 without TLS, authentication or CORS.
	HTTP confighttp.ServerConfig `mapstructure:",squash"`
	// Retention is how long windows are stored. The value must be between 1m and 168h.
	Retention time.Duration `mapstructure:"retention"`
	// MaxDevices is the maximum number of boards and MIG instances. Points from additional devices
	// are refused and counted.
	MaxDevices int `mapstructure:"max_devices"`
	// MaxHolders is the maximum number of holders. A container counts once for each device that it
	// holds.
	MaxHolders int `mapstructure:"max_holders"`
	// MaxClients is the maximum number of concurrent requests for the list of devices. Each
	// concurrent request can keep a document in memory until the client has read the document.
	MaxClients int `mapstructure:"max_clients"`
	// StatsSummary enables /stats/summary.
	StatsSummary bool `mapstructure:"stats_summary"`

	// prevent unkeyed literal initialization
	_ struct{}
}

func createDefaultConfig() component.Config {
	http := confighttp.NewDefaultServerConfig()
	http.NetAddr.Endpoint = "localhost:9411"
	return &Config{
		HTTP:       http,
		Retention:  2 * time.Hour,
		MaxDevices: 20_000,
		MaxHolders: 40_000,
		MaxClients: 32,
	}
}

// Unmarshal implements confmap.Unmarshaler with [componenthelper.Unmarshal].
func (c *Config) Unmarshal(conf *confmap.Conf) error { return componenthelper.Unmarshal(conf, c) }

// Validate returns an error for each invalid setting. Each error contains the value of the setting
// and the allowed values.
func (c *Config) Validate() error {
	var p componenthelper.Problems
	p.Check(c.HTTP.NetAddr.Transport != confignet.TransportTypeTCP || isAddress(c.HTTP.NetAddr.Endpoint),
		"endpoint is %q: must be a host and a port to listen on, as in localhost:9411", c.HTTP.NetAddr.Endpoint)
	componenthelper.Between(&p, "retention", c.Retention, time.Minute, 7*24*time.Hour)
	componenthelper.Between(&p, "max_devices", c.MaxDevices, 1, maxLimit)
	componenthelper.Between(&p, "max_holders", c.MaxHolders, 1, maxLimit)
	componenthelper.Between(&p, "max_clients", c.MaxClients, 1, maxLimit)
	return p.Err()
}

// isAddress reports whether a string has the form host:port. The host may be empty, which means all
// addresses.
func isAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}
