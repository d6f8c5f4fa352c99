package window

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawAttrs generates attributes from a small set of keys and values, so that attributes often
// match.
func drawAttrs(t *rapid.T, name string) (list []Attr, encoded Attrs) {
	var b []byte
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"", "a", "b", "key"}), 0, 4, rapid.ID[string]).Draw(t, name) {
		a := Attr{
			Key: key, Kind: rapid.SampledFrom([]AttrKind{TextAttr, IntAttr, BoolAttr, OpaqueAttr}).Draw(t, "kind"),
			Value: rapid.SampledFrom([]string{"", "1", "true", string(make([]byte, 300))}).Draw(t, "value"),
		}
		list, b = append(list, a), AppendAttr(b, a.Key, a.Kind, a.Value)
	}
	return list, Attrs(b)
}

func plain(attrs Attrs) (list []Attr) {
	for a := range attrs.All() {
		list = append(list, Attr{Key: a.Key, Kind: a.Kind, Value: a.Value})
	}
	return list
}

func TestDecodedAttributesEqualTheEncodedAttributes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list, encoded := drawAttrs(t, "attributes")
		require.Equal(t, list, plain(encoded))
		require.Equal(t, len(list), encoded.Len())
		in, out := encoded.partition([]string{"a", "b"})
		require.ElementsMatch(t, list, append(plain(in), plain(out)...))
		require.True(t, slices.IsSortedFunc(plain(encoded.Sorted()), func(a, b Attr) int { return strings.Compare(a.Key, b.Key) }))
	})
}

// Attributes in stored state may be damaged.
func TestReadingDamagedAttributesTerminates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, encoded := drawAttrs(t, "attributes")
		damaged := Attrs(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		cut := encoded[:rapid.IntRange(0, len(encoded)).Draw(t, "length")]
		require.LessOrEqual(t, damaged.Len(), len(damaged))
		require.LessOrEqual(t, cut.Len(), encoded.Len())
	})
}

func TestMergedAttributesHaveTheNewestValueOfEachKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old, known := drawAttrs(t, "known")
		added, attrs := drawAttrs(t, "added")
		d := details{Time: 10, Attrs: known}
		at := rapid.Int64Range(9, 11).Draw(t, "time")
		all := d.merge(attrs, at)
		want := map[string]Attr{}
		for _, a := range old {
			want[a.Key] = a
		}
		complete := true
		for _, a := range added {
			if known, exists := want[a.Key]; !exists || at >= 10 {
				want[a.Key] = a
			} else if known != a {
				complete = false
			}
		}
		got := map[string]Attr{}
		for _, a := range plain(d.Attrs) {
			got[a.Key] = a
		}
		assert.Equal(t, want, got)
		assert.Equal(t, complete, all)
		assert.Equal(t, max(10, at), d.Time)
	})
}
