package gpuviewexporter

import (
	"bytes"
	"flag"
	"image/png"
	"os"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The pictures of the documents show the page as it is: -update takes them anew. Fonts differ by machine, so
// without it only their size is compared.
func (s *pageSuite) TestThePicturesOfTheDocuments() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	at := now()
	for i := range 60 {
		consume(t, e, fleet(at.Add(time.Duration(i-59)*time.Minute), time.Minute, 16, true))
	}
	p := s.open(base)
	p.until(`document.querySelectorAll("tr.row:not([hidden])").length > 0`)
	take := func(name string) {
		t.Helper()
		var got []byte
		p.do(chromedp.CaptureScreenshot(&got))
		picture, err := png.DecodeConfig(bytes.NewReader(got))
		require.NoError(t, err)
		if flag.Lookup("update").Value.String() == "true" {
			require.NoError(t, os.WriteFile(name, got, 0o600))
		}
		kept, err := os.ReadFile(name)
		require.NoError(t, err)
		config, err := png.DecodeConfig(bytes.NewReader(kept))
		require.NoError(t, err)
		assert.Equal(t, [2]int{picture.Width, picture.Height}, [2]int{config.Width, config.Height}, "take %s anew with -update", name)
	}
	p.do(chromedp.EmulateViewport(1440, 800))
	take("screenshot.png")
	p = s.openTimeline()
	p.do(chromedp.EmulateViewport(900, 800))
	take("timeline.png")
}
