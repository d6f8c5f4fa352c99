package gpushare

import (
	"testing"

	"github.com/stretchr/testify/assert"
	resourcev1 "k8s.io/api/resource/v1"
)

func TestDeviceText(t *testing.T) {
	type attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute
	one := func(value string) resourcev1.DeviceAttribute { return resourcev1.DeviceAttribute{StringValue: &value} }
	list := func(values ...string) resourcev1.DeviceAttribute {
		return resourcev1.DeviceAttribute{StringValues: values}
	}
	for name, test := range map[string]struct {
		attributes attributes
		want       string
		several    bool
	}{
		"none":                                    {attributes{"other": one("x")}, "", false},
		"the plain name":                          {attributes{"uuid": one("a"), "driver.example.com/uuid": one("b")}, "a", false},
		"the driver's domain before any other":    {attributes{"a.example.com/uuid": one("a"), "driver.example.com/uuid": one("b")}, "b", false},
		"the first name in other domains":         {attributes{"b.example.com/uuid": one("b"), "a.example.com/uuid": one("a")}, "a", false},
		"a list with one value":                   {attributes{"uuid": list("a")}, "a", false},
		"a list with several values":              {attributes{"uuid": list("a", "b"), "a.example.com/uuid": one("c")}, "", true},
		"a list with one value in another domain": {attributes{"a.example.com/uuid": list("a")}, "a", false},
		"a number":                                {attributes{"uuid": {IntValue: new(int64(7))}}, "", false},
		"the end of a name":                       {attributes{"a.example.com/notuuid": one("a")}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			value, several := DeviceText("driver.example.com", &resourcev1.Device{Attributes: test.attributes}, "uuid")
			assert.Equal(t, test.want, value)
			assert.Equal(t, test.several, several)
		})
	}
}
