/* A libcuda.so.1 that numbers GPUs as the lines "sys cuda HEXDIGITS" of FAKE_NVML_FILE say. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char found[64][33];
static int count;

int cuInit(unsigned flags) {
    (void)flags;
    char line[512];
    FILE *file = fopen(getenv("FAKE_NVML_FILE"), "rb");
    if (!file) return 100; /* no device */
    count = 0;
    while (fgets(line, sizeof line, file))
        if (count < 64 && !strncmp(line, "sys cuda ", 9) && sscanf(line + 9, "%32s", found[count]) == 1) count++;
    fclose(file);
    return count ? 0 : 100;
}

int cuDeviceGetCount(int *out) { return *out = count, 0; }
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, 0; }

int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    for (int i = 0; i < 16; i++) {
        unsigned byte;
        sscanf(found[device] + 2 * i, "%2x", &byte);
        uuid[i] = (unsigned char)byte;
    }
    return 0;
}
