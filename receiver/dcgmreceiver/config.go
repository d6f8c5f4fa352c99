package dcgmreceiver

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/receiverstages"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver"
)

const (
	defaultCollectionInterval = 15 * time.Second
	defaultTimeout            = 10 * time.Second
	defaultMaxBodySize        = 32 << 20
	defaultPath               = "/metrics"
	defaultPort               = 9400

	// The minimum durations also cause values without a unit to be rejected, because a value
	// without a unit is parsed as nanoseconds.
	minCollectionInterval = 10 * time.Millisecond
	minTimeout            = time.Millisecond
	maxStartJitter        = time.Hour
	bodySizeLimit         = 1 << 40
	// The collector itself needs more than 16 MiB. A minimum of 16 MiB also guards against values
	// that are mistakenly given in MiB instead of bytes.
	minMemoryLimit = 16 << 20

	endpointForm = "http://host[:port][/path] or https://host[:port][/path]"
)

// URL is a URL that may contain a user name and a password. The user name and the password are
// redacted when the URL is printed.
type URL string

// String returns the URL with [REDACTED] in place of the user name and the password.
func (u URL) String() string {
	shown := withoutUserInfo(string(u))
	if scheme, host, found := strings.Cut(shown, "//"); found && shown != string(u) {
		return scheme + "//[REDACTED]@" + host
	}
	return shown
}

// MarshalText implements encoding.TextMarshaler. Code that prints configurations calls MarshalText.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// Config is the configuration of the dcgm receiver.
type Config struct {
	// Endpoints are the URLs to scrape. The default path is /metrics. If Endpoints is empty, the
	// receiver discovers exporters.
	Endpoints []URL `mapstructure:"endpoints"`

	// Discovery configures how exporters are discovered. Discovery and Endpoints must not both be
	// set. The defaults of Discovery are intended for an agent that scrapes the exporter on its own
	// node.
	Discovery configoptional.Optional[DiscoveryConfig] `mapstructure:"discovery"`

	// CollectionInterval is the time between scrapes of an endpoint.
	CollectionInterval time.Duration `mapstructure:"collection_interval"`

	// Timeout is the maximum duration of a scrape, from the request to the last byte of the body.
	// If Timeout exceeds CollectionInterval, CollectionInterval is the maximum duration.
	Timeout time.Duration `mapstructure:"timeout"`

	// StartJitter is the maximum random delay before the first scrape of each endpoint. The random
	// delay spreads the scrapes of different endpoints over time. StartJitter defaults to
	// CollectionInterval, up to a maximum of one hour.
	StartJitter *time.Duration `mapstructure:"start_jitter"`

	// MaxBodySize is the maximum size of a response body, in bytes after decompression.
	MaxBodySize int64 `mapstructure:"max_body_size"`

	// MemoryLimit is the size of the live heap, in bytes, above which scrapes are skipped. If
	// MemoryLimit is 0, the limit is 80% of GOMEMLIMIT. If MemoryLimit is 0 and GOMEMLIMIT is not
	// set, there is no limit.
	MemoryLimit int64 `mapstructure:"memory_limit"`

	// HonorTimestamps makes the receiver use the exporter's timestamps instead of the scrape time,
	// and drop samples whose timestamps are too old or too far in the future. HonorTimestamps is
	// intended for exporters that repeat old readings with their original timestamps.
	HonorTimestamps bool `mapstructure:"honor_timestamps"`

	// Stages are processors that run inside the receiver and exchange frames without converting
	// them to pdata. If the section is missing, the receiver sends the exporter's metrics
	// unchanged.
	Stages configoptional.Optional[receiverstages.Config] `mapstructure:"stages"`

	// NVML configures an additional source, which reads the processes on this node's GPUs from the
	// driver. The samples from NVML pass through the same stages as the samples from the exporters.
	NVML configoptional.Optional[nvmlreceiver.Config] `mapstructure:"nvml"`

	// HTTP configures the HTTP client for all endpoints, including TLS, authentication, headers,
	// the proxy, and connections.
	HTTP confighttp.ClientConfig `mapstructure:"http"`
}

var (
	_ confmap.Unmarshaler = (*Config)(nil)
	_ confmap.Validator   = (*Config)(nil)
)

func createDefaultConfig() component.Config {
	client := confighttp.NewDefaultClientConfig()
	keepalive := confighttp.NewDefaultKeepaliveClientConfig()
	// Do not limit the number of idle connections, either in total or per host. If there were more
	// endpoints than allowed idle connections, some connections would be closed after each scrape.
	keepalive.MaxIdleConns, keepalive.MaxIdleConnsPerHost = 0, math.MaxInt
	client.Keepalive = configoptional.Some(keepalive)
	nvml := *nvmlreceiver.NewFactory().CreateDefaultConfig().(*nvmlreceiver.Config) //nolint:forcetypeassert // The factory always returns a Config of this type.
	// By default, the exporter is the only source of device samples.
	nvml.ProcessesOnly = true
	return &Config{
		CollectionInterval: defaultCollectionInterval,
		Timeout:            defaultTimeout,
		MaxBodySize:        defaultMaxBodySize,
		HTTP:               client,
		Stages:             configoptional.Default(receiverstages.NewDefaultConfig()),
		NVML:               configoptional.Default(nvml),
		Discovery:          configoptional.Default(newDefaultDiscoveryConfig()),
	}
}

// Unmarshal implements confmap.Unmarshaler. Unmarshal returns an error if a number is out of range
// for the type of its field.
func (cfg *Config) Unmarshal(conf *confmap.Conf) error { return componenthelper.Unmarshal(conf, cfg) }

