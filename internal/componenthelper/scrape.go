package componenthelper

import "sync"

// scrapeErrors maps the URL of each exporter whose last scrape failed to the text of the error. The
// receivers in this process set the errors. The metric gpu.exporter.up reports only that a scrape
// failed; gpu_view shows the error text.
var scrapeErrors sync.Map

// SetScrapeError records the error from an exporter's last scrape. A nil error means that the
// scrape succeeded or that the exporter is no longer scraped.
func SetScrapeError(url string, err error) {
	if err == nil {
		scrapeErrors.Delete(url)
		return
	}
	scrapeErrors.Store(url, err.Error())
}

// ScrapeError returns why the last scrape of an exporter failed. The result is "" if the last
// scrape succeeded or if another process scrapes the exporter.
func ScrapeError(url string) string {
	text, _ := scrapeErrors.Load(url)
	out, _ := text.(string)
	return out
}
