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

// NewEventSet creates a set that stores the events of boards until they are read. It must be freed.
func (l *Library) NewEventSet() (EventSet, error) {
	if l.symbols[symEventSetWait] == 0 {
		return 0, ErrFunctionNotFound
	}
	l.out = [2]uint64{}
	err := l.call(l.symbols[symEventSetCreate], address(&l.out))
	return EventSet(l.out[0]), err
}

// FreeEventSet frees a set and stops its watches.
func (l *Library) FreeEventSet(s EventSet) error {
	return l.call(l.symbols[symEventSetFree], uintptr(s))
}

// WatchXIDs makes the driver store the XID errors of a board in a set from now on. After
// ErrUnknown, the set must be freed.
func (l *Library) WatchXIDs(board Device, s EventSet) error {
	// NVML only exists on platforms on which a 64-bit argument is one register.
	return l.call(l.symbols[symRegisterEvents], uintptr(board), xidCriticalError, uintptr(s))
}

// NextXID removes an event from a set. It does not wait: the error is ErrTimeout if there is no
// event.
func (l *Library) NextXID(s EventSet) (XIDEvent, error) {
	l.event = eventData{gpuInstance: NoInstance}
	if err := l.call(l.symbols[symEventSetWait], uintptr(s), address(&l.event), 0); err != nil {
		return XIDEvent{}, err
	}
	return XIDEvent{Device(l.event.device), l.event.gpuInstance, l.event.data}, nil
}
