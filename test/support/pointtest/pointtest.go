// Package pointtest formats parts of data points as text for comparisons.
package pointtest

import (
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Text formats attributes as {key=value, key=value}, sorted by key. Text omits the keys listed in
// the without parameter.
func Text(attributes pcommon.Map, without ...string) string {
	var parts []string
	for k, v := range attributes.All() {
		if !slices.Contains(without, k) {
			parts = append(parts, k+"="+v.AsString())
		}
	}
	slices.Sort(parts)
	return "{" + strings.Join(parts, ", ") + "}"
}
