/* A libnvidia-ml.so.1 that answers from a text file, for tests through the real pynvml.
 *
 * The file (environment variable FAKE_NVML_FILE) has lines "SCOPE KEY VALUE": SCOPE is "sys", a GPU ("0"), or a MIG
 * slice of it ("0.1"). It is read again whenever it changes, so that a test can let time pass. A key that is missing
 * answers NOT_SUPPORTED, "error.KEY n" answers n, "sys fail_after n code" fails every call from the n-th on.
 * Layouts and return codes follow NVIDIA's nvml.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef int nvmlReturn_t;
typedef void *nvmlDevice_t;
typedef unsigned long long u64;

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
enum { ARGUMENT_VERSION_MISMATCH = 25, MAX_LINES = 2048, MAX_SLICES = 64 };

static char *text;
static char *lines[MAX_LINES];
static int line_count, references, calls;
static struct timespec seen;

static void load(void) {
    const char *path = getenv("FAKE_NVML_FILE");
    struct stat now;
    if (!path || stat(path, &now)) return;
    if (text && now.st_mtim.tv_sec == seen.tv_sec && now.st_mtim.tv_nsec == seen.tv_nsec) return;
    seen = now.st_mtim;
    free(text);
    text = calloc(1, (size_t)now.st_size + 1);
    FILE *file = fopen(path, "rb");
    if (file) {
        if (fread(text, 1, (size_t)now.st_size, file)) { /* a short file just has fewer lines */ }
        fclose(file);
    }
    line_count = 0;
    for (char *line = strtok(text, "\n"); line && line_count < MAX_LINES; line = strtok(NULL, "\n")) lines[line_count++] = line;
}

/* The n-th value of a key, or NULL. */
static const char *find(const char *scope, const char *key, int n) {
    char start[160];
    size_t length = (size_t)snprintf(start, sizeof start, "%s %s ", scope, key);
    for (int i = 0; i < line_count; i++)
        if (!strncmp(lines[i], start, length) && n-- == 0) return lines[i] + length;
    return NULL;
}

static nvmlReturn_t enter(const char *scope, const char *key) {
    char name[96];
    int from, code;
    load();
    if (!references) return UNINITIALIZED;
    const char *limit = find("sys", "fail_after", 0);
    if (limit && sscanf(limit, "%d %d", &from, &code) == 2 && ++calls > from) return code;
    snprintf(name, sizeof name, "error.%s", key);
    const char *error = find(scope, name, 0);
    return error ? atoi(error) : SUCCESS;
}

/* A handle is a number that is never NULL: 1 + GPU * 64 + (slice + 1). */
static nvmlDevice_t handle_of(int gpu, int slice) { return (nvmlDevice_t)(size_t)(1 + gpu * MAX_SLICES + slice + 1); }

static const char *scope_of(nvmlDevice_t device, char *buffer) {
    size_t number = (size_t)device;
    if (!number) return NULL;
    int gpu = (int)((number - 1) / MAX_SLICES), slice = (int)((number - 1) % MAX_SLICES) - 1;
    if (slice < 0) snprintf(buffer, 16, "%d", gpu);
    else snprintf(buffer, 16, "%d.%d", gpu, slice);
    return buffer;
}

static nvmlReturn_t value_of(nvmlDevice_t device, const char *key, const char **value) {
    char buffer[16];
    const char *scope = scope_of(device, buffer);
    if (!scope) return INVALID_ARGUMENT;
    nvmlReturn_t code = enter(scope, key);
    if (code) return code;
    *value = find(scope, key, 0);
    return *value ? SUCCESS : NOT_SUPPORTED;
}

static nvmlReturn_t one(nvmlDevice_t device, const char *key, unsigned *out) {
    const char *value;
    nvmlReturn_t code = value_of(device, key, &value);
    if (!code) *out = (unsigned)strtoul(value, NULL, 10);
    return code;
}

static nvmlReturn_t two(nvmlDevice_t device, const char *key, unsigned *a, unsigned *b) {
    const char *value;
    nvmlReturn_t code = value_of(device, key, &value);
    if (!code && sscanf(value, "%u %u", a, b) != 2) return NOT_SUPPORTED;
    return code;
}

static nvmlReturn_t string(const char *value, nvmlReturn_t code, char *out, unsigned size) {
    if (code) return code;
    if (strlen(value) >= size) return INSUFFICIENT_SIZE;
    strcpy(out, value);
    return SUCCESS;
}

static nvmlReturn_t system_string(const char *key, char *out, unsigned size) {
    nvmlReturn_t code = enter("sys", key);
    const char *value = find("sys", key, 0);
    return string(value, code ? code : value ? SUCCESS : NOT_SUPPORTED, out, size);
}

