package dcgmreceiver

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/installs"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubetest"
)

// With the default settings, the receiver must find the exporter of each installation in
// docs/compatibility.md, except for the installations that require settings.
func TestTheDefaultsFindTheExporterOfEveryInstall(t *testing.T) {
	for i := range installs.All {
		install := &installs.All[i]
		t.Run(install.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				want := install.URL
				if strings.Contains(want, "%s") {
					want = fmt.Sprintf(want, "10.0.0.7")
				}
				var n network
				address, _, _ := strings.Cut(want[strings.Index(want, "//")+2:], "/")
				n.listen(t, address, serve(goodBody))
				var client *fake.Clientset
				if install.NodeLabels != nil {
					client = kubetest.NewClient()
				}
				if install.Pod != nil {
					client = kubetest.NewClient(install.Pod.Object(ownNode, "10.0.0.7"))
				}
				f := discovering(t, client, nil)
				f.start(t, &n)
				settle()
				require.NoError(t, f.Shutdown(t.Context()))
				require.NotEmpty(t, f.sink.AllMetrics())
				value, url := exporterUpOf(t, f.sink.AllMetrics()[0])
				found := url == want && value == 1
				assert.Equal(t, install.Settings == "", found, "%s is scraped", url)
			})
		})
	}
}
