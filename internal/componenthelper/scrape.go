package componenthelper

import "sync"

// scrapeErrors maps the URL of each failing exporter to its last scrape error. The receivers in
// this process set the errors. gpu.exporter.up reports only that a scrape failed; gpu_view shows
// the error.
var scrapeErrors sync.Map

// SetScrapeError records the error of an exporter's last scrape. nil means that the scrape
// succeeded or that the exporter is no longer scraped.
func SetScrapeError(url string, err error) {
	if err == nil {
		scrapeErrors.Delete(url)
		return
	}
	scrapeErrors.Store(url, err.Error())
}

// ScrapeError returns why the last scrape of an exporter failed. It returns "" if the scrape
// succeeded or if another process scrapes the exporter.
func ScrapeError(url string) string {
	text, _ := scrapeErrors.Load(url)
	out, _ := text.(string)
	return out
}
