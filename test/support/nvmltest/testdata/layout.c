// Prints the C compiler's layout of the structures in nvml_abi.h.
#include "nvml_abi.h"
#include <stddef.h>
#include <stdio.h>

#define SIZE(s) printf(#s " %zu\n", sizeof(s))
#define AT(s, f) printf(#s "." #f " %zu\n", offsetof(s, f))

int main(void) {
    SIZE(memory_v1); AT(memory_v1, free); AT(memory_v1, used);
    SIZE(memory_v2); AT(memory_v2, total); AT(memory_v2, reserved); AT(memory_v2, free); AT(memory_v2, used);
    SIZE(temperature_v1); AT(temperature_v1, sensor); AT(temperature_v1, celsius);
    SIZE(field_value); AT(field_value, scope_id); AT(field_value, timestamp); AT(field_value, latency);
    AT(field_value, value_type); AT(field_value, result); AT(field_value, value);
    SIZE(process_v1); AT(process_v1, memory);
    SIZE(process_v2); AT(process_v2, memory); AT(process_v2, gpu_instance); AT(process_v2, compute_instance);
    SIZE(process_r535); AT(process_r535, protected_memory);
    SIZE(process_sample); AT(process_sample, timestamp); AT(process_sample, sm); AT(process_sample, memory);
    AT(process_sample, encoder); AT(process_sample, decoder);
    SIZE(fabric_info); AT(fabric_info, result); AT(fabric_info, state); AT(fabric_info, health);
    SIZE(gpm_support); AT(gpm_support, supported);
    SIZE(gpm_metric); AT(gpm_metric, result); AT(gpm_metric, value);
    SIZE(gpm_metrics); AT(gpm_metrics, count); AT(gpm_metrics, first); AT(gpm_metrics, second); AT(gpm_metrics, metrics);
    SIZE(event_data); AT(event_data, type); AT(event_data, data); AT(event_data, gpu_instance); AT(event_data, compute_instance);
    return 0;
}
