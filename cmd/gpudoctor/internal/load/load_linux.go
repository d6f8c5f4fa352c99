//go:build linux && !otelcol_gpu_no_nvml

// Package load keeps NVIDIA GPUs busy through libcuda's driver interface, which comes with
// the driver. Nothing of the device is set.
package load

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"
)

const (
	// Library is libcuda's name.
	Library = "libcuda.so.1"

	blocks, threads = 1024, 256
	// rounds are the turns of the kernel's loop: some milliseconds.
	rounds = 1_000_000
	// memory is what a device holds while it is busy, in bytes.
	memory = 1 << 30
)

// kernel multiplies and adds in every thread, and reads and writes one number of memory.
const kernel = `.version 6.0
.target sm_50
.address_size 64
.visible .entry spin(.param .u64 data, .param .u32 rounds)
{
	.reg .pred %p<2>;
	.reg .f32 %f<4>;
	.reg .b32 %r<7>;
	.reg .b64 %rd<5>;
	ld.param.u64 %rd1, [data];
	ld.param.u32 %r1, [rounds];
	cvta.to.global.u64 %rd2, %rd1;
	mov.u32 %r2, %ctaid.x;
	mov.u32 %r3, %ntid.x;
	mov.u32 %r4, %tid.x;
	mad.lo.u32 %r5, %r2, %r3, %r4;
	mul.wide.u32 %rd3, %r5, 4;
	add.s64 %rd4, %rd2, %rd3;
	ld.global.f32 %f1, [%rd4];
	mov.f32 %f2, 0f3F7FFFFF;
	mov.u32 %r6, 0;
AGAIN:
	fma.rn.f32 %f1, %f1, %f2, %f2;
	fma.rn.f32 %f1, %f1, %f2, %f2;
	fma.rn.f32 %f1, %f1, %f2, %f2;
	fma.rn.f32 %f1, %f1, %f2, %f2;
	add.u32 %r6, %r6, 1;
	setp.lt.u32 %p1, %r6, %r1;
	@%p1 bra AGAIN;
	st.global.f32 [%rd4], %f1;
	ret;
}
`

// driver is what is called of libcuda; all return a CUresult.
type driver struct {
	init        func(flags uint32) int32
	count       func(n *int32) int32
	device      func(device *int32, ordinal int32) int32
	retain      func(context *uintptr, device int32) int32
	release     func(device int32) int32
	current     func(context uintptr) int32
	module      func(module *uintptr, image *byte) int32
	unload      func(module uintptr) int32
	function    func(function *uintptr, module uintptr, name string) int32
	allocate    func(memory *uint64, size uint64) int32
	free        func(memory uint64) int32
	launch      func(f uintptr, gridX, gridY, gridZ, blockX, blockY, blockZ, shared uint32, stream uintptr, params, extra unsafe.Pointer) int32
	synchronize func() int32
	errorName   func(code int32, name **byte) int32
}

func open(library string) (d *driver, err error) {
	// dlerror tells each thread of its own last error.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	handle, err := purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("%s lacks a function: %v", library, problem)
		}
	}()
	d = &driver{}
	for name, function := range map[string]any{
		"cuInit": &d.init, "cuDeviceGetCount": &d.count, "cuDeviceGet": &d.device, "cuDevicePrimaryCtxRetain": &d.retain,
		"cuDevicePrimaryCtxRelease_v2": &d.release, "cuCtxSetCurrent": &d.current, "cuModuleLoadData": &d.module, "cuModuleUnload": &d.unload,
		"cuModuleGetFunction": &d.function, "cuMemAlloc_v2": &d.allocate, "cuMemFree_v2": &d.free, "cuLaunchKernel": &d.launch,
		"cuCtxSynchronize": &d.synchronize, "cuGetErrorName": &d.errorName,
	} {
		purego.RegisterLibFunc(function, handle, name)
	}
	return d, nil
}

// check makes an error of a CUresult.
func (d *driver) check(call string, code int32) error {
	if code == 0 {
		return nil
	}
	var name *byte
	if d.errorName(code, &name) == 0 && name != nil {
		return fmt.Errorf("%s: %s", call, unix.BytePtrToString(name))
	}
	return fmt.Errorf("%s: error %d", call, code)
}

// Run keeps all devices busy until ctx ends. Its error says which call of the library failed
// on a device.
func Run(ctx context.Context, library string) error {
	d, err := open(library)
	if err != nil {
		return err
	}
	if err := d.check("cuInit", d.init(0)); err != nil {
		return err
	}
	var n int32
	if err := d.check("cuDeviceGetCount", d.count(&n)); err != nil {
		return err
	}
	if n == 0 {
		return errors.New("libcuda knows no device")
	}
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			// A context is current to a thread.
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			if err := d.spin(ctx, i); err != nil {
				errs[i] = fmt.Errorf("device %d: %w", i, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// spin launches the kernel again and again.
func (d *driver) spin(ctx context.Context, ordinal int32) error {
	var device int32
	if err := d.check("cuDeviceGet", d.device(&device, ordinal)); err != nil {
		return err
	}
	var current uintptr
	if err := d.check("cuDevicePrimaryCtxRetain", d.retain(&current, device)); err != nil {
		return err
	}
	defer d.release(device)
	if err := d.check("cuCtxSetCurrent", d.current(current)); err != nil {
		return err
	}
	image := append([]byte(kernel), 0)
	var module, function uintptr
	if err := d.check("cuModuleLoadData", d.module(&module, &image[0])); err != nil {
		return err
	}
	defer d.unload(module)
	if err := d.check("cuModuleGetFunction", d.function(&function, module, "spin")); err != nil {
		return err
	}
	var data uint64
	if err := d.check("cuMemAlloc", d.allocate(&data, memory)); err != nil {
		return err
	}
	defer d.free(data)
	turns := uint32(rounds)
	params := [2]unsafe.Pointer{unsafe.Pointer(&data), unsafe.Pointer(&turns)} //nolint:gosec // The kernel's parameters, as libcuda wants them.
	var pins runtime.Pinner
	defer pins.Unpin()
	for _, p := range []any{&data, &turns, &params} {
		pins.Pin(p)
	}
	for ctx.Err() == nil {
		code := d.launch(function, blocks, 1, 1, threads, 1, 1, 0, 0, unsafe.Pointer(&params), nil) //nolint:gosec // As above.
		if err := d.check("cuLaunchKernel", code); err != nil {
			return err
		}
		if err := d.check("cuCtxSynchronize", d.synchronize()); err != nil {
			return err
		}
	}
	return nil
}
