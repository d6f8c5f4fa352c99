// Package pointtest writes what points have as text, to be compared.
package pointtest

import (
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Text writes attributes as {key=value, key=value}, sorted, but for some keys.
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
