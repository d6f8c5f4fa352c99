//go:build linux && !otelcol_gpu_no_nvml

package nvml

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// These constants are buffer sizes. Names and UUIDs have at most 96 bytes. A list initially has
// space for listStart entries, which is nearly always sufficient. If a library needs space for more
// than listMax entries, reading the list fails.
const (
	textSize    = 96
	listStart   = 64
	listMax     = 1 << 16
	listRetries = 4
)

// The searched slice contains the directories in which Linux distributions, GKE, the driver
// container of the GPU operator, and WSL install the library.
var searched = []string{
	"/usr/lib/x86_64-linux-gnu",
	"/usr/lib/aarch64-linux-gnu",
	"/usr/lib64",
	"/usr/lib",
	"/usr/local/nvidia/lib64",
	"/home/kubernetes/bin/nvidia/lib64",
	"/run/nvidia/driver/usr/lib/x86_64-linux-gnu",
	"/run/nvidia/driver/usr/lib/aarch64-linux-gnu",
	"/run/nvidia/driver/usr/lib64",
	"/usr/lib/wsl/lib",
}

const libraryName = "libnvidia-ml.so.1"

// Library is the initialized NVML library. A Library is not safe for concurrent use.
type Library struct {
	handle  uintptr
	symbols []uintptr
	queries []uintptr
	// The driver field is the version of the driver, or "" if the version is unknown.
	driver string
	// The reason field is the field number that the driver uses for FieldReasonSWThermal, or 0 if
	// the number is unknown.
	reason FieldID
	// The links field is true if the driver supports reading the error counters of a single NVLink.
	links bool

	// The library writes to the following fields. These fields must be on the heap, because Go may
	// move stacks.
	out     [2]uint64
	count   uint32
	text    [textSize]byte
	memory  memoryV1
	memory2 memoryV2
	degrees temperatureV1
	fabric  fabricInfo
	fields  []fieldValue
	list    []byte
	samples []processSample
	support gpmSupport
	gpm     gpmMetrics
	event   eventData
	info    dlInfo
}

// Open loads and initializes the library. If the path argument is empty, Open tries the libraries
// on the loader's search path and in the usual directories, and uses the first one that can be
// initialized. The error wraps ErrNoLibrary if no library can be loaded, ErrCrashed if a library
// crashes the child process that tries it, or the ResultError from the initialization. If the child
// process exceeds its time limit, the error wraps none of these.
func Open(path string) (*Library, error) {
	candidates := []string{path}
	if path == "" {
		candidates = found()
	}
	file, err := tried(path, candidates)
	if err != nil {
		return nil, err
	}
	if file != "" {
		candidates = []string{file}
	}
	l, _, err := first(candidates, func(string) {})
	if err != nil {
		if path == "" {
			forget(path) // The next call to Open may find another library.
		}
		return nil, err
	}
	// If the driver version is unknown, fields that depend on the version are not read.
	if driver, err := l.string(symDriverVersion); err == nil {
		l.driver, l.reason, l.links = driver, firstReason(driver), hasLinkCounters(driver)
	}
	return l, nil
}

// The found function returns the library candidates: the library name, which the loader searches
// for, and the paths of the libraries in the searched directories.
func found() []string {
	candidates := []string{libraryName}
	for _, dir := range searched {
		file := filepath.Join(dir, libraryName)
		if _, err := os.Stat(file); err == nil {
			candidates = append(candidates, file)
		}
	}
	return candidates
}

// The first function returns the first candidate that can be loaded and initialized. The function
// calls the trying function before it loads each candidate. The returned path is the path of the
// loaded file, even if the initialization of the library failed.
func first(candidates []string, trying func(candidate string)) (l *Library, file string, err error) {
	for _, candidate := range candidates {
		trying(candidate)
		l, f, refusal := load(candidate)
		if refusal == nil {
			return l, f, nil
		}
		// An error from a library that was loaded is more informative than the error that another
		// library is missing.
		if err == nil || errors.Is(err, ErrNoLibrary) && !errors.Is(refusal, ErrNoLibrary) {
			file, err = f, refusal
		}
	}
	return nil, file, err
}

// The load function loads and initializes a library, and returns the library and the file that was
// loaded.
func load(path string) (*Library, string, error) {
	// The loader stores its error text per thread.
	runtime.LockOSThread()
	handle, err := purego.Dlopen(path, purego.RTLD_LAZY|purego.RTLD_LOCAL)
	runtime.UnlockOSThread()
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrNoLibrary, err)
	}
	l := &Library{handle: handle}
	for _, names := range symbolNames {
		l.symbols = append(l.symbols, l.lookup(names))
	}
	for _, q := range queries {
		l.queries = append(l.queries, l.lookup(q.names))
	}
	if l.symbols[symInit] == 0 || l.symbols[symShutdown] == 0 {
		return nil, "", errors.Join(fmt.Errorf("%w: %s has no nvmlInit", ErrNoLibrary, path), purego.Dlclose(handle))
	}
	if !filepath.IsAbs(path) {
		path = l.file(path)
	}
	if err := l.call(l.symbols[symInit]); err != nil {
		return nil, path, errors.Join(fmt.Errorf("nvmlInit of %s: %w", path, err), purego.Dlclose(handle))
	}
	return l, path, nil
}