/* --- start and end --- */

nvmlReturn_t nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    load();
    const char *error = find("sys", "init_error", 0);
    if (error && atoi(error)) return atoi(error);
    references++;
    return SUCCESS;
}

nvmlReturn_t nvmlShutdown(void) {
    if (!references) return UNINITIALIZED;
    references--;
    return SUCCESS;
}

/* After a failed start the real one can return a wild pointer (hashcat PR 2773): nobody may call it. */
const char *nvmlErrorString(nvmlReturn_t code) {
    fprintf(stderr, "nvmlErrorString(%d) was called\n", code);
    abort();
}

/* --- the machine --- */

nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned size) { return system_string("driver_version", out, size); }
nvmlReturn_t nvmlSystemGetNVMLVersion(char *out, unsigned size) { return system_string("nvml_version", out, size); }

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *out) {
    nvmlReturn_t code = enter("sys", "cuda_version");
    const char *value = find("sys", "cuda_version", 0);
    if (code || !value) return code ? code : NOT_SUPPORTED;
    *out = atoi(value);
    return SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *out) { return nvmlSystemGetCudaDriverVersion_v2(out); }

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *out) {
    nvmlReturn_t code = enter("sys", "count");
    const char *value = find("sys", "count", 0);
    if (code) return code;
    *out = value ? (unsigned)atoi(value) : 0;
    return SUCCESS;
}

/* --- handles --- */

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *out) {
    char scope[16];
    const char *count = find("sys", "count", 0);
    if (!count || index >= (unsigned)atoi(count)) return INVALID_ARGUMENT;
    snprintf(scope, sizeof scope, "%u", index);
    nvmlReturn_t code = enter(scope, "handle");
    if (!code) *out = handle_of((int)index, -1);
    return code;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *out) {
    char key[16];
    nvmlReturn_t code = enter("sys", "by_uuid");
    if (code) return code;
    for (int i = 0; i < line_count; i++) {
        int gpu, slice = -1;
        const char *found = strstr(lines[i], " uuid ");
        if (!found || strcmp(found + 6, uuid)) continue;
        if (sscanf(lines[i], "%d.%d", &gpu, &slice) < 1) continue;
        snprintf(key, sizeof key, "%d", gpu);
        code = enter(key, "handle");
        if (!code) *out = handle_of(gpu, slice);
        return code;
    }
    return NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t gpu, unsigned index, nvmlDevice_t *out) {
    int number = (int)(((size_t)gpu - 1) / MAX_SLICES);
    char scope[16];
    snprintf(scope, sizeof scope, "%d.%u", number, index);
    nvmlReturn_t code = enter(scope, "handle");
    if (code) return code;
    if (!find(scope, "slice", 0)) return NOT_FOUND;
    *out = handle_of(number, (int)index);
    return SUCCESS;
}

/* --- one device --- */

#define STRING(symbol, key)                                                   \
    nvmlReturn_t symbol(nvmlDevice_t device, char *out, unsigned size) {      \
        const char *value = NULL;                                             \
        nvmlReturn_t code = value_of(device, key, &value);                    \
        return string(value, code, out, size);                                \
    }
#define ONE(symbol, key) \
    nvmlReturn_t symbol(nvmlDevice_t device, unsigned *out) { return one(device, key, out); }
#define TWO(symbol, key) \
    nvmlReturn_t symbol(nvmlDevice_t device, unsigned *a, unsigned *b) { return two(device, key, a, b); }

