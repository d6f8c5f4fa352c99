// A stub of libnvidia-ml.so.1 that returns scripted results. The script is the file "script"
// in the directory of the library. nvmlInit reads it. nvmlDeviceGetCount reads it again if the
// file was replaced. The script has these lines:
//
//   init rc=9 ms=20               nvmlInit takes 20 ms and fails with code 9
//   init crash=segv text=x        nvmlInit writes a line to stdout, and ends the process: segv,
//                                 abort, exit (status=N, 3 by default)
//   driver version=580.95.05      the driver's version; the default is 590.48.01
//   gpu key=value...              a board: uuid name serial minor migmode and, in NVML's units,
//                                 total reserved free used util enc dec power limit energy temp
//                                 sm mem reasons tx rx gen width violation ecc replays fabric (its state)
//                                 fabrichealth fabricrc fabricversion (the newest supported version)
//   field id=82 type=1 value=40   a field value of the last board; link=3 sets its scope;
//                                 rc=N sets its result, where -1 leaves the caller's memory
//                                 unchanged; value=none sets all bits of the value
//   mig key=value...              a MIG device of the last board: uuid name index gi
//                                 total reserved free used
//   gpm id=1 value=40             a GPM value of the last board, which then supports GPM; gi=7
//                                 selects a GPU instance; rc=N sets the result of the value;
//                                 value=none is NaN
//   proc key=value...             a process of the last board: pid mem gi kind=c|g|m sm
//   xid code=79                   an XID error of the last board; it causes an event if the board
//                                 is watched when the script is read; gi=1 names its GPU instance
//   rule fn=nvmlX key=value...    changes calls of a function, or of every function if fn is *:
//                                 rc=N makes them fail, and ms=N makes them take N ms; mig=0|1
//                                 and gpu=N select calls by device; after=N selects calls from
//                                 the N-th one on
//
// GPM returns values for two samples of the same device if the first one was read first.
// nvmlShutdown fails while samples or event sets exist. nvmlEventSetWait_v2 requires a timeout of 0.
//
// In names, underscores stand for spaces. A value that is missing in a line is not supported.
// If the file "calls" exists, the name of every called function is appended to it.
//
// With the flag OLD, the library only has the functions of the R450 series. With R535, the
// process lists have the layout of that series. With STRANGE, they have a layout that no driver
// uses. With CUDA14, the functions that are deprecated in CUDA 13 fail.
#define _GNU_SOURCE
#include "nvml_abi.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4,
    NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, TIMEOUT = 10, VERSION_MISMATCH = 25, UNKNOWN = 999
};
enum { MAX_GPUS = 16, MAX_MIGS = 8, MAX_PROCS = 512, MAX_FIELDS = 128, MAX_RULES = 32, MAX_EVENTS = 64, MAX_LINE = 1024 };
#define NONE 0xffffffffu
#define ABSENT (~0ull - 1)
#define NO_VALUE 1e300

typedef struct {
    char line[MAX_LINE];
} record;

typedef struct { int is_mig, gpu; } handle;

typedef struct {
    handle h;
    record r;
    char uuid[96], name[96];
    unsigned int index, gi;
    memory_v2 memory;
} mig;

typedef struct { unsigned int pid, gi, sm; char kind; unsigned long long memory; } process;
typedef struct { unsigned int id, link, type; int rc; double value; } field;
typedef struct { unsigned int id, gi; int rc; double value; } gpm;
typedef struct { char uuid[96]; unsigned int gi; long read; } gpm_sample;

typedef struct {
    handle h;
    record r;
    char uuid[96], name[96];
    memory_v2 memory;
    mig migs[MAX_MIGS];
    process procs[MAX_PROCS];
    field fields[MAX_FIELDS];
    gpm gpms[MAX_FIELDS];
    int nmigs, nprocs, nfields, ngpms;
} gpu;

typedef struct { char fn[96]; long rc, ms, mig, gpu, after; } rule;

