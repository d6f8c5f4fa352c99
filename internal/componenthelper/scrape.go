package componenthelper

import "sync"

// scrapeErrors contains the last scrape error of each failing exporter, by URL. Receivers in this
// process set the errors. gpu.exporter.up reports only that a scrape failed; gpu_view shows the
// error.
var scrapeErrors sync.Map

// SetScrapeError records the error of the last scrape of an exporter. nil means that the scrape worked
// or that the exporter is no longer scraped.
func SetScrapeError(url string, err error) {
	if err == nil {
		scrapeErrors.Delete(url)
		return
	}
	scrapeErrors.Store(url, err.Error())
}

// ScrapeError returns why the last scrape of an exporter failed, or "" if it worked or if another
// process scrapes the exporter.
func ScrapeError(url string) string {
	text, _ := scrapeErrors.Load(url)
	out, _ := text.(string)
	return out
}