// Validate implements confmap.Validator. Each validation error contains the name of the field, the
// value, and the allowed values.
func (cfg *Config) Validate() error {
	var p componenthelper.Problems
	p.Check(len(cfg.Endpoints) == 0 || !cfg.Discovery.HasValue(),
		"endpoints is %q and discovery is also set: must be one of them", withoutUserInfos(cfg.Endpoints))
	seen := map[string]int{}
	for i, text := range cfg.Endpoints {
		u, err := parseEndpoint(string(text))
		if err != nil {
			p.Add(fmt.Errorf("endpoints[%d] is %q: %w: must be %s", i, withoutUserInfo(string(text)), err, endpointForm))
			continue
		}
		key := publicURL(u)
		if first, duplicate := seen[key]; duplicate {
			p.Add(fmt.Errorf("endpoints[%d] is %q: the same as endpoints[%d]: must be listed once", i, key, first))
			continue
		}
		seen[key] = i
	}
	p.Check(cfg.CollectionInterval >= minCollectionInterval,
		"collection_interval is %s: must be at least %s; write the unit, as in 15s", cfg.CollectionInterval, minCollectionInterval)
	p.Check(cfg.Timeout >= minTimeout, "timeout is %s: must be at least %s; write the unit, as in 10s", cfg.Timeout, minTimeout)
	if jitter := cfg.StartJitter; jitter != nil {
		p.Check(*jitter >= 0 && *jitter <= maxStartJitter, "start_jitter is %s: must be between 0s and %s", *jitter, maxStartJitter)
	}
	p.Check(cfg.MaxBodySize > 0 && cfg.MaxBodySize <= bodySizeLimit,
		"max_body_size is %d: must be between 1 and %d bytes", cfg.MaxBodySize, int64(bodySizeLimit))
	p.Check(cfg.MemoryLimit == 0 || cfg.MemoryLimit >= minMemoryLimit && cfg.MemoryLimit <= bodySizeLimit,
		"memory_limit is %d: must be 0, which follows GOMEMLIMIT, or between %d and %d bytes", cfg.MemoryLimit, minMemoryLimit, int64(bodySizeLimit))
	if cfg.NVML.HasValue() {
		p.Check(!cfg.NVML.Get().Stages.HasValue(), "nvml::stages is set: must not be set here; use the receiver's own stages")
	}
	p.Check(cfg.HTTP.Endpoint == "", "http::endpoint is %q: must not be set, the URLs belong in endpoints", withoutUserInfo(cfg.HTTP.Endpoint))
	p.Check(cfg.HTTP.Timeout == 0, "http::timeout is %s: must not be set, timeout limits a scrape", cfg.HTTP.Timeout)
	p.Check(!cfg.HTTP.Compression.IsCompressed(),
		"http::compression is %q: must not be set, a scrape sends no body (gzip is always requested)", cfg.HTTP.Compression)
	return p.Err()
}

// The discovery method returns the settings for discovery. The receiver uses discovery if no
// endpoints are configured.
func (cfg *Config) discovery() DiscoveryConfig {
	d := cfg.Discovery
	return *d.GetOrInsertDefault()
}

// scrapeTimeout returns the time limit for a scrape.
func (cfg *Config) scrapeTimeout() time.Duration {
	return min(cfg.Timeout, cfg.CollectionInterval)
}

// startJitter returns the maximum delay before the first scrape.
func (cfg *Config) startJitter() time.Duration {
	if cfg.StartJitter != nil {
		return *cfg.StartJitter
	}
	return min(cfg.CollectionInterval, maxStartJitter)
}

// parseEndpoint parses an element of the endpoints setting. The returned errors do not contain the
// element, because the element may include a password.
func parseEndpoint(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("not an http or https URL")
	case u.Hostname() == "":
		return nil, errors.New("no host")
	case u.Fragment != "":
		return nil, errors.New("a fragment is never sent")
	case u.Port() != "" && !isPort(u.Port()):
		return nil, errors.New("not a port between 1 and 65535")
	}
	u.Host = strings.ToLower(u.Host)
	if u.Path == "" {
		u.Path = defaultPath
	}
	return u, nil
}

func isPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return err == nil && port > 0
}

// publicURL returns a URL without its user name and password. The returned URL is used in messages
// and metrics.
func publicURL(u *url.URL) string {
	public := *u
	public.User = nil
	return public.String()
}

func withoutUserInfos(texts []URL) []string {
	var public []string
	for _, text := range texts {
		public = append(public, withoutUserInfo(string(text)))
	}
	return public
}

// withoutUserInfo removes the user name and the password from an endpoint, even if the endpoint is
// not a valid URL. In a valid endpoint, only the part before the path and the query can contain a
// user name and a password. In an invalid one, the password may contain any character, so
// withoutUserInfo removes everything up to the last @.
func withoutUserInfo(text string) string {
	if _, err := parseEndpoint(text); err == nil {
		scheme, rest, _ := strings.Cut(text, "//")
		authority := rest
		if end := strings.IndexAny(rest, "/?#"); end >= 0 {
			authority = rest[:end]
		}
		return scheme + "//" + rest[strings.LastIndexByte(authority, '@')+1:]
	}
	at := strings.LastIndexByte(text, '@')
	if at < 0 {
		return text
	}
	scheme, _, found := strings.Cut(text[:at], "//")
	if !found {
		return text[at+1:]
	}
	return scheme + "//" + text[at+1:]
}
