/* Stands for NVIDIA's driver where there is no GPU: as much of libcuda and NVML as is asked here.
 *
 * As with the real one, who may open a GPU's node may use it, and who ends gives all back.  A range
 * of bytes of the node, locked by fcntl(2), stands for memory, a byte for a MiB: the kernel knows
 * the owner by pid in every namespace, and lets go when it is gone.  What a card is and how it does
 * stands in the files of STATE/N, which tests write while programs run.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { GPUS_MAX = 8, TEXT_MAX = 96, CONTEXT_MIB = 300, HELD_MAX = 4096 };
#define MIB (1ull << 20)

/* ---- what the state says ---- */

static int text_of(int gpu, const char *name, char *text) {
    char path[256];
    snprintf(path, sizeof path, STATE "/%d/%s", gpu, name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return -1;
    ssize_t size = read(file, text, TEXT_MAX - 1);
    close(file);
    text[size < 0 ? 0 : size] = 0;
    text[strcspn(text, "\n")] = 0;
    return 0;
}

static unsigned long long number_of(int gpu, const char *name) {
    char text[TEXT_MAX] = "";
    text_of(gpu, name, text);
    return strtoull(text, NULL, 10);
}

static int says(int gpu, const char *name) {
    char text[TEXT_MAX];
    return !text_of(gpu, name, text);
}

static int gpu_count(void) {
    int count = 0;
    while (count < GPUS_MAX && says(count, "uuid")) count++;
    return count;
}

/* ---- memory: locked ranges of the node ---- */

static int opened_node(int gpu) {
    char path[64];
    snprintf(path, sizeof path, "/dev/nvidia%d", gpu);
    return open(path, O_RDWR | O_CLOEXEC);
}

/* The first lock of others at or behind a place; its length is 0 where there is none. */
static struct flock next_lock(int node, off_t place) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = place, .l_len = 0};
    if (fcntl(node, F_GETLK, &lock) || lock.l_type == F_UNLCK) lock.l_len = 0;
    return lock;
}

struct range { off_t start, mib; };
static struct range held[HELD_MAX];
static int held_count;

static unsigned long long used_mib(int node, int with_own) {
    unsigned long long used = 0;
    for (struct flock lock = next_lock(node, 0); lock.l_len;
         lock = next_lock(node, lock.l_start + lock.l_len))
        used += lock.l_len;
    for (int i = 0; with_own && i < held_count; i++) used += held[i].mib;
    return used;
}

/* A gap of this size between the ranges of all; one's own locks are not seen, so they are asked. */
static off_t gap(int node, off_t mib) {
    off_t place = 0, before = -1;
    while (place != before) {
        before = place;
        for (struct flock lock = next_lock(node, place);
             lock.l_len && lock.l_start < place + mib;
             lock = next_lock(node, place))
            place = lock.l_start + lock.l_len;
        for (int i = 0; i < held_count; i++)
            if (held[i].start < place + mib && place < held[i].start + held[i].mib)
                place = held[i].start + held[i].mib;
    }
    return place;
}

static int take(int node, unsigned long long total, off_t mib, off_t *start) {
    for (;;) {
        if (held_count == HELD_MAX || used_mib(node, 1) + mib > total) return 2;
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = gap(node, mib), .l_len = mib};
        if (!fcntl(node, F_SETLK, &lock)) {
            held[held_count++] = (struct range){lock.l_start, mib};
            *start = lock.l_start;
            return 0;
        }
        if (errno != EAGAIN && errno != EACCES) return 999;
    }
}

/* ---- CUDA ---- */

static struct { int gpu, node, has_context; } seen[GPUS_MAX];
static int seen_count = -1, current = -1;

static void see(int gpu) {
    for (int i = 0; i < seen_count; i++)
        if (seen[i].gpu == gpu) return;
    int node = says(gpu, "gone") ? -1 : opened_node(gpu);
    if (node < 0) return;
    seen[seen_count].gpu = gpu;
    seen[seen_count++].node = node;
}

static int named(const char *name) {
    char uuid[TEXT_MAX], *end;
    long index = strtol(name, &end, 10);
    if (*name && !*end) return index < gpu_count() ? (int)index : -1;
    for (int gpu = 0; *name && gpu < gpu_count(); gpu++)
        if (!text_of(gpu, "uuid", uuid) && !strncmp(uuid, name, strlen(name))) return gpu;
    return -1;
}