static gpu *gpus;
static int ngpus, inits, driver = -1;
static rule rules[MAX_RULES];
static int nrules;
static long calls;
static char folder[400], version[80];
static ino_t script;
static int samples;
typedef struct { int gpu; unsigned int gi; unsigned long long code; } event;
static event events[MAX_EVENTS];
static int nevents;
typedef struct { int watched[MAX_GPUS]; } event_set;
static event_set *set; // the receiver uses only one
static long init_ms;

// get copies the value of a key and reports whether the line has it.
static int get(const char *line, const char *key, char *out, size_t size) {
    char want[64];
    snprintf(want, sizeof want, " %s=", key);
    const char *at = strstr(line, want);
    if (!at) return 0;
    at += strlen(want);
    size_t n = strcspn(at, " \n");
    if (n >= size) n = size - 1;
    memcpy(out, at, n);
    out[n] = 0;
    for (char *c = out; *c && !strcmp(key, "name"); c++)
        if (*c == '_') *c = ' ';
    return 1;
}

static unsigned long long number(const char *line, const char *key, unsigned long long fallback) {
    char text[64];
    return get(line, key, text, sizeof text) ? strtoull(text, NULL, 0) : fallback;
}

static memory_v2 memory_of(const char *line) {
    memory_v2 m = {0};
    m.total = number(line, "total", ABSENT);
    m.reserved = number(line, "reserved", 0);
    m.free = number(line, "free", 0);
    m.used = number(line, "used", 0);
    return m;
}

static void locate(void) {
    Dl_info info;
    if (folder[0] || !dladdr((void *)locate, &info)) return;
    snprintf(folder, sizeof folder, "%s", info.dli_fname);
    char *slash = strrchr(folder, '/');
    if (slash) *slash = 0;
}

