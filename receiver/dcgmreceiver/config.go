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

	base "github.com/otelcol-gpu/otelcol-gpu/internal/component"
	"github.com/otelcol-gpu/otelcol-gpu/internal/receiverstages"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver"
)

const (
	defaultCollectionInterval = 15 * time.Second
	defaultTimeout            = 10 * time.Second
	defaultMaxBodySize        = 32 << 20
	defaultPath               = "/metrics"
	defaultPort               = 9400

	// The limits catch durations without a unit, which are parsed as nanoseconds.
	minCollectionInterval = 10 * time.Millisecond
	minTimeout            = time.Millisecond
	maxStartJitter        = time.Hour
	bodySizeLimit         = 1 << 40
	minMemoryLimit        = 16 << 20 // below it the collector itself does not fit; a number in MiB is smaller

	endpointForm = "http://host[:port][/path] or https://host[:port][/path]"
)

// URL is a URL that may contain a user and a password, which are hidden when it is printed.
type URL string

// String returns the URL with [REDACTED] in place of user and password.
func (u URL) String() string {
	shown := withoutUserInfo(string(u))
	if scheme, host, found := strings.Cut(shown, "//"); found && shown != string(u) {
		return scheme + "//[REDACTED]@" + host
	}
	return shown
}

// MarshalText implements encoding.TextMarshaler for those who print configurations.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// Config is the configuration of the dcgm receiver.
type Config struct {
	// Endpoints are the URLs to scrape. A URL without a path gets /metrics.
	// Without endpoints the exporters are discovered.
	Endpoints []URL `mapstructure:"endpoints"`

	// Discovery configures how exporters are found; it must not be set together with endpoints. Its
	// defaults are those of an agent that scrapes its own node.
	Discovery configoptional.Optional[DiscoveryConfig] `mapstructure:"discovery"`

	// CollectionInterval is the time from one scrape of an endpoint to the next.
	CollectionInterval time.Duration `mapstructure:"collection_interval"`

	// Timeout bounds one scrape, from the request to the last byte of the body.
	// A scrape never takes longer than CollectionInterval.
	Timeout time.Duration `mapstructure:"timeout"`

	// StartJitter bounds the random delay before the first scrape of each
	// endpoint, so that not all are scraped at once. CollectionInterval when
	// unset, an hour at most.
	StartJitter *time.Duration `mapstructure:"start_jitter"`

	// MaxBodySize is the largest body that is read, in bytes after decompression.
	MaxBodySize int64 `mapstructure:"max_body_size"`

	// MemoryLimit is the size of the live heap in bytes above which scrapes are skipped; 0 is 80 % of
	// GOMEMLIMIT, or no limit if that is not set.
	MemoryLimit int64 `mapstructure:"memory_limit"`

	// HonorTimestamps uses the exporter's timestamps as sample times, instead of the time of the
	// scrape, and drops samples with impossible timestamps. It is for exporters that repeat older
	// readings and say so in the timestamp.
	HonorTimestamps bool `mapstructure:"honor_timestamps"`

	// Stages run inside the receiver, without pdata between them. Without the section the receiver
	// sends the exporter's own metrics.
	Stages configoptional.Optional[receiverstages.Config] `mapstructure:"stages"`

	// NVML reads the processes on this node's GPUs from the driver. Its samples go through the same
	// stages as those of the exporters.
	NVML configoptional.Optional[nvmlreceiver.Config] `mapstructure:"nvml"`

	// HTTP holds the settings of the HTTP client, for all endpoints: TLS,
	// authentication, headers, proxy, connections.
	HTTP confighttp.ClientConfig `mapstructure:"http"`
}

var (
	_ confmap.Unmarshaler = (*Config)(nil)
	_ confmap.Validator   = (*Config)(nil)
)

func createDefaultConfig() component.Config {
	client := confighttp.NewDefaultClientConfig()
	keepalive := confighttp.NewDefaultKeepaliveClientConfig()
	// No bound on idle connections, in all or per host: with more endpoints than the bound,
	// connections would be closed after each scrape.
	keepalive.MaxIdleConns, keepalive.MaxIdleConnsPerHost = 0, math.MaxInt
	client.Keepalive = configoptional.Some(keepalive)
	nvml := *nvmlreceiver.NewFactory().CreateDefaultConfig().(*nvmlreceiver.Config) //nolint:forcetypeassert // a factory returns its own Config
	nvml.ProcessesOnly = true                                                       // each device has one source, which is the exporter
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

// Unmarshal implements confmap.Unmarshaler. A number that its field cannot hold is an
// error.
func (cfg *Config) Unmarshal(conf *confmap.Conf) error { return base.Unmarshal(conf, cfg) }

// Validate implements confmap.Validator. Each error names the field, its value
// and what is allowed.
func (cfg *Config) Validate() error {
	var p base.Problems
	p.Check(len(cfg.Endpoints) == 0 || !cfg.Discovery.HasValue(),
		"endpoints is %q and discovery is set too: must be one of them", withoutUserInfos(cfg.Endpoints))
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
	p.Check(cfg.HTTP.Timeout == 0, "http::timeout is %s: must not be set, the bound of a scrape is timeout", cfg.HTTP.Timeout)
	p.Check(!cfg.HTTP.Compression.IsCompressed(),
		"http::compression is %q: must not be set, a scrape sends no body (gzip is always asked for)", cfg.HTTP.Compression)
	return p.Err()
}

// discovery returns how exporters are found if no endpoints are given.
func (cfg *Config) discovery() DiscoveryConfig {
	d := cfg.Discovery
	return *d.GetOrInsertDefault()
}

// scrapeTimeout is the time that one scrape may take.
func (cfg *Config) scrapeTimeout() time.Duration {
	return min(cfg.Timeout, cfg.CollectionInterval)
}

// startJitter is the bound of the delay before the first scrape.
func (cfg *Config) startJitter() time.Duration {
	if cfg.StartJitter != nil {
		return *cfg.StartJitter
	}
	return min(cfg.CollectionInterval, maxStartJitter)
}

// parseEndpoint reads one entry of endpoints. Its errors do not repeat the text,
// which may hold a password.
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

// publicURL is u without user and password, for display.
func publicURL(u *url.URL) string {
	public := *u
	public.User = nil
	return public.String()
}

// withoutUserInfos is withoutUserInfo for each text.
func withoutUserInfos(texts []URL) []string {
	var public []string
	for _, text := range texts {
		public = append(public, withoutUserInfo(string(text)))
	}
	return public
}

// withoutUserInfo removes a possible user and password from a text that may not even be a URL.
func withoutUserInfo(text string) string {
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