// lookup returns the address of the first of the given names that the library exports, or 0 if the
// library exports none of them.
func (l *Library) lookup(names []string) uintptr {
	for _, name := range names {
		if address, err := purego.Dlsym(l.handle, name); err == nil {
			return address
		}
	}
	return 0
}

// Close shuts down and unloads the library. The Library must not be used after Close.
func (l *Library) Close() error {
	return errors.Join(l.call(l.symbols[symShutdown]), purego.Dlclose(l.handle))
}

// The call method calls a function of the library. Pointer arguments must point to fields of the
// Library.
func (l *Library) call(fn uintptr, args ...uintptr) error {
	if fn == 0 {
		return ErrFunctionNotFound
	}
	r, _, _ := purego.SyscallN(fn, args...)
	runtime.KeepAlive(l)
	if code := ResultError(r); code != 0 {
		return code
	}
	return nil
}

// The address function returns the address of a field of a Library as an integer. The address
// remains valid, because the garbage collector does not move heap memory, and the method call keeps
// the Library alive.
func address[T any](p *T) uintptr {
	return uintptr(unsafe.Pointer(p)) //nolint:gosec // C functions take addresses.
}

// DeviceCount returns the number of boards.
func (l *Library) DeviceCount() (int, error) {
	err := l.call(l.symbols[symDeviceCount], address(&l.count))
	return int(l.count), err
}

// Device returns the handle of the board with the given index. The index must be less than
// DeviceCount.
func (l *Library) Device(index int) (Device, error) {
	l.out = [2]uint64{}
	err := l.call(l.symbols[symDeviceByIndex], uintptr(index), address(&l.out))
	return Device(l.out[0]), err
}

// MIGDevice returns the handle of the MIG device with the given index on a board. The index must be
// less than the value of the MaxMIGDevices query. If there is no MIG device with this index, the
// error is ErrNotFound.
func (l *Library) MIGDevice(board Device, index int) (Device, error) {
	l.out = [2]uint64{}
	err := l.call(l.symbols[symMIGDeviceByIndex], uintptr(board), uintptr(index), address(&l.out))
	return Device(l.out[0]), err
}

// UUID returns the UUID of a device. The UUID of a board starts with GPU-, and the UUID of a MIG
// device starts with MIG-.
func (l *Library) UUID(d Device) (string, error) { return l.string(symUUID, uintptr(d)) }

// Name returns the name of a device. For a board, the name is the model. For a MIG device, the name
// ends in "MIG " followed by the profile.
func (l *Library) Name(d Device) (string, error) { return l.string(symName, uintptr(d)) }

// Driver returns the version of the driver, such as 580.95.05, or "" if the version is unknown.
func (l *Library) Driver() string { return l.driver }

// Serial returns the serial number of the board, which is also printed on the board's label.
func (l *Library) Serial(board Device) (string, error) { return l.string(symSerial, uintptr(board)) }

// The string method calls a function with the signature f(of…, buffer, size) and returns the text
// that the function wrote to the buffer.
func (l *Library) string(s symbol, of ...uintptr) (string, error) {
	if err := l.call(l.symbols[s], append(of, address(&l.text), textSize)...); err != nil {
		return "", err
	}
	text, _, _ := bytes.Cut(l.text[:], []byte{0})
	return strings.ToValidUTF8(string(text), "?"), nil
}

// Query returns the value of a query for a device. If NVML has no value (NVML_VALUE_NOT_AVAILABLE,
// all bits set), the error is ErrNotSupported.
func (l *Library) Query(d Device, q Query) (uint64, error) {
	if q == FabricHealth {
		return l.fabricHealth(d)
	}
	l.out = [2]uint64{}
	spec := &queries[q]
	args := append(append(make([]uintptr, 0, 5), uintptr(d)), spec.args...)
	err := l.call(l.queries[q], append(args, address(&l.out[0]), address(&l.out[1]))...)
	v, none := l.out[0], uint64(math.MaxUint64)
	switch spec.result {
	case secondResult:
		v = l.out[1]
	case uint32Result:
		// The value is in the first 4 bytes of the first element.
		v, none = uint64(*(*uint32)(unsafe.Pointer(&l.out))), math.MaxUint32 //nolint:gosec // The C function wrote a uint32 to this address.
	}
	if err == nil && v == none {
		return 0, ErrNotSupported
	}
	if q == Temperature && (errors.Is(err, ErrDeprecated) || errors.Is(err, ErrFunctionNotFound)) {
		return l.temperature(d)
	}
	return v, err
}

