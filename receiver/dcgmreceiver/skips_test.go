package dcgmreceiver

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSkippedLinesAreLoggedOnce(t *testing.T) {
	server := httptest.NewServer(serve(goodBody + "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"GPU-1\"} 31\n{{broken\nDCGM_FI_DEV_BRAND{gpu=\"0\"} NVIDIA\n"))
	defer server.Close()
	f := opened(t, []string{server.URL}, nil)
	for range 3 {
		f.scrape(t, 0)
	}
	entries := f.logs.TakeAll()
	if assert.Len(t, entries, 1) {
		assert.Equal(t, "Lines of the exporter's answer are skipped", entries[0].Message)
		assert.Equal(t, map[string]any{
			"url.full": f.endpoints[0].urlFull, "samples": int64(2), "syntax": int64(1), "duplicate_series": int64(1),
		}, entries[0].ContextMap())
	}
}