static int read_script(void) {
    char path[512], line[MAX_LINE], text[512];
    int rc = SUCCESS;
    locate();
    snprintf(path, sizeof path, "%s/script", folder);
    FILE *f = fopen(path, "r");
    if (!f) return 9;
    struct stat info;
    if (!fstat(fileno(f), &info)) script = info.st_ino;
    // Reuse the memory, because handles stay valid while the library is initialized.
    if (gpus) memset(gpus, 0, MAX_GPUS * sizeof *gpus);
    else gpus = calloc(MAX_GPUS, sizeof *gpus);
    ngpus = nrules = 0;
    calls = init_ms = 0;
    strcpy(version, "590.48.01");
    while (fgets(line, sizeof line, f)) {
        gpu *g = ngpus ? &gpus[ngpus - 1] : NULL;
        if (!strncmp(line, "init ", 5)) {
            rc = (int)number(line, "rc", 0);
            init_ms = (long)number(line, "ms", 0);
            if (get(line, "text", text, sizeof text)) {
                puts(text);
                fflush(stdout);
            }
            if (get(line, "crash", text, sizeof text)) {
                if (text[0] == 'a') abort();
                if (text[0] == 'e') exit((int)number(line, "status", 3));
                *(volatile int *)8 = 1;
            }
        } else if (!strncmp(line, "driver ", 7)) {
            get(line, "version", version, sizeof version);
        } else if (!strncmp(line, "gpu ", 4)) {
            g = &gpus[ngpus];
            g->h.gpu = ngpus++;
            strcpy(g->r.line, line);
            g->memory = memory_of(line);
            get(line, "uuid", g->uuid, sizeof g->uuid);
            get(line, "name", g->name, sizeof g->name);
        } else if (!strncmp(line, "mig ", 4)) {
            mig *m = &g->migs[g->nmigs];
            m->h.is_mig = 1;
            m->h.gpu = g->h.gpu;
            strcpy(m->r.line, line);
            m->memory = memory_of(line);
            m->index = (unsigned)number(line, "index", (unsigned long long)g->nmigs++);
            m->gi = (unsigned)number(line, "gi", 0);
            get(line, "uuid", m->uuid, sizeof m->uuid);
            get(line, "name", m->name, sizeof m->name);
        } else if (!strncmp(line, "proc ", 5)) {
            process *p = &g->procs[g->nprocs++];
            p->pid = (unsigned)number(line, "pid", 0);
            p->memory = number(line, "mem", ~0ull);
            p->gi = (unsigned)number(line, "gi", NONE);
            p->sm = (unsigned)number(line, "sm", 0);
            p->kind = get(line, "kind", text, sizeof text) ? text[0] : 'c';
        } else if (!strncmp(line, "field ", 6)) {
            field *v = &g->fields[g->nfields++];
            v->id = (unsigned)number(line, "id", 0);
            v->link = (unsigned)number(line, "link", 0);
            v->type = (unsigned)number(line, "type", 3);
            v->rc = (int)number(line, "rc", 0);
            if (get(line, "value", text, sizeof text)) v->value = strcmp(text, "none") ? strtod(text, NULL) : NO_VALUE;
        } else if (!strncmp(line, "gpm ", 4)) {
            gpm *v = &g->gpms[g->ngpms++];
            v->id = (unsigned)number(line, "id", 0);
            v->gi = (unsigned)number(line, "gi", NONE);
            v->rc = (int)number(line, "rc", 0);
            if (get(line, "value", text, sizeof text)) v->value = strcmp(text, "none") ? strtod(text, NULL) : NAN;
        } else if (!strncmp(line, "xid ", 4)) {
            if (set && set->watched[g->h.gpu] && nevents < MAX_EVENTS)
                events[nevents++] = (event){g->h.gpu, (unsigned)number(line, "gi", NONE), number(line, "code", 0)};
        } else if (!strncmp(line, "rule ", 5)) {
            rule *r = &rules[nrules++];
            get(line, "fn", r->fn, sizeof r->fn);
            r->rc = (long)number(line, "rc", 0);
            r->ms = (long)number(line, "ms", 0);
            r->mig = (long)number(line, "mig", ABSENT);
            r->gpu = (long)number(line, "gpu", ABSENT);
            r->after = (long)number(line, "after", 0);
        }
    }
    fclose(f);
    return rc;
}

// enter records a call and applies the script's rules to it. API functions call it first.
static int enter(const char *fn, const handle *h) {
    char path[512];
    snprintf(path, sizeof path, "%s/calls", folder);
    int log = open(path, O_WRONLY | O_APPEND);
    if (log >= 0) {
        dprintf(log, "%s\n", fn);
        close(log);
    }
    if (!inits) return UNINITIALIZED;
    calls++;
    for (int i = 0; i < nrules; i++) {
        const rule *r = &rules[i];
        if (strcmp(r->fn, "*") && strcmp(r->fn, fn)) continue;
        if (calls < r->after) continue;
        if (r->mig != (long)ABSENT && (!h || h->is_mig != r->mig)) continue;
        if (r->gpu != (long)ABSENT && (!h || h->gpu != r->gpu)) continue;
        if (r->ms) usleep((useconds_t)r->ms * 1000);
        if (r->rc) return (int)r->rc;
    }
    return SUCCESS;
}

#define ENTER(h)                                                                                                       \
    do {                                                                                                               \
        int rc_ = enter(__func__, (const handle *)(h));                                                                \
        if (rc_) return rc_;                                                                                           \
    } while (0)

#ifdef CUDA14
#define GONE return 26
#else
#define GONE
#endif

#define API __attribute__((visibility("default"))) int

API nvmlInit_v2(void) {
    int rc = read_script();
    usleep((useconds_t)init_ms * 1000);
    if (rc) {
        free(gpus);
        gpus = NULL;
        return rc;
    }
    // Like the real library, keep a file open while the library is initialized.
    if (!inits++) driver = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return SUCCESS;
}

