package attribution

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

func listOf(seconds int64, pods ...string) *UserList {
	on := DeviceUsers{Empty: len(pods) == 0}
	for _, pod := range pods {
		on.Users = append(on.Users, gpudata.Holder{Namespace: "ns", Pod: pod})
	}
	return &UserList{Time: nanos(seconds), Devices: map[string]DeviceUsers{"GPU-1": on}}
}

func usersOf(l *UserLog, seconds int64) []string {
	var pods []string
	users, _ := l.Users("GPU-1", nanos(seconds))
	for _, h := range users {
		pods = append(pods, h.Pod)
	}
	return pods
}

func TestTheNewestListUpToTheSampleTimeApplies(t *testing.T) {
	l := NewUserLog(time.Minute)
	assert.Empty(t, usersOf(l, 10), "no list was stored")
	l.Store(listOf(10, "a"))
	l.Store(listOf(20, "b"))
	assert.Empty(t, usersOf(l, 9))
	assert.Equal(t, []string{"a"}, usersOf(l, 19))
	assert.Equal(t, []string{"b"}, usersOf(l, 20))
	assert.Equal(t, []string{"b"}, usersOf(l, 80))
	assert.Empty(t, usersOf(l, 81), "too old")
	_, empty := l.Users("GPU-1", nanos(20))
	assert.False(t, empty)

	l.Store(listOf(30))
	users, empty := l.Users("GPU-1", nanos(30))
	assert.Empty(t, users, "the list has no process")
	assert.True(t, empty)
	l.Store(listOf(15, "late"))
	assert.Equal(t, []string{"b"}, usersOf(l, 25), "two lists are kept")
}

func TestAListOfOtherDevicesDoesNotChangeADevice(t *testing.T) {
	l := NewUserLog(time.Minute)
	l.Store(listOf(10, "a"))
	other := &UserList{Time: nanos(20), Devices: map[string]DeviceUsers{"GPU-2": {}}}
	l.Store(other)
	assert.Equal(t, []string{"a"}, usersOf(l, 20))
}

func TestOneListCanArriveInSeveralBatches(t *testing.T) {
	l := NewUserLog(time.Minute)
	l.Store(listOf(10, "a"))
	before, _ := l.Users("GPU-1", nanos(10))
	l.Store(listOf(10, "b"))
	assert.Equal(t, []string{"a", "b"}, usersOf(l, 10))
	require.Len(t, before, 1, "the earlier result does not change")
}

func TestAfterTheClockWasSetBackTheNewestListApplies(t *testing.T) {
	l := NewUserLog(time.Minute)
	l.Store(listOf(3600, "a"))
	l.Store(listOf(10, "b"))
	assert.Equal(t, []string{"b"}, usersOf(l, 11))
}

func TestAPodIsFoundByItsUIDsForTheHistory(t *testing.T) {
	tr := New(time.Minute, 0, nil)
	_, known := tr.Container("", "")
	assert.False(t, known)
	tr.Update(at(10), Sources{PodsState: kube.Synced, Pods: []Pod{{
		Namespace: "ns", Name: "a", UID: "uid-a", StaticUID: "hash", Containers: []PodContainer{{Name: "c", ID: "c1"}},
	}}})
	pod := gpudata.Holder{Namespace: "ns", Pod: "a", UID: "uid-a"}
	container := pod
	container.Container = "c"
	expect := func(want gpudata.Holder, podUID, containerID string) {
		t.Helper()
		got, known := tr.Container(podUID, containerID)
		assert.True(t, known)
		assert.Equal(t, want, got)
	}
	expect(container, "uid-a", "c1")
	expect(container, "", "c1")
	expect(pod, "uid-a", "c2")
	expect(pod, "hash", "")
	assert.False(t, tr.HasEnded("uid-a", nanos(1000)))
	_, known = tr.Container("", "c2")
	assert.False(t, known)

	tr.Update(at(20), Sources{PodsState: kube.Synced})
	expect(container, "uid-a", "c1")
	assert.False(t, tr.HasEnded("uid-a", nanos(19)))
	assert.True(t, tr.HasEnded("uid-a", nanos(20)))
	tr.Update(at(81), Sources{PodsState: kube.Synced})
	_, known = tr.Container("uid-a", "c1")
	assert.False(t, known)
}
