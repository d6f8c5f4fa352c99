package cluster

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/certtest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// BenchmarkAdmission sends b.N admission reviews to the built collector at a rate of 500 per
// second, without waiting for earlier responses. The benchmark reports the 99th percentile of the
// response time and the collector's peak resident memory. With -benchtime 15000x, the benchmark
// takes half a minute.
func BenchmarkAdmission(b *testing.B) {
	program := processtest.Binary(b, "otelcol-gpu")
	ca, dir, endpoint := certtest.NewAuthority(b), b.TempDir(), processtest.FreeAddress(b)
	cert, key := ca.Write(b, dir)
	config := filepath.Join(dir, "config.yaml")
	require.NoError(b, os.WriteFile(config, []byte(`
extensions:
  gpu_share_admission: {endpoint: "`+endpoint+`", tls: {cert_file: "`+cert+`", key_file: "`+key+`"}}
receivers:
  otlp: {protocols: {grpc: {endpoint: "`+processtest.FreeAddress(b)+`"}}}
exporters:
  debug: {}
service:
  extensions: [gpu_share_admission]
  pipelines:
    metrics: {receivers: [otlp], exporters: [debug]}
  telemetry: {metrics: {level: none}}
`), 0o600))
	cmd := exec.CommandContext(b.Context(), program, "--config="+config)
	cmd.Env = processtest.Environment(nil)
	process := processtest.Start(b, cmd)
	client := &http.Client{Timeout: processtest.Patience, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: ca.Pool()}, MaxIdleConnsPerHost: 64, ForceAttemptHTTP2: true,
	}}
	defer client.CloseIdleConnections()
	post := func(path string, body []byte) error {
		answer, err := client.Post("https://"+endpoint+path, "application/json", bytes.NewReader(body))
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			b.Errorf("%s answers %s", path, answer.Status)
		}
		return err
	}
	review := loadReview(b)
	processtest.Until(b, "the webhooks answer", func() bool { return post("/mutate-v1-pod", review) == nil }, process)

	took := make([]time.Duration, b.N)
	var sent sync.WaitGroup
	b.ResetTimer()
	tick := time.NewTicker(time.Second / 500)
	defer tick.Stop()
	for i := range b.N {
		<-tick.C
		path := []string{"/mutate-v1-pod", "/validate-v1-pod"}[i%2]
		sent.Go(func() {
			began := time.Now()
			if err := post(path, review); err != nil {
				b.Errorf("%s: %v", path, err)
			}
			took[i] = time.Since(began)
		})
	}
	sent.Wait()
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(took[len(took)/2].Seconds()*1e3, "ms-p50")
	b.ReportMetric(took[len(took)*99/100].Seconds()*1e3, "ms-p99")
	b.ReportMetric(took[len(took)-1].Seconds()*1e3, "ms-max")
	b.ReportMetric(float64(process.Status(b).VmHWM)/(1<<20), "MiB-peak")
	process.Stop(b)
}

// loadReview returns an admission review for a fairly large pod, which has three containers with
// GPU shares and 8 KiB of annotations.
func loadReview(b *testing.B) []byte {
	b.Helper()
	pod := sharePod("pod", "gpu=50")
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	pod.Annotations = map[string]string{"example.com/notes": string(bytes.Repeat([]byte("x"), 8<<10))}
	for _, name := range []string{"second", "third"} {
		pod.Spec.Containers = append(pod.Spec.Containers, shareContainer(name, "gpu-memory=4Gi gpu-core=50"))
	}
	object, err := json.Marshal(pod)
	require.NoError(b, err)
	data, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "u-1", Operation: admissionv1.Create, Namespace: "training",
			Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, Object: runtime.RawExtension{Raw: object},
		},
	})
	require.NoError(b, err)
	return data
}