API nvmlShutdown(void) {
    if (!inits) return UNINITIALIZED;
    if (!--inits) {
        close(driver);
        free(gpus);
        gpus = NULL;
    }
    return samples || set ? UNKNOWN : SUCCESS;
}

API nvmlSystemGetDriverVersion(char *out, unsigned int size) {
    ENTER(NULL);
    snprintf(out, size, "%s", version);
    return SUCCESS;
}

API nvmlDeviceGetCount_v2(unsigned int *n) {
    char path[512];
    struct stat info;
    snprintf(path, sizeof path, "%s/script", folder);
    if (!stat(path, &info) && info.st_ino != script) {
        int rc = read_script();
        if (rc) return rc;
    }
    ENTER(NULL);
    *n = (unsigned)ngpus;
    return SUCCESS;
}

API nvmlDeviceGetHandleByIndex_v2(unsigned int i, void **h) {
    if (i >= (unsigned)ngpus) return INVALID_ARGUMENT;
    ENTER(&gpus[i]);
    *h = &gpus[i];
    return SUCCESS;
}

API nvmlDeviceGetUUID(handle *h, char *out, unsigned int size) {
    ENTER(h);
    snprintf(out, size, "%s", h->is_mig ? ((mig *)h)->uuid : ((gpu *)h)->uuid);
    return SUCCESS;
}

API nvmlDeviceGetSerial(handle *h, char *out, unsigned int size) {
    ENTER(h);
    if (h->is_mig) return INVALID_ARGUMENT;
    char text[96];
    if (!get(((gpu *)h)->r.line, "serial", text, sizeof text)) return NOT_SUPPORTED;
    snprintf(out, size, "%s", text);
    return SUCCESS;
}

API nvmlDeviceGetName(handle *h, char *out, unsigned int size) {
    ENTER(h);
    snprintf(out, size, "%s", h->is_mig ? ((mig *)h)->name : ((gpu *)h)->name);
    return SUCCESS;
}

static int answer32(handle *h, const char *key, unsigned int *out) {
    unsigned long long v = number(h->is_mig ? ((mig *)h)->r.line : ((gpu *)h)->r.line, key, ABSENT);
    if (v == ABSENT) return NOT_SUPPORTED;
    *out = (unsigned)v;
    return SUCCESS;
}

static int answer64(handle *h, const char *key, unsigned long long *out) {
    unsigned long long v = number(h->is_mig ? ((mig *)h)->r.line : ((gpu *)h)->r.line, key, ABSENT);
    if (v == ABSENT) return NOT_SUPPORTED;
    *out = v;
    return SUCCESS;
}

#define SCALAR(fn, key)                                                                                                \
    API fn(handle *h, unsigned int *out) {                                                                             \
        ENTER(h);                                                                                                      \
        return answer32(h, key, out);                                                                                  \
    }

SCALAR(nvmlDeviceGetMinorNumber, "minor")
SCALAR(nvmlDeviceGetPowerUsage, "power")
SCALAR(nvmlDeviceGetEnforcedPowerLimit, "limit")
SCALAR(nvmlDeviceGetMaxPcieLinkGeneration, "gen")
SCALAR(nvmlDeviceGetMaxPcieLinkWidth, "width")
SCALAR(nvmlDeviceGetPcieReplayCounter, "replays")

API nvmlDeviceGetUtilizationRates(handle *h, unsigned int *out) {
    ENTER(h);
    out[1] = 99;
    return answer32(h, "util", out);
}

API nvmlDeviceGetEncoderUtilization(handle *h, unsigned int *out, unsigned int *period) {
    ENTER(h);
    *period = 1000000;
    return answer32(h, "enc", out);
}

API nvmlDeviceGetDecoderUtilization(handle *h, unsigned int *out, unsigned int *period) {
    ENTER(h);
    *period = 1000000;
    return answer32(h, "dec", out);
}

