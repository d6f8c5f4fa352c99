//go:build linux && !otelcol_gpu_no_nvml

package nvml

// eventData is nvmlEventData_t.
type eventData struct {
	device          uintptr
	eventType       uint64
	data            uint64
	gpuInstance     uint32
	computeInstance uint32
}

// xidCriticalError is nvmlEventTypeXidCriticalError.
const xidCriticalError = 8

// NewEventSet creates a set that stores the events of boards until they are read. The caller must
// free the set.
func (l *Library) NewEventSet() (EventSet, error) {
	if l.symbols[symEventSetWait] == 0 {
		return 0, ErrFunctionNotFound
	}
	l.out = [2]uint64{}
	err := l.call(l.symbols[symEventSetCreate], address(&l.out))
	return EventSet(l.out[0]), err
}

// FreeEventSet frees an event set. The driver then stops storing events in the set.
func (l *Library) FreeEventSet(s EventSet) error {
	return l.call(l.symbols[symEventSetFree], uintptr(s))
}

// WatchXIDs makes the driver store future XID errors of a board in an event set. If the error is
// ErrUnknown, the caller must free the set.
func (l *Library) WatchXIDs(board Device, s EventSet) error {
	// On all platforms that NVML supports, a 64-bit argument fits into one register.
	return l.call(l.symbols[symRegisterEvents], uintptr(board), xidCriticalError, uintptr(s))
}

// NextXID removes an event from an event set and returns the event. NextXID does not wait for
// events. If the set contains no event, the error is ErrTimeout.
func (l *Library) NextXID(s EventSet) (XIDEvent, error) {
	l.event = eventData{gpuInstance: NoInstance}
	if err := l.call(l.symbols[symEventSetWait], uintptr(s), address(&l.event), 0); err != nil {
		return XIDEvent{}, err
	}
	return XIDEvent{Device(l.event.device), l.event.gpuInstance, l.event.data}, nil
}
