package gpushareadmissionextension

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/component/componenttest"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/otelcol-gpu/otelcol-gpu/extension/gpushareadmissionextension/internal/metadatatest"
)

// The response to any request must be either an HTTP error or an AdmissionReview with the request's
// UID.
func FuzzReview(f *testing.F) {
	for _, request := range []string{
		creation("gpu=200"), creation("gpu-core=50"), creation("nvidia.com/gpu=1 gpu-memory=1e3 gpu.shared=1"),
		update("gpu-memory=4Gi", "gpu-core=50"), `"operation":"CREATE"`, `"operation":"CREATE","object":{"kind":"Pod","apiVersion":"v1","spec":{"containers":[null]}}`,
	} {
		f.Add(reviewOf(request))
	}
	f.Add("")
	f.Add(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":null}`)
	s, err := newServer(metadatatest.NewSettings(componenttest.NewTelemetry()), createDefaultConfig().(*Config))
	if err != nil {
		f.Fatal(err)
	}
	handler := s.handler()
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range []string{mutatePath, validatePath} {
			request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
			request.Header.Set("Content-Type", "application/json")
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, request)
			if recorder.Code == http.StatusBadRequest {
				continue
			}
			var asked, answered admissionv1.AdmissionReview
			if recorder.Code != http.StatusOK || json.Unmarshal(recorder.Body.Bytes(), &answered) != nil || answered.Response == nil {
				t.Fatalf("%s responds with %d: %s", path, recorder.Code, recorder.Body)
			}
			if json.Unmarshal([]byte(body), &asked) != nil || asked.Request.UID != answered.Response.UID {
				t.Fatalf("the response's uid is %q, the body is %s", answered.Response.UID, body)
			}
			if !answered.Response.Allowed && answered.Response.Result.Message == "" {
				t.Fatal("rejected without a reason")
			}
		}
	})
}
