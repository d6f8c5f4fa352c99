package gpudata

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestDevicesWithTheSamePlaceAndIDAreEqual(t *testing.T) {
	place := Place{Cluster: "c", Node: "n1"}
	d := NewDevice(place, "GPU-1")
	assert.Equal(t, d, NewDevice(Place{Cluster: "c", Node: "n1"}, "GPU-1"))
	assert.NotEqual(t, d, NewDevice(Place{Cluster: "c", Node: "n2"}, "GPU-1"), "devices of cloned machines have the same UUIDs")
	assert.Equal(t, "GPU-1", d.ID())
	assert.Equal(t, place, d.Place())
}

func TestAHolderIsPartOfOneWithMoreAttributes(t *testing.T) {
	pod := Holder{Namespace: "ns", Pod: "a", UID: "u", Container: "main"}
	for _, part := range []Holder{pod, {UID: "u"}, {Namespace: "ns", Pod: "a", Container: "main"}, {Namespace: "ns", Pod: "a", UID: "u"}} {
		assert.True(t, part.PartOf(pod), part)
		assert.Equal(t, part == pod, pod.PartOf(part), "a holder with more attributes is not part of one with fewer: %v", part)
	}
	for _, other := range []Holder{{}, {UID: "v"}, {Namespace: "ns", Pod: "a", Container: "side"}, {Name: "main"}} {
		assert.False(t, other.PartOf(pod), other)
	}
}

func TestHoldersAreTheSame(t *testing.T) {
	pod := Holder{Namespace: "ns", Pod: "a", UID: "u", Container: "main"}
	for name, tt := range map[string]struct {
		a, b       Holder
		same, fits bool
	}{
		"one container":                         {pod, pod, true, true},
		"one without the pod's UID":             {pod, Holder{Namespace: "ns", Pod: "a", Container: "main"}, true, true},
		"a new pod with the same name":          {pod, Holder{Namespace: "ns", Pod: "a", UID: "v", Container: "main"}, false, false},
		"another container of the pod":          {pod, Holder{Namespace: "ns", Pod: "a", UID: "u", Container: "side"}, false, false},
		"a process with only the pod's UID":     {Holder{UID: "u"}, pod, false, true},
		"a pod with an unknown container":       {Holder{Namespace: "ns", Pod: "a", UID: "u"}, pod, false, true},
		"a row without the namespace":           {Holder{Pod: "a", Container: "main"}, pod, false, true},
		"the same name in another namespace":    {Holder{Namespace: "other", Pod: "a", Container: "main"}, pod, false, false},
		"a plain container and a pod":           {Holder{Name: "main"}, pod, false, false},
		"plain containers by id":                {Holder{ID: "1", Name: "x"}, Holder{ID: "1", Name: "y"}, true, true},
		"plain containers, one without an id":   {Holder{ID: "1", Name: "x"}, Holder{Name: "x"}, true, true},
		"plain containers with different names": {Holder{Name: "x"}, Holder{Name: "y"}, false, false},
		"a job":                                 {Holder{Job: "7"}, Holder{Job: "7"}, true, true},
		"two jobs":                              {Holder{Job: "7"}, Holder{Job: "8"}, false, false},
		"a pod with only a UID, and no holder":  {Holder{UID: "u"}, Holder{}, false, false},
		"no holder, and a pod":                  {Holder{}, pod, false, false},
		"no holder, and a plain container":      {Holder{}, Holder{Name: "x"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.same, tt.a.Same(tt.b))
			assert.Equal(t, tt.same, tt.b.Same(tt.a))
			assert.Equal(t, tt.fits, tt.a.MayBeSame(tt.b))
		})
	}
}
