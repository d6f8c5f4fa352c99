package componenthelper

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestScrapeErrorIsTheLastOneUntilAScrapeWorks(t *testing.T) {
	const url = "http://node-1:9400/metrics"
	assert.Empty(t, ScrapeError(url), "never scraped")
	SetScrapeError(url, errors.New("connection refused"))
	SetScrapeError(url, errors.New("timeout"))
	assert.Equal(t, "timeout", ScrapeError(url))
	assert.Empty(t, ScrapeError("http://node-2:9400/metrics"))
	SetScrapeError(url, nil)
	assert.Empty(t, ScrapeError(url))
}
