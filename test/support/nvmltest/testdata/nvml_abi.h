// The part of NVML's ABI that the receiver uses. The stub library has the same ABI.
#ifndef NVML_ABI_H
#define NVML_ABI_H

typedef struct {
    unsigned long long total, free, used;
} memory_v1;

typedef struct {
    unsigned int version;
    unsigned long long total, reserved, free, used;
} memory_v2;

typedef struct {
    unsigned int version;
    int sensor; // an enum
    int celsius;
} temperature_v1;

typedef union {
    double d;
    int si;
    unsigned int ui;
    unsigned long ul;
    unsigned long long ull;
    long long sll;
    unsigned short us;
} value;

typedef struct {
    unsigned int field_id, scope_id;
    long long timestamp, latency;
    int value_type, result; // enums
    value value;
} field_value;

typedef struct {
    unsigned int pid;
    unsigned long long memory;
} process_v1;

typedef struct {
    unsigned int pid;
    unsigned long long memory;
    unsigned int gpu_instance, compute_instance;
} process_v2;

// Functions with the suffix _v3 use this structure in R535 drivers before 535.98.
typedef struct {
    unsigned int pid;
    unsigned long long memory;
    unsigned int gpu_instance, compute_instance;
    unsigned long long protected_memory;
} process_r535;

typedef struct {
    unsigned int pid;
    unsigned long long timestamp;
    unsigned int sm, memory, encoder, decoder;
} process_sample;

typedef struct {
    unsigned int version;
    unsigned char cluster[16];
    int result; // enum
    unsigned int clique;
    unsigned char state;
    unsigned int health;
    unsigned char summary; // since version 3
} fabric_info;

typedef struct {
    unsigned int version, supported;
} gpm_support;

typedef struct {
    unsigned int id;
    int result; // enum
    double value;
    char *short_name, *long_name, *unit;
} gpm_metric;

typedef struct {
    void *device;
    unsigned long long type, data;
    unsigned int gpu_instance, compute_instance;
} event_data;

typedef struct {
    unsigned int version, count;
    void *first, *second;
    gpm_metric metrics[333];
} gpm_metrics;

#endif
