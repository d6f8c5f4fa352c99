package exposition

import (
	"bytes"
	"strconv"
)

// parseValue parses a token as a sample value. Like Prometheus, parseValue accepts everything that
// strconv.ParseFloat accepts, except hexadecimal floats, underscores, and numbers outside the range
// of float64.
func parseValue(token []byte) (float64, bool) {
	if bytes.ContainsAny(token, "pPxX_") {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(token), 64)
	return v, err == nil
}