int cuInit(unsigned flags) {
    if (seen_count >= 0) return seen_count ? 0 : 100;
    seen_count = 0;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (!visible) {
        for (int gpu = 0; gpu < gpu_count(); gpu++) see(gpu);
    } else {
        char names[1024], *rest = names, *name;
        snprintf(names, sizeof names, "%s", visible);
        while ((name = strsep(&rest, ",")) && named(name) >= 0) see(named(name));
    }
    return seen_count ? 0 : 100;
}

int cuDeviceGetCount(int *count) { *count = seen_count; return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return index < seen_count ? 0 : 101; }

int cuDeviceGetUuid(unsigned char *bytes, int device) {
    char uuid[TEXT_MAX];
    text_of(seen[device].gpu, "uuid", uuid);
    char *digit = uuid + 4; /* behind GPU- */
    for (int i = 0; i < 16; i++) {
        unsigned byte;
        if (*digit == '-') digit++;
        sscanf(digit, "%2x", &byte);
        bytes[i] = byte;
        digit += 2;
    }
    return 0;
}

int cuDeviceGetUuid_v2(unsigned char *bytes, int device) { return cuDeviceGetUuid(bytes, device); }

int cuDevicePrimaryCtxRetain(void **context, int device) {
    off_t start;
    *context = (void *)(long)(device + 1);
    if (seen[device].has_context) return 0;
    seen[device].has_context = 1;
    return take(seen[device].node, number_of(seen[device].gpu, "memory"), CONTEXT_MIB, &start);
}

int cuCtxSetCurrent(void *context) { current = (int)(long)context - 1; return 0; }
int cuCtxSynchronize(void) { return says(seen[current].gpu, "gone") ? 719 : 0; }

int cuMemAlloc_v2(unsigned long long *address, size_t bytes) {
    off_t start;
    if (says(seen[current].gpu, "gone")) return 719;
    int code = take(seen[current].node, number_of(seen[current].gpu, "memory"),
                    (bytes + MIB - 1) / MIB, &start);
    *address = code ? 0 : (start + 1) * MIB;
    return code;
}

int cuMemGetInfo_v2(size_t *unused, size_t *total) {
    *total = number_of(seen[current].gpu, "memory") * MIB;
    *unused = *total - used_mib(seen[current].node, 1) * MIB;
    return 0;
}

/* ---- NVML: a handle is the number of the GPU, and one ---- */

enum { OK, UNINITIALIZED, INVALID, UNSUPPORTED, NO_PERMISSION, ALREADY, NOT_FOUND, TOO_SMALL, LOST = 15, TIMEOUT = 10 };
typedef void *Device;
#define GPU(device) ((int)(long)(device) - 1)
#define CHECK(device) if (says(GPU(device), "gone")) return LOST

struct memory { unsigned long long total, unused, used; };
struct memory_v2 { unsigned version; unsigned long long total, reserved, unused, used; };
struct process { unsigned pid; unsigned long long bytes; unsigned instance, compute; };
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
struct event { Device device; unsigned long long type, data; unsigned instance, compute; };
struct rates { unsigned gpu, memory; };

int nvmlInitWithFlags(unsigned flags) { return gpu_count() ? OK : 9; }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == LOST ? "GPU is lost" : "an error"; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { snprintf(text, size, "999.1"); return OK; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = gpu_count(); return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *device) {
    *device = (Device)(long)(index + 1);
    if ((int)index >= gpu_count()) return INVALID;
    CHECK(*device);
    return OK;
}

static int text_to(Device device, const char *name, char *text, unsigned size) {
    char found[TEXT_MAX] = "";
    CHECK(device);
    text_of(GPU(device), name, found);
    snprintf(text, size, "%s", found);
    return OK;
}

int nvmlDeviceGetUUID(Device device, char *text, unsigned size) { return text_to(device, "uuid", text, size); }
int nvmlDeviceGetName(Device device, char *text, unsigned size) { return text_to(device, "name", text, size); }
int nvmlDeviceGetMinorNumber(Device device, unsigned *minor) { CHECK(device); *minor = GPU(device); return OK; }
int nvmlDeviceGetIndex(Device device, unsigned *index) { CHECK(device); *index = GPU(device); return OK; }

int nvmlDeviceGetPciInfo_v3(Device device, struct pci *pci) {
    CHECK(device);
    memset(pci, 0, sizeof *pci);
    pci->bus = GPU(device) + 4;
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
    snprintf(pci->legacy, sizeof pci->legacy, "0000:%02X:00.0", pci->bus);
    return OK;
}

