//go:build linux && !otelcol_gpu_no_nvml

package nvml

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// The unwritten constant is the byte that fills a list before the library writes to the list.
const unwritten = "Z"

// Processes appends the processes of one kind on a device to the list. If the board is in MIG mode,
// the library lists the processes of all instances of the board. If the caller is not permitted to
// list these processes, the error is ErrNoPermission.
//
// The entries that the library writes have one of three layouts. Neither the name of the function
// nor the version of the driver reliably determines the layout, because R535 changed the layout of
// the _v3 function and later reverted the change. Therefore, the buffer is large enough for the
// largest layout, and the number of bytes that the library writes determines the layout. If the
// number of written bytes matches none of the layouts, Processes returns an error.
func (l *Library) Processes(d Device, kind ProcessKind, list []Process) ([]Process, error) {
	n, err := l.fill(len(l.list)/processInfoMaxSize, func(entries int) error {
		if size := entries * processInfoMaxSize; len(l.list) < size {
			l.list = make([]byte, size)
		}
		for i := range l.list {
			l.list[i] = unwritten[0]
		}
		return l.call(l.symbols[symProcesses[kind]], uintptr(d), address(&l.count), address(&l.list[0]))
	})
	if err != nil {
		return list, err
	}
	return appendProcesses(list, l.list, n)
}

// The fill method uses the call function to fill a list, and returns the number of entries in the
// list. The list initially has space for at least the given number of entries. Until all entries
// fit, the method repeats the call with a larger list.
func (l *Library) fill(entries int, call func(entries int) error) (int, error) {
	entries = max(entries, listStart)
	for range listRetries {
		l.count = uint32(entries)
		err := call(entries)
		if !errors.Is(err, ErrInsufficientSize) {
			return min(int(l.count), entries), err
		}
		// Allocate more space than needed, because there may be more entries during the next call.
		if entries = max(2*entries, int(l.count)+listStart); entries > listMax {
			break
		}
	}
	return 0, ErrInsufficientSize
}

// errProcessLayout means that the entries of a process list have none of the known sizes.
var errProcessLayout = errors.New("the library's process list has an unknown layout")

// appendProcesses parses n entries from the buffer to which the library has written, and appends
// them to the list.
func appendProcesses(list []Process, written []byte, n int) ([]Process, error) {
	if n == 0 {
		return list, nil
	}
	// The written bytes can be counted, because each layout ends with a field, not with padding,
	// and the last byte of this field is 0 or 0xff ("none").
	var stride int
	switch len(bytes.TrimRight(written, unwritten)) {
	case n * processInfoV1Size:
		stride = processInfoV1Size
	case n * processInfoV2Size:
		stride = processInfoV2Size
	case n * processInfoMaxSize:
		stride = processInfoMaxSize
	default:
		return list, errProcessLayout
	}
	for i := range n {
		entry := written[i*stride:]
		p := Process{
			PID:         binary.NativeEndian.Uint32(entry),
			Memory:      binary.NativeEndian.Uint64(entry[processInfoMemory:]),
			GPUInstance: NoInstance,
		}
		if stride > processInfoV1Size {
			p.GPUInstance = binary.NativeEndian.Uint32(entry[processInfoGPUInstance:])
		}
		list = append(list, p)
	}
	return list, nil
}

// ProcessUtilization appends the driver's utilization samples for the processes on a board. Only
// samples that are newer than the given time are appended. The given time is in microseconds of the
// driver's clock, and 0 selects all available samples. If there are no samples, for example because
// all processes are idle, the error is ErrNotFound. If the board is in MIG mode, the error is
// ErrNotSupported.
func (l *Library) ProcessUtilization(d Device, after uint64, list []ProcessSample) ([]ProcessSample, error) {
	n, err := l.fill(len(l.samples), func(entries int) error {
		if len(l.samples) < entries {
			l.samples = make([]processSample, entries)
		}
		clear(l.samples)
		// On all platforms that NVML supports, a 64-bit argument fits into one register.
		return l.call(l.symbols[symProcessUtilization], uintptr(d), address(&l.samples[0]), address(&l.count), uintptr(after))
	})
	if err != nil {
		return list, err
	}
	for _, s := range l.samples[:n] {
		// Unused entries in the driver's ring buffer have the timestamp 0.
		if s.timestamp != 0 {
			list = append(list, ProcessSample{PID: s.pid, Time: s.timestamp, SM: s.sm})
		}
	}
	return list, nil
}
