package dcgmreceiver

import (
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"

	"go.uber.org/zap"
)

// The hint method returns a log field that tells the user what to check first after a failure.
// Self-explanatory errors have no hint.
func (e *scrapeError) hint() zap.Field {
	var (
		dns       *net.DNSError
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
	)
	hint := func(text string) zap.Field { return zap.String("hint", text) }
	switch text := e.Error(); {
	case errors.Is(e, syscall.ECONNREFUSED):
		return hint("Is the exporter running, and is this its port? dcgm-exporter listens on 9400, AMD's device-metrics-exporter on 5000, the TPU device plugin on 2112, neuron-monitor on 8000, xpumd on 8080, npu-exporter on 8082, HAMi's vGPU monitor on 9394.")
	case errors.As(e, &dns):
		return hint("Is the host's name correct, and can the collector resolve it?")
	case errors.Is(e, syscall.EHOSTUNREACH), errors.Is(e, syscall.ENETUNREACH), e.outcome == outcomeTimeout:
		return hint("Does a firewall or a NetworkPolicy block the collector? An exporter of many GPUs may also need a longer timeout.")
	case errors.As(e, &authority), errors.As(e, &hostname):
		return hint("Set http::tls::ca_file to the authority of the certificate, and http::tls::server_name_override to the certificate's name.")
	case errors.Is(e, http.ErrSchemeMismatch):
		return hint("The port does not use TLS: use http://.")
	case strings.Contains(text, "HTTP request to an HTTPS server"):
		return hint("The port uses TLS: use https://.")
	case strings.HasPrefix(text, "HTTP status 401"), strings.HasPrefix(text, "HTTP status 403"):
		return hint("Credentials belong in http::auth, or in http::headers.")
	case strings.Contains(text, "because of label_too_long"), strings.Contains(text, "because of too_many_labels"):
		return zap.Skip() // Samples were received, so the port is correct.
	case strings.HasPrefix(text, "HTTP status 404"), e.outcome == outcomeNotText:
		return hint("Is this the exporter's port, and does the path end in /metrics?")
	case e.outcome == outcomeEmpty:
		return hint("An exporter responds this way while it reloads its csv, and if it finds no GPU.")
	}
	return zap.Skip()
}