API nvmlDeviceGetTemperature(handle *h, int sensor, unsigned int *out) {
    ENTER(h);
    GONE;
    return sensor == 0 ? answer32(h, "temp", out) : INVALID_ARGUMENT;
}

API nvmlDeviceGetClockInfo(handle *h, int domain, unsigned int *out) {
    ENTER(h);
    return domain == 1 ? answer32(h, "sm", out) : domain == 2 ? answer32(h, "mem", out) : INVALID_ARGUMENT;
}

API nvmlDeviceGetPcieThroughput(handle *h, int counter, unsigned int *out) {
    ENTER(h);
    return answer32(h, counter == 0 ? "tx" : "rx", out);
}

API nvmlDeviceGetTotalEnergyConsumption(handle *h, unsigned long long *out) {
    ENTER(h);
    return answer64(h, "energy", out);
}

API nvmlDeviceGetCurrentClocksThrottleReasons(handle *h, unsigned long long *out) {
    ENTER(h);
    GONE;
    return answer64(h, "reasons", out);
}

API nvmlDeviceGetViolationStatus(handle *h, int policy, unsigned long long *out) {
    ENTER(h);
    GONE;
    out[0] = 1;
    int rc = answer64(h, "violation", &out[1]);
    out[1] += (unsigned long long)policy;
    return rc;
}

API nvmlDeviceGetTotalEccErrors(handle *h, int type, int counter, unsigned long long *out) {
    ENTER(h);
    int rc = counter == 0 ? answer64(h, "ecc", out) : INVALID_ARGUMENT;
    *out += (unsigned long long)type;
    return rc;
}

static const memory_v2 *memory_at(handle *h) { return h->is_mig ? &((mig *)h)->memory : &((gpu *)h)->memory; }

API nvmlDeviceGetMemoryInfo(handle *h, memory_v1 *out) {
    ENTER(h);
    const memory_v2 *m = memory_at(h);
    if (m->total == ABSENT) return NOT_SUPPORTED;
    out->total = m->total;
    out->free = m->free;
    out->used = m->used + m->reserved;
    return SUCCESS;
}

static int list(const char *fn, handle *h, char kind, unsigned int *count, void *out, size_t stride) {
    int rc = enter(fn, h);
    if (rc) return rc;
    gpu *g = &gpus[h->gpu];
    unsigned int n = 0, room = *count;
    for (int i = 0; i < g->nprocs; i++) {
        process *p = &g->procs[i];
        if (p->kind != kind || (h->is_mig && p->gi != ((mig *)h)->gi)) continue;
        if (n < room) {
            process_r535 full = {p->pid, p->memory, p->gi, p->gi == NONE ? NONE : 0, 0};
            memcpy((char *)out + n * stride, &full, stride);
        }
        n++;
    }
    *count = n;
    return n > room ? INSUFFICIENT_SIZE : SUCCESS;
}

#define LIST(fn, kind, type)                                                                                           \
    API fn(handle *h, unsigned int *count, void *out) { return list(__func__, h, kind, count, out, sizeof(type)); }

LIST(nvmlDeviceGetComputeRunningProcesses, 'c', process_v1)
LIST(nvmlDeviceGetGraphicsRunningProcesses, 'g', process_v1)

API nvmlDeviceGetProcessUtilization(handle *h, process_sample *out, unsigned int *count, unsigned long long after) {
    ENTER(h);
    gpu *g = &gpus[h->gpu];
    // The driver's clock is fixed at 1,000,000 µs. The last sample period was equally long.
    const unsigned long long now = 1000000;
    unsigned int n = 0, room = *count;
    if (number(g->r.line, "migmode", 0)) return NOT_SUPPORTED;
    for (int i = 0; i < g->nprocs; i++) {
        process *p = &g->procs[i];
        if (!p->sm || after >= now) continue;
        if (n < room) out[n] = (process_sample){.pid = p->pid, .timestamp = now, .sm = p->sm};
        n++;
    }
    *count = n;
    return n > room ? INSUFFICIENT_SIZE : n ? SUCCESS : NOT_FOUND;
}