// The temperature method calls the function that replaces nvmlDeviceGetTemperature, which CUDA 14
// removes. The new function was added in R565.
func (l *Library) temperature(d Device) (uint64, error) {
	l.degrees = temperatureV1{version: temperatureV1Version}
	err := l.call(l.symbols[symTemperatureV], uintptr(d), address(&l.degrees))
	if err == nil && l.degrees.celsius < 0 {
		return 0, ErrNotSupported // a negative value means that the temperature is not available
	}
	return uint64(max(l.degrees.celsius, 0)), err
}

// fabricJoined is NVML_GPU_FABRIC_STATE_COMPLETED.
const fabricJoined = 3

// fabricHealth reads the health of the NVLink fabric with the newest version of the structure that
// the driver supports.
func (l *Library) fabricHealth(d Device) (uint64, error) {
	err := error(ErrArgumentVersion)
	for _, version := range []uint32{fabricInfoV3Version, fabricInfoV2Version} {
		if errors.Is(err, ErrArgumentVersion) {
			l.fabric = fabricInfo{version: version}
			err = l.call(l.queries[FabricHealth], uintptr(d), address(&l.fabric))
		}
	}
	switch {
	case errors.Is(err, ErrArgumentVersion):
		return 0, ErrNotSupported // the driver supports neither version of the structure
	case err == nil && (l.fabric.state != fabricJoined || l.fabric.nvmlReturn != 0):
		return 0, ErrNotSupported
	}
	return uint64(l.fabric.health), err
}

// Memory returns the memory of a board or a MIG device. If NVML does not provide all values, the
// error is ErrNotSupported.
func (l *Library) Memory(d Device) (Memory, error) {
	l.memory2 = memoryV2{version: memoryV2Version}
	err := l.call(l.symbols[symMemoryV2], uintptr(d), address(&l.memory2))
	m := Memory{Total: l.memory2.total, Free: l.memory2.free, Used: l.memory2.used}
	if errors.Is(err, ErrFunctionNotFound) {
		err = l.call(l.symbols[symMemory], uintptr(d), address(&l.memory))
		m = Memory{Total: l.memory.total, Free: l.memory.free, Used: l.memory.used}
	}
	if err == nil && (m.Total == NoValue || m.Free == NoValue || m.Used == NoValue) {
		err = ErrNotSupported
	}
	if err != nil {
		return Memory{}, err
	}
	return m, nil
}

// FieldValues reads the fields whose IDs are in the given slice, and stores the results in the same
// slice. If the whole call fails, FieldValues returns an error. For each field that has no value,
// OK is false.
func (l *Library) FieldValues(d Device, values []FieldValue) error {
	l.fields = l.fields[:0]
	for i := range values {
		values[i].Value, values[i].OK = 0, false
		if id, ok := l.number(values[i].ID); ok {
			// With these initial values, an entry that the library does not write counts as failed.
			l.fields = append(l.fields, fieldValue{fieldID: id, scopeID: values[i].Link, valueType: math.MaxUint32, nvmlReturn: uint32(ErrUnknown)})
		}
	}
	if len(l.fields) == 0 {
		return nil
	}
	err := l.call(l.symbols[symFieldValues], uintptr(d), uintptr(len(l.fields)), address(&l.fields[0]))
	if err != nil {
		return err
	}
	asked := l.fields
	for i := range values {
		if _, ok := l.number(values[i].ID); !ok {
			continue
		}
		if f := &asked[0]; f.nvmlReturn == 0 {
			if v, ok := f.decode(); ok {
				values[i].Value, values[i].OK = v, true
			}
		}
		asked = asked[1:]
	}
	return nil
}

// The number method returns the number that the driver uses for a field, or false if the driver
// does not support the field.
func (l *Library) number(id FieldID) (uint32, bool) {
	switch id {
	case FieldReasonSWThermal, FieldReasonHWThermal, FieldReasonHWPowerBrake:
		return uint32(l.reason + id - FieldReasonSWThermal), l.reason != 0
	case FieldNVLinkErrorReplay, FieldNVLinkErrorRecovery, FieldNVLinkErrorCRC, FieldNVLinkRecoveryEvents:
		return uint32(id), l.links
	}
	return uint32(id), true
}

// The decode method converts the union in the value field to a number. The valueType field defines
// the type of the union. If all bits of an integer are set, there is no value
// (NVML_VALUE_NOT_AVAILABLE).
func (f *fieldValue) decode() (float64, bool) {
	word := binary.NativeEndian.Uint64(f.value[:])
	half := binary.NativeEndian.Uint32(f.value[:])
	short := binary.NativeEndian.Uint16(f.value[:])
	valueType := f.valueType
	if valueType == 2 { // unsigned long
		valueType = 3
		if strconv.IntSize == 32 {
			valueType = 1
		}
	}
	switch valueType {
	case 0:
		return math.Float64frombits(word), true
	case 1:
		return float64(half), half != math.MaxUint32
	case 3:
		return float64(word), word != math.MaxUint64
	case 4:
		return float64(int64(word)), word != math.MaxUint64
	case 5:
		return float64(int32(half)), half != math.MaxUint32
	case 6:
		return float64(short), short != math.MaxUint16
	default:
		return 0, false
	}
}
