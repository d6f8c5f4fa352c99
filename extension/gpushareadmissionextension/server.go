package gpushareadmissionextension

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/otelcol-gpu/otelcol-gpu/extension/gpushareadmissionextension/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
)

// URL paths of the webhooks.
const (
	mutatePath   = "/mutate-v1-pod"
	validatePath = "/validate-v1-pod"
)

type server struct {
	cfg       *Config
	families  gpushare.Families
	settings  component.TelemetrySettings
	telemetry *metadata.TelemetryBuilder

	http    *http.Server // nil before Start
	address net.Addr
	running sync.WaitGroup
}

func newServer(set extension.Settings, cfg *Config) (*server, error) {
	families, err := cfg.families()
	if err != nil {
		return nil, err
	}
	telemetry, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	return &server{cfg: cfg, families: families, settings: set.TelemetrySettings, telemetry: telemetry}, nil
}

// Start implements component.Component. Start returns an error if the endpoint is in use, if a
// certificate cannot be read, or if a configured extension does not exist.
func (s *server) Start(ctx context.Context, host component.Host) error {
	listener, err := s.cfg.HTTP.ToListener(ctx)
	if err != nil {
		return err
	}
	server, err := s.cfg.HTTP.ToServer(ctx, host.GetExtensions(), s.settings, s.handler())
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	s.http, s.address = server, listener.Addr()
	s.running.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			// The fatal error makes the collector exit, so that Kubernetes restarts the container.
			componentstatus.ReportStatus(host, componentstatus.NewFatalErrorEvent(err))
		}
	})
	s.settings.Logger.Info("The admission webhooks are served.", zap.Stringer("address", s.address), zap.Bool("enforce", s.cfg.Enforce))
	return nil
}

// Shutdown implements component.Component. Requests in progress are completed, unless ctx is done
// first.
func (s *server) Shutdown(ctx context.Context) error {
	defer s.telemetry.Shutdown()
	if s.http == nil {
		return nil
	}
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	s.running.Wait()
	return err
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+mutatePath, s.webhook("mutate", mutate))
	mux.HandleFunc("POST "+validatePath, s.webhook("validate", func(r *admissionv1.AdmissionRequest) verdict {
		return validate(r, s.families, s.cfg.Enforce)
	}))
	return mux
}

// webhook returns the HTTP handler for a webhook. The judge function decides how to respond to each
// request.
func (s *server) webhook(name string, judge func(*admissionv1.AdmissionRequest) verdict) http.HandlerFunc {
	of := attribute.String("webhook", name)
	return func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		ctx := r.Context()
		outcome := s.serve(ctx, w, r, name, judge)
		s.telemetry.ExtensionGpuShareAdmissionRequests.Add(ctx, 1, metric.WithAttributes(of, outcomeOf(outcome)))
		s.telemetry.ExtensionGpuShareAdmissionDuration.Record(ctx, time.Since(began).Seconds(), metric.WithAttributes(of))
	}
}

func outcomeOf(o outcome) attribute.KeyValue { return attribute.String("outcome", string(o)) }

// serve responds to an HTTP request and returns the outcome.
func (s *server) serve(ctx context.Context, w http.ResponseWriter, r *http.Request, name string, judge func(*admissionv1.AdmissionRequest) verdict) outcome {
	request, code, err := readRequest(r)
	if err != nil {
		s.settings.Logger.Debug("A request cannot be read.", zap.String("webhook", name), zap.Error(err))
		http.Error(w, err.Error(), code)
		return invalid
	}
	v := judge(request)
	v.answer.UID = request.UID
	data, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: reviewKind, Response: v.answer})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return invalid
	}
	w.Header().Set("Content-Type", "application/json")
	// Ignore the error, which means that the client has disconnected.
	_, _ = w.Write(data)
	s.report(ctx, request, v)
	return v.outcome
}

// readRequest returns the admission request in the body of an HTTP request. If the body is invalid,
// readRequest returns an HTTP status and an error.
func readRequest(r *http.Request) (*admissionv1.AdmissionRequest, int, error) {
	given := r.Header.Get("Content-Type")
	if kind, _, err := mime.ParseMediaType(given); err != nil || kind != "application/json" {
		return nil, http.StatusUnsupportedMediaType, fmt.Errorf("the Content-Type is %q: must be application/json", given)
	}
	body, err := io.ReadAll(r.Body)
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return nil, http.StatusRequestEntityTooLarge,
			fmt.Errorf("the body has more than %d bytes: see max_request_body_size", tooLarge.Limit)
	}
	if err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("the body cannot be read: %w", err)
	}
	request, err := readReview(body)
	if err != nil {
		return nil, http.StatusBadRequest, err
	}
	return request, http.StatusOK, nil
}

// The report method logs the rules that a pod breaks, and counts each broken rule once per pod.
func (s *server) report(ctx context.Context, r *admissionv1.AdmissionRequest, v verdict) {
	if len(v.broken) == 0 {
		return
	}
	var rules []string
	counted := map[gpushare.Rule]bool{}
	for _, violation := range v.broken {
		if counted[violation.Rule] {
			continue
		}
		counted[violation.Rule] = true
		rules = append(rules, string(violation.Rule))
		s.telemetry.ExtensionGpuShareAdmissionViolations.Add(ctx, 1,
			metric.WithAttributes(attribute.String("rule", string(violation.Rule)), outcomeOf(v.outcome)))
	}
	s.settings.Logger.Info("A pod breaks rules of the GPU share API.",
		zap.String("outcome", string(v.outcome)), zap.String("namespace", r.Namespace),
		zap.String("pod", cmp.Or(r.Name, v.pod.Name, v.pod.GenerateName)), zap.Strings("rules", rules))
}