#ifndef OLD

API nvmlDeviceGetMigMode(handle *h, unsigned int *current, unsigned int *pending) {
    ENTER(h);
    *pending = 1;
    return answer32(h, "migmode", current);
}

API nvmlDeviceGetMaxMigDeviceCount(handle *h, unsigned int *n) {
    ENTER(h);
    *n = MAX_MIGS;
    return SUCCESS;
}

API nvmlDeviceGetMigDeviceHandleByIndex(handle *h, unsigned int index, void **out) {
    ENTER(h);
    gpu *g = (gpu *)h;
    for (int i = 0; i < g->nmigs; i++)
        if (g->migs[i].index == index) {
            *out = &g->migs[i];
            return SUCCESS;
        }
    return NOT_FOUND;
}

API nvmlDeviceGetGpuInstanceId(handle *h, unsigned int *id) {
    ENTER(h);
    if (!h->is_mig) return NOT_SUPPORTED;
    *id = ((mig *)h)->gi;
    return SUCCESS;
}

API nvmlDeviceGetCurrentClocksEventReasons(handle *h, unsigned long long *out) {
    ENTER(h);
    return answer64(h, "reasons", out);
}

API nvmlDeviceGetMemoryInfo_v2(handle *h, memory_v2 *out) {
    ENTER(h);
    if (out->version != (sizeof *out | 2u << 24)) return 25;
    const memory_v2 *m = memory_at(h);
    if (m->total == ABSENT) return NOT_SUPPORTED;
    *out = *m;
    out->version = sizeof *out | 2u << 24;
    return SUCCESS;
}

API nvmlDeviceGetTemperatureV(handle *h, temperature_v1 *t) {
    ENTER(h);
    if (t->version != (sizeof *t | 1u << 24)) return 25;
    return t->sensor == 0 ? answer32(h, "temp", (unsigned int *)&t->celsius) : INVALID_ARGUMENT;
}

API nvmlDeviceGetGpuFabricInfoV(handle *h, fabric_info *out) {
    ENTER(h);
    const char *line = ((gpu *)h)->r.line;
    unsigned int version = out->version >> 24;
    size_t size = version == 3 ? sizeof *out : version == 2 ? offsetof(fabric_info, summary) : 0;
    if ((out->version & 0xffffff) != size || version > number(line, "fabricversion", 3)) return VERSION_MISMATCH;
    out->state = (unsigned char)number(line, "fabric", 0);
    out->result = (int)number(line, "fabricrc", 0);
    out->health = (unsigned int)number(line, "fabrichealth", 0);
    return SUCCESS;
}

API nvmlDeviceGetFieldValues(handle *h, int n, field_value *values) {
    ENTER(h);
    gpu *g = (gpu *)h;
    for (int i = 0; i < n; i++) {
        field_value *v = &values[i];
        int untouched = 0;
        for (int j = 0; j < g->nfields; j++) untouched |= g->fields[j].id == v->field_id && g->fields[j].rc == -1;
        if (untouched) continue;
        v->result = NOT_SUPPORTED;
        for (int j = 0; j < g->nfields; j++) {
            const field *f = &g->fields[j];
            if (f->id != v->field_id || f->link != v->scope_id) continue;
            v->result = f->rc;
            v->value_type = (int)f->type;
            memset(&v->value, 0xff, sizeof v->value);
            if (f->value == NO_VALUE) continue;
            switch (f->type) {
            case 0: v->value.d = f->value; break;
            case 1: v->value.ui = (unsigned)f->value; break;
            case 2: v->value.ul = (unsigned long)f->value; break;
            case 3: v->value.ull = (unsigned long long)f->value; break;
            case 4: v->value.sll = (long long)f->value; break;
            case 5: v->value.si = (int)f->value; break;
            case 6: v->value.us = (unsigned short)f->value; break;
            }
        }
    }
    return SUCCESS;
}