STRING(nvmlDeviceGetName, "name")
STRING(nvmlDeviceGetUUID, "uuid")
TWO(nvmlDeviceGetCudaComputeCapability, "compute_capability")
TWO(nvmlDeviceGetMigMode, "mig_mode")
TWO(nvmlDeviceGetEccMode, "ecc_mode")
ONE(nvmlDeviceGetNumGpuCores, "cores")
ONE(nvmlDeviceGetMaxMigDeviceCount, "mig_max_slices")
ONE(nvmlDeviceGetGpuInstanceId, "gpu_instance_id")
ONE(nvmlDeviceGetComputeInstanceId, "compute_instance_id")
ONE(nvmlDeviceGetEnforcedPowerLimit, "power_limit_mw")
ONE(nvmlDeviceGetPowerUsage, "power_draw_mw")
ONE(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_generation")
ONE(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width")
ONE(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_max_generation")
ONE(nvmlDeviceGetMaxPcieLinkWidth, "pcie_max_width")
ONE(nvmlDeviceGetComputeMode, "compute_mode")

struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, struct pci *out) {
    const char *value;
    nvmlReturn_t code = value_of(device, "pci_bus_id", &value);
    if (code) return code;
    memset(out, 0, sizeof *out);
    snprintf(out->bus_id, sizeof out->bus_id, "%s", value);
    return SUCCESS;
}

struct memory { u64 total, free, used; };
struct memory_v2 { unsigned version; u64 total, reserved, free, used; };

static nvmlReturn_t memory(nvmlDevice_t device, const char *key, u64 *total, u64 *reserved, u64 *used) {
    char buffer[16];
    const char *scope = scope_of(device, buffer);
    if (!scope) return INVALID_ARGUMENT;
    nvmlReturn_t code = enter(scope, key);
    const char *value = find(scope, "memory", 0);
    if (code || !value) return code ? code : NOT_SUPPORTED;
    return sscanf(value, "%llu %llu %llu", total, reserved, used) == 3 ? SUCCESS : NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, struct memory *out) {
    u64 reserved;
    nvmlReturn_t code = memory(device, "memory_v1", &out->total, &reserved, &out->used);
    if (code) return code;
    out->used += reserved; /* v1 counts what the driver reserves as used (gpustat #141) */
    out->free = out->total - out->used;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, struct memory_v2 *out) {
    if (out->version != (sizeof *out | 2u << 24)) return ARGUMENT_VERSION_MISMATCH;
    nvmlReturn_t code = memory(device, "memory_v2", &out->total, &out->reserved, &out->used);
    if (!code) out->free = out->total - out->reserved - out->used;
    return code;
}

struct attributes { unsigned multiprocessors, others[7]; u64 memory_mib; };

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, struct attributes *out) {
    unsigned mib = 0;
    memset(out, 0, sizeof *out);
    nvmlReturn_t code = two(device, "mig_attributes", &out->multiprocessors, &mib);
    out->memory_mib = mib;
    return code;
}

struct process { unsigned pid; u64 memory; unsigned gpu_instance, compute_instance; };

static nvmlReturn_t processes(nvmlDevice_t device, const char *key, unsigned *count, struct process *out) {
    char buffer[16];
    const char *scope = scope_of(device, buffer), *value;
    if (!scope || !count) return INVALID_ARGUMENT;
    nvmlReturn_t code = enter(scope, key);
    if (code) return code;
    if (!find(scope, "processes", 0)) return NOT_SUPPORTED;
    unsigned listed = 0, room = *count;
    while (find(scope, key, (int)listed)) listed++;
    *count = listed;
    if (room < listed || (!out && listed)) return INSUFFICIENT_SIZE; /* also when first asked with room for none */
    for (unsigned i = 0; i < listed; i++) {
        long long bytes;
        value = find(scope, key, (int)i);
        sscanf(value, "%u %lld", &out[i].pid, &bytes); /* -1, all bits set, means "not available" */
        out[i].memory = (u64)bytes;
        out[i].gpu_instance = out[i].compute_instance = 0xFFFFFFFFu;
    }
    return SUCCESS;
}

#define PROCESSES(symbol, key)                                                                \
    nvmlReturn_t symbol(nvmlDevice_t device, unsigned *count, struct process *out) {          \
        return processes(device, key, count, out);                                            \
    }

PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, "compute_processes")
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "compute_processes")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, "graphics_processes")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics_processes")

/* Clock types of nvml.h: 1 SM, 2 memory. */
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int type, unsigned *out) {
    return one(device, type == 1 ? "clock_sm_mhz" : type == 2 ? "clock_memory_mhz" : "clock_other", out);
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, int type, unsigned *out) {
    return one(device, type == 1 ? "clock_sm_max_mhz" : type == 2 ? "clock_memory_max_mhz" : "clock_other", out);
}

static nvmlReturn_t wide(nvmlDevice_t device, const char *key, u64 *out) {
    const char *value;
    nvmlReturn_t code = value_of(device, key, &value);
    if (!code) *out = strtoull(value, NULL, 10);
    return code;
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, u64 *out) { return wide(device, "throttle_bits", out); }
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, u64 *out) { return wide(device, "throttle_bits", out); }

struct violation { u64 reference_us, violation_ns; };

/* Policies of nvml.h: 0 power, 1 thermal. */
nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t device, int policy, struct violation *out) {
    out->reference_us = 0;
    return wide(device, policy == 0 ? "power_violation_ns" : policy == 1 ? "thermal_violation_ns" : "other", &out->violation_ns);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned *out) {
    return sensor ? INVALID_ARGUMENT : one(device, "temperature_c", out);
}

struct utilization { unsigned gpu, memory; };

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, struct utilization *out) {
    out->memory = 0;
    return one(device, "utilization_percent", &out->gpu);
}
