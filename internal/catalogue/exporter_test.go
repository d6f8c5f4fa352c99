package catalogue

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestATableThatContradictsItselfPanics(t *testing.T) {
	for name, tt := range map[string]struct {
		fields []Field
		panics bool
	}{
		"two names":               {[]Field{{Name: "a"}, {Name: "b"}}, false},
		"a name twice":            {[]Field{{Name: "a"}, {Name: "a"}}, true},
		"an alias that is a name": {[]Field{{Name: "a"}, {Name: "b", Aliases: Names("a")}}, true},
		"fields that share a name and differ in a label": {[]Field{{Name: "a{x}", Cut: Names("x")}, {Name: "a{y}", Cut: Names("y")}}, false},
		"a label value for only one of two fields":       {[]Field{{Name: "a{x}", Cut: Names("x")}, {Name: "a"}}, true},
		"two fields with the same label value":           {[]Field{{Name: "a{x}", Cut: Names("x", "z")}, {Name: "a{y}", Cut: Names("y", "z")}}, true},
		"a label value twice in one field":               {[]Field{{Name: "a{x}", Cut: Names("x", "x")}}, true},
		"two units for one name":                         {[]Field{{Name: "a{x}", Unit: MHz, Cut: Names("x")}, {Name: "a{y}", Unit: Hz, Cut: Names("y")}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			create := func() { New(Exporter{Groups: []Group{{Fields: tt.fields}}}) }
			if tt.panics {
				assert.Panics(t, create)
			} else {
				assert.NotPanics(t, create)
			}
		})
	}
}