API nvmlGpmQueryDeviceSupport(handle *h, gpm_support *out) {
    ENTER(h);
    if (out->version != 1) return VERSION_MISMATCH;
    out->supported = gpus[h->gpu].ngpms > 0;
    return SUCCESS;
}

API nvmlGpmSampleAlloc(gpm_sample **out) {
    ENTER(NULL);
    *out = calloc(1, sizeof **out);
    samples++;
    return SUCCESS;
}

API nvmlGpmSampleFree(gpm_sample *s) {
    samples--;
    free(s);
    ENTER(NULL);
    return SUCCESS;
}

static long samples_read;

static int read_sample(handle *h, unsigned int gi, gpm_sample *s) {
    if (!gpus[h->gpu].ngpms) return NOT_SUPPORTED;
    strcpy(s->uuid, gpus[h->gpu].uuid);
    s->gi = gi;
    s->read = ++samples_read;
    return SUCCESS;
}

API nvmlGpmSampleGet(handle *h, gpm_sample *s) {
    ENTER(h);
    return read_sample(h, NONE, s);
}

API nvmlGpmMigSampleGet(handle *h, unsigned int gi, gpm_sample *s) {
    ENTER(h);
    return read_sample(h, gi, s);
}

API nvmlGpmMetricsGet(gpm_metrics *m) {
    ENTER(NULL);
    const gpm_sample *a = m->first, *b = m->second;
    if (m->version != 1) return VERSION_MISMATCH;
    if (!a->read || a->read >= b->read || strcmp(a->uuid, b->uuid) || a->gi != b->gi) return INVALID_ARGUMENT;
    for (int i = 0; i < ngpus; i++) {
        if (strcmp(gpus[i].uuid, b->uuid)) continue;
        for (unsigned int j = 0; j < m->count; j++) {
            gpm_metric *out = &m->metrics[j];
            out->result = NOT_SUPPORTED;
            for (int k = 0; k < gpus[i].ngpms; k++) {
                const gpm *v = &gpus[i].gpms[k];
                if (v->id != out->id || v->gi != b->gi) continue;
                out->result = v->rc;
                out->value = v->value;
            }
        }
    }
    return SUCCESS;
}

API nvmlEventSetCreate(event_set **out) {
    ENTER(NULL);
    if (set) return UNKNOWN;
    nevents = 0;
    *out = set = calloc(1, sizeof *set);
    return SUCCESS;
}

API nvmlEventSetFree(event_set *s) {
    if (s != set) return INVALID_ARGUMENT;
    set = NULL;
    free(s);
    ENTER(NULL);
    return SUCCESS;
}

API nvmlDeviceRegisterEvents(handle *h, unsigned long long types, event_set *s) {
    ENTER(h);
    if (h->is_mig || types != 8 || s != set) return INVALID_ARGUMENT;
    s->watched[h->gpu] = 1;
    return SUCCESS;
}

API nvmlEventSetWait_v2(event_set *s, event_data *out, unsigned int timeout) {
    ENTER(NULL);
    if (s != set || timeout) return INVALID_ARGUMENT;
    if (!nevents) return TIMEOUT;
    event e = events[0];
    memmove(events, events + 1, sizeof events[0] * (size_t)--nevents);
    *out = (event_data){&gpus[e.gpu], 8, e.code, e.gi, NONE};
    return SUCCESS;
}

#ifdef R535
#define PROCESS_V3 process_r535
#elif defined(STRANGE)
#define PROCESS_V3 struct { char bytes[28]; }
#else
#define PROCESS_V3 process_v2
#endif

LIST(nvmlDeviceGetComputeRunningProcesses_v3, 'c', PROCESS_V3)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, 'g', PROCESS_V3)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, 'm', PROCESS_V3)

#endif