static unsigned long long used_bytes(Device device) {
    int node = opened_node(GPU(device));
    unsigned long long used = node < 0 ? 0 : used_mib(node, 0) * MIB;
    if (node >= 0 && !held_count) close(node); /* a close would let go of one's own ranges */
    for (int i = 0; i < held_count; i++) used += held[i].mib * MIB;
    return used;
}

int nvmlDeviceGetMemoryInfo(Device device, struct memory *memory) {
    CHECK(device);
    memory->total = number_of(GPU(device), "memory") * MIB;
    memory->used = used_bytes(device);
    memory->unused = memory->total - memory->used;
    return OK;
}

int nvmlDeviceGetMemoryInfo_v2(Device device, struct memory_v2 *memory) {
    struct memory found;
    CHECK(device);
    nvmlDeviceGetMemoryInfo(device, &found);
    memory->total = found.total, memory->used = found.used, memory->unused = found.unused;
    memory->reserved = 0;
    return OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned *count, struct process *processes) {
    CHECK(device);
    unsigned room = *count, found = 0;
    int node = opened_node(GPU(device));
    if (node < 0) { *count = 0; return OK; }
    for (struct flock lock = next_lock(node, 0); lock.l_len;
         lock = next_lock(node, lock.l_start + lock.l_len)) {
        unsigned i = 0;
        while (i < found && i < room && processes[i].pid != (unsigned)lock.l_pid) i++;
        if (i == found) {
            if (i < room) processes[i] = (struct process){lock.l_pid, 0, -1, -1};
            found++;
        }
        if (i < room) processes[i].bytes += lock.l_len * MIB;
    }
    if (!held_count) close(node);
    *count = found;
    return found > room ? TOO_SMALL : OK;
}

int nvmlDeviceGetMigMode(Device device, unsigned *mode, unsigned *pending) { return UNSUPPORTED; }

int nvmlDeviceGetUtilizationRates(Device device, struct rates *rates) {
    CHECK(device);
    while (says(GPU(device), "hangs")) nanosleep(&(struct timespec){0, 20 * 1000 * 1000}, NULL);
    rates->gpu = number_of(GPU(device), "use");
    rates->memory = 0;
    return OK;
}

int nvmlDeviceGetPowerUsage(Device device, unsigned *milliwatts) {
    CHECK(device);
    *milliwatts = 70000;
    return OK;
}

int nvmlDeviceGetTotalEnergyConsumption(Device device, unsigned long long *millijoules) {
    CHECK(device);
    if (!says(GPU(device), "energy")) return UNSUPPORTED;
    *millijoules = number_of(GPU(device), "energy");
    return OK;
}

int nvmlDeviceGetTemperature(Device device, unsigned sensor, unsigned *degrees) {
    CHECK(device);
    *degrees = 40;
    return OK;
}

int nvmlDeviceGetTotalEccErrors(Device device, unsigned type, unsigned counter, unsigned long long *count) {
    CHECK(device);
    *count = number_of(GPU(device), "ecc");
    return OK;
}

int nvmlDeviceGetRemappedRows(Device device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    CHECK(device);
    *corrected = *uncorrected = *pending = 0;
    *failed = says(GPU(device), "remapping-failed");
    return OK;
}

int nvmlDeviceGetCurrentClocksEventReasons(Device device, unsigned long long *reasons) {
    CHECK(device);
    *reasons = number_of(GPU(device), "throttled");
    return OK;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long *reasons) {
    return nvmlDeviceGetCurrentClocksEventReasons(device, reasons);
}

/* Xids: STATE/N/xid has one at a time; each of its changes is an event. */

static unsigned long long told[GPUS_MAX];
int nvmlEventSetCreate(void **set) { *set = told; return OK; }
int nvmlEventSetFree(void *set) { return OK; }
int nvmlDeviceRegisterEvents(Device device, unsigned long long types, void *set) { CHECK(device); return OK; }

int nvmlDeviceGetSupportedEventTypes(Device device, unsigned long long *types) {
    CHECK(device);
    *types = 8;
    return OK;
}

int nvmlEventSetWait_v2(void *set, struct event *event, unsigned timeout_ms) {
    for (unsigned waited = 0;; waited += 20) {
        for (int gpu = 0; gpu < gpu_count(); gpu++) {
            unsigned long long xid = number_of(gpu, "xid");
            if (xid != told[gpu] && (told[gpu] = xid)) {
                *event = (struct event){(Device)(long)(gpu + 1), 8, xid, -1, -1};
                return OK;
            }
        }
        if (waited >= timeout_ms) return TIMEOUT;
        nanosleep(&(struct timespec){0, 20 * 1000 * 1000}, NULL);
    }
}
