package gpushareadmissionextension

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
)

// outcome is the result of a request. The strings are used in self-metrics and logs.
type outcome string

const (
	mutated   outcome = "mutated"   // The response contains a patch.
	unchanged outcome = "unchanged" // The pod needs no patch.
	accepted  outcome = "accepted"  // The pod breaks no rule.
	rejected  outcome = "rejected"
	warned    outcome = "warned"  // The pod breaks a rule, but rules are not enforced.
	ignored   outcome = "ignored" // The webhook does not handle this operation or object.
	invalid   outcome = "invalid" // The request, or the pod in it, cannot be read.
)

var podResource = metav1.GroupVersionResource{Version: "v1", Resource: "pods"}

var reviewKind = metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}

// verdict contains the response to a request, and the data for logs and self-metrics.
type verdict struct {
	outcome outcome
	pod     *corev1.Pod // nil if the request contains no readable pod
	broken  []gpushare.Violation
	answer  *admissionv1.AdmissionResponse
}

// readReview returns the request in an AdmissionReview.
func readReview(body []byte) (*admissionv1.AdmissionRequest, error) {
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil {
		return nil, fmt.Errorf("the body is not an AdmissionReview: %w", err)
	}
	if review.TypeMeta != reviewKind {
		return nil, fmt.Errorf("the body is %q of apiVersion %q: must be an AdmissionReview of admission.k8s.io/v1", review.Kind, review.APIVersion)
	}
	if review.Request == nil {
		return nil, errors.New("the AdmissionReview has no request")
	}
	if review.Request.UID == "" {
		return nil, errors.New("the request of the AdmissionReview has no uid")
	}
	return review.Request, nil
}

// isOf reports whether r is a request for one of the given operations on a pod.
func isOf(r *admissionv1.AdmissionRequest, operations ...admissionv1.Operation) bool {
	return r.Resource == podResource && r.SubResource == "" && slices.Contains(operations, r.Operation)
}

// The mutate function returns a patch that adds the default values to a new pod. A request is
// rejected only if the pod cannot be read.
func mutate(r *admissionv1.AdmissionRequest) verdict {
	if !isOf(r, admissionv1.Create) {
		return ignore()
	}
	pod, err := readPod("object", r.Object.Raw)
	if err != nil {
		return refuse(err)
	}
	operations := gpushare.Normalize(pod)
	if len(operations) == 0 {
		return verdict{outcome: unchanged, pod: pod, answer: &admissionv1.AdmissionResponse{Allowed: true}}
	}
	patch, err := json.Marshal(operations)
	if err != nil {
		return refuse(err)
	}
	kind := admissionv1.PatchTypeJSONPatch
	return verdict{outcome: mutated, pod: pod, answer: &admissionv1.AdmissionResponse{Allowed: true, Patch: patch, PatchType: &kind}}
}

// The validate function rejects a pod that breaks a rule. If enforce is false, validate accepts the
// pod and returns a warning. For an update, validate ignores rules that the stored pod already
// breaks, so that the labels and finalizers of pods that are older than the webhook can still be
// changed.
func validate(r *admissionv1.AdmissionRequest, families gpushare.Families, enforce bool) verdict {
	if !isOf(r, admissionv1.Create, admissionv1.Update) {
		return ignore()
	}
	pod, err := readPod("object", r.Object.Raw)
	if err != nil {
		return refuse(err)
	}
	broken := families.Violations(pod)
	if r.Operation == admissionv1.Update && len(broken) > 0 {
		old, err := readPod("oldObject", r.OldObject.Raw)
		if err != nil {
			return refuse(err)
		}
		before := families.Violations(old)
		broken = slices.DeleteFunc(broken, func(v gpushare.Violation) bool { return slices.Contains(before, v) })
	}
	v := verdict{outcome: accepted, pod: pod, broken: broken, answer: &admissionv1.AdmissionResponse{Allowed: true}}
	if len(broken) == 0 {
		return v
	}
	texts := make([]string, len(broken))
	for i, violation := range broken {
		texts[i] = violation.String()
	}
	if !enforce {
		v.outcome, v.answer.Warnings = warned, texts
		return v
	}
	v.outcome = rejected
	v.answer.Allowed = false
	v.answer.Result = failure(http.StatusForbidden, metav1.StatusReasonForbidden, "GPU share rules: "+strings.Join(texts, "; "))
	return v
}

// Accepts requests that the webhook does not handle. If the webhook was registered for other
// objects by mistake, rejecting these requests could break the cluster.
func ignore() verdict {
	return verdict{outcome: ignored, answer: &admissionv1.AdmissionResponse{Allowed: true}}
}

// The refuse function returns the response to a request whose pod cannot be read or patched.
func refuse(err error) verdict {
	return verdict{outcome: invalid, answer: &admissionv1.AdmissionResponse{
		Result: failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error()),
	}}
}

func failure(code int32, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}
}
