// A libcuda.so.1 with one device that is busy while a kernel runs: the file "busy" in its folder
// becomes "script", from which the stub of NVML answers.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void become(const char *from) {
    Dl_info info;
    char dir[PATH_MAX], source[PATH_MAX + 16], target[PATH_MAX + 16];
    dladdr((void *)become, &info);
    snprintf(dir, sizeof dir, "%s", info.dli_fname);
    *strrchr(dir, '/') = 0;
    snprintf(source, sizeof source, "%s/%s", dir, from);
    snprintf(target, sizeof target, "%s/script", dir);
    rename(source, target);
}

int cuInit(unsigned flags) { return flags ? 1 : 0; }
int cuDeviceGetCount(int *n) { *n = 1; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)1; return device; }
int cuDevicePrimaryCtxRelease_v2(int device) { return device; }
int cuCtxSetCurrent(void *context) { return context != (void *)1; }
int cuModuleLoadData(void **module, const char *image) {
    *module = (void *)2;
    return strstr(image, ".visible .entry spin(") ? 0 : 218;
}
int cuModuleUnload(void *module) { return module != (void *)2; }
int cuModuleGetFunction(void **function, void *module, const char *name) {
    *function = (void *)3;
    return module != (void *)2 || strcmp(name, "spin");
}
int cuMemAlloc_v2(unsigned long long *memory, size_t size) { *memory = 4; return size == 0; }
int cuMemFree_v2(unsigned long long memory) { return memory != 4; }
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream,
                   void **params, void **extra) {
    if (function != (void *)3 || gx * gy * gz == 0 || bx * by * bz != 256 || shared || stream || extra)
        return 1;
    if (*(unsigned long long *)params[0] != 4 || *(unsigned *)params[1] == 0)
        return 1;
    become("busy");
    return 0;
}
int cuCtxSynchronize(void) { usleep(5000); return access("/", F_OK); }
int cuGetErrorName(int code, const char **name) {
    *name = code == 218 ? "CUDA_ERROR_INVALID_PTX" : "CUDA_ERROR_INVALID_VALUE";
    return 0;
}
