package dcgmreceiver

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubetest"
)

func TestExporterForDRAIsFoundByTheLabelsOfEveryRelease(t *testing.T) {
	for label, value := range map[string]string{"app": "nvidia-dcgm-exporter-dra", "app.kubernetes.io/component": "nvidia-dcgm-exporter"} {
		synctest.Test(t, func(t *testing.T) {
			var n network
			n.listen(t, "10.0.0.7:9401", serve(goodBody))
			pod := exporterPod("nvidia-dcgm-exporter-dra-x", ownNode, "10.0.0.7")
			pod.Labels = map[string]string{label: value}
			f := discovering(t, kubetest.NewClient(pod), nil)
			f.start(t, &n)
			settle()
			require.NoError(t, f.Shutdown(t.Context()))
			require.NotEmpty(t, f.sink.AllMetrics())
			_, url := exporterUpOf(t, f.sink.AllMetrics()[0])
			assert.Equal(t, "http://10.0.0.7:9401/metrics", url, label)
		})
	}
}
