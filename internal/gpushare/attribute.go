package gpushare

import (
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
)

// DeviceText returns the value of a device's string attribute, or "" if the device does not have
// the attribute. An attribute name without a domain belongs to the driver's domain. If the driver's
// domain does not contain the attribute, DeviceText uses the attribute from another domain: the
// first one in alphabetical order. If the attribute is a list with more than one value, it is
// unknown which value applies, and the second result is true.
func DeviceText(driver string, d *resourcev1.Device, name string) (value string, several bool) {
	a, ok := d.Attributes[resourcev1.QualifiedName(name)]
	if !ok {
		a, ok = d.Attributes[resourcev1.QualifiedName(driver+"/"+name)]
	}
	if !ok {
		first := resourcev1.QualifiedName("")
		for key := range d.Attributes {
			if strings.HasSuffix(string(key), "/"+name) && (first == "" || key < first) {
				first = key
			}
		}
		a = d.Attributes[first]
	}
	switch {
	case a.StringValue != nil:
		return *a.StringValue, false
	case len(a.StringValues) == 1:
		return a.StringValues[0], false
	}
	return "", len(a.StringValues) > 1
}
