//go:build linux && !otelcol_gpu_no_nvml

// Package load keeps NVIDIA GPUs busy by using libcuda, which is part of the driver. The load does
// not change any device settings.
package load

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"
)

const (
	// Library is the file name of libcuda.
	Library = "libcuda.so.1"

	blocks, threads = 1024, 256
	// rounds is the number of loop iterations in one run of the kernel. One run has about 10^12
	// multiplications and takes at least tens of milliseconds.
	rounds = 1_000_000
	// memory is the number of bytes that are allocated on each device.
	memory = 1 << 30
)

// kernel is a CUDA kernel in PTX. Each thread multiplies and adds in a loop, and reads and writes
// one number in device memory.
//
//go:embed spin.ptx
var kernel string

// cuda is the handle of the loaded libcuda library.
type cuda uintptr

// call calls the libcuda function with the given name, which must return a CUresult.
func (c cuda) call(name string, args ...uintptr) error {
	function, err := purego.Dlsym(uintptr(c), name)
	if err != nil {
		return err
	}
	r, _, _ := purego.SyscallN(function, args...)
	if r = uintptr(uint32(r)); r == 0 {
		return nil
	}
	text := fmt.Sprint("error ", r)
	if function, err := purego.Dlsym(uintptr(c), "cuGetErrorName"); err == nil {
		s := newSlots()
		if known, _, _ := purego.SyscallN(function, r, address(&s.text)); uint32(known) == 0 && s.text != nil {
			text = unix.BytePtrToString(s.text)
		}
	}
	return fmt.Errorf("%s: %s", name, text)
}

// slots contains the variables that libcuda reads and writes.
type slots struct {
	count, device             int32
	context, module, function uintptr
	data                      uint64
	rounds                    uint32
	params                    [2]unsafe.Pointer // parameters of the kernel
	text                      *byte
}

// newSlots allocates slots on the heap, because Go may move a stack. The function must not be
// inlined, so that its result is allocated on the heap.
//
//go:noinline
func newSlots() *slots {
	s := &slots{rounds: rounds}
	s.params = [...]unsafe.Pointer{unsafe.Pointer(&s.data), unsafe.Pointer(&s.rounds)} //nolint:gosec // libcuda expects pointers.
	return s
}

func address[T any](p *T) uintptr {
	return uintptr(unsafe.Pointer(p)) //nolint:gosec // C takes addresses.
}

// Run keeps all devices busy until ctx is done. The returned error contains the failed library call
// and the device.
func Run(ctx context.Context, library string) error {
	// Lock the OS thread, because dlerror returns the last error of the calling thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	handle, err := purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return err
	}
	c, s := cuda(handle), newSlots()
	if err := c.call("cuInit", 0); err != nil {
		return err
	}
	if err := c.call("cuDeviceGetCount", address(&s.count)); err != nil {
		return err
	}
	if s.count == 0 {
		return errors.New("libcuda found no device")
	}
	errs := make([]error, s.count)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			// Lock the OS thread, because each thread has its own current CUDA context.
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			if err := c.spin(ctx, uintptr(i)); err != nil {
				errs[i] = fmt.Errorf("device %d: %w", i, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// The spin method launches the kernel repeatedly on one device until ctx is done.
func (c cuda) spin(ctx context.Context, ordinal uintptr) error {
	s := newSlots()
	image, entry := append([]byte(kernel), 0), []byte("spin\x00")
	var pins runtime.Pinner
	defer pins.Unpin()
	for _, p := range []any{s, &image[0], &entry[0]} {
		pins.Pin(p)
	}
	if err := c.call("cuDeviceGet", address(&s.device), ordinal); err != nil {
		return err
	}
	if err := c.call("cuDevicePrimaryCtxRetain", address(&s.context), uintptr(s.device)); err != nil {
		return err
	}
	defer func() { _ = c.call("cuDevicePrimaryCtxRelease_v2", uintptr(s.device)) }() // The driver also releases the context when the process exits, so errors are ignored.
	if err := c.call("cuCtxSetCurrent", s.context); err != nil {
		return err
	}
	if err := c.call("cuModuleLoadData", address(&s.module), address(&image[0])); err != nil {
		return err
	}
	defer func() { _ = c.call("cuModuleUnload", s.module) }()
	if err := c.call("cuModuleGetFunction", address(&s.function), s.module, address(&entry[0])); err != nil {
		return err
	}
	if err := c.call("cuMemAlloc_v2", address(&s.data), memory); err != nil {
		return err
	}
	defer func() { _ = c.call("cuMemFree_v2", uintptr(s.data)) }()
	for ctx.Err() == nil {
		if err := c.call("cuLaunchKernel", s.function, blocks, 1, 1, threads, 1, 1, 0, 0, address(&s.params), 0); err != nil {
			return err
		}
		if err := c.call("cuCtxSynchronize"); err != nil {
			return err
		}
	}
	return nil
}
