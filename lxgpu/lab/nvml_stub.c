/* A stand-in for libnvidia-ml.so.1: answers from the text file `state` that lies beside the library.
 *
 * The file is read again whenever it has changed; lxgpu/lab/state.py writes it, by rename. Lines:
 *   driver VERSION CUDA                    (CUDA as NVML counts it: 12040 is 12.4)
 *   gpu IDX UUID MINOR PCI MIB DEVICE WATT UTIL FAULT NAME...
 *                                          (FAULT: - lost unknown hang noutil noproc; DEVICE in hex)
 *   proc IDX PID START MIB C|G UTIL [GI]   (dropped by itself when PID does not run or did not start at START)
 *   kids IDX PID START MIB C|G UTIL COMM [GI]
 *                                          (the children of that process which are called COMM; GI: on that slice)
 *   init nodriver|mismatch                 (the library does not start)
 *   fail CALL CODE [IDX]                   (the call of that name answers CODE, on one card or on all)
 *   slice IDX NUMBER ID SLICES MULTIPROCESSORS MIB SIZE STARTS NAME
 *                                          (a kind of MIG slice that the card can have; see nvml_mig.c)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define MOST_GPUS 64
#define MOST_PROCS 1024
#define MOST_FAILS 64
#define MOST_KINDS 256
#define MOST_COMPUTE 7
#define NOT_DIVIDED 0xFFFFFFFFu
typedef unsigned long long u64;

enum answer {
  SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
  DRIVER_NOT_LOADED = 9, TIMEOUT = 10, FUNCTION_NOT_FOUND = 13, GPU_IS_LOST = 15, LIB_RM_VERSION_MISMATCH = 18,
  IN_USE = 19, INSUFFICIENT_RESOURCES = 23, UNKNOWN = 999
};

struct gpu {
  unsigned index, minor, device, watt, util;
  u64 mib;
  char uuid[64], pci[16], fault[16], name[96];
};
struct proc {
  unsigned gpu, pid, util, instance;
  u64 start, mib;
  char kind, comm[16];
};
struct fail {
  char call[64];
  int code, gpu;
};
struct kind {
  unsigned gpu, profile, id, slices, multiprocessors, size;
  u64 mib;
  char starts[16], name[32];
};
struct process_info {
  unsigned pid;
  u64 used;
  unsigned gpu_instance, compute_instance;
};
struct pci_info {
  char legacy[16];
  unsigned domain, bus, device, pci_device, pci_subsystem;
  char bus_id[32];
};
struct memory {
  u64 total, free, used;
};
struct memory_v2 {
  unsigned version;
  u64 total, reserved, free, used;
};
struct utilization {
  unsigned gpu, memory;
};

static struct gpu gpus[MOST_GPUS];
static struct proc procs[MOST_PROCS];
static struct fail fails[MOST_FAILS];
static struct kind kinds[MOST_KINDS];
static unsigned gpu_count, proc_count, fail_count, kind_count;
static int cuda_version;
static char driver_version[32], init_fault[16];
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

static void read_line(const char *line) {
  struct gpu g = {0};
  struct proc p = {.instance = NOT_DIVIDED};
  struct fail f = {.gpu = -1};
  struct kind k = {0};
  if (gpu_count < MOST_GPUS &&
      sscanf(line, "gpu %u %63s %u %15s %llu %x %u %u %15s %95[^\n]", &g.index, g.uuid, &g.minor, g.pci, &g.mib,
             &g.device, &g.watt, &g.util, g.fault, g.name) == 10)
    gpus[gpu_count++] = g;
  else if (proc_count < MOST_PROCS && sscanf(line, "proc %u %u %llu %llu %c %u %u", &p.gpu, &p.pid, &p.start, &p.mib,
                                             &p.kind, &p.util, &p.instance) >= 6)
    procs[proc_count++] = p;
  else if (proc_count < MOST_PROCS && sscanf(line, "kids %u %u %llu %llu %c %u %15s %u", &p.gpu, &p.pid, &p.start,
                                             &p.mib, &p.kind, &p.util, p.comm, &p.instance) >= 7)
    procs[proc_count++] = p;
  else if (fail_count < MOST_FAILS && sscanf(line, "fail %63s %d %d", f.call, &f.code, &f.gpu) >= 2)
    fails[fail_count++] = f;
  else if (kind_count < MOST_KINDS && sscanf(line, "slice %u %u %u %u %u %llu %u %15s %31s", &k.gpu, &k.profile, &k.id, &k.slices,
                                             &k.multiprocessors, &k.mib, &k.size, k.starts, k.name) == 9)
    kinds[kind_count++] = k;
  else if (sscanf(line, "driver %31s %d", driver_version, &cuda_version) != 2)
    sscanf(line, "init %15s", init_fault);
}

/* Read the state again if it is another file or another version of it than last time. */
static void refresh(void) {
  static char path[4096];
  static struct stat seen;
  struct stat now;
  pthread_mutex_lock(&guard);
  if (!*path) {
    Dl_info here;
    dladdr((void *)refresh, &here);
    snprintf(path, sizeof path, "%.*s/state", (int)(strrchr(here.dli_fname, '/') - here.dli_fname), here.dli_fname);
  }
  FILE *file = NULL;
  int missing = stat(path, &now) != 0;
  int same = !missing && now.st_ino == seen.st_ino && !memcmp(&now.st_mtim, &seen.st_mtim, sizeof now.st_mtim);
  if (!same) {
    gpu_count = proc_count = fail_count = kind_count = 0;
    *init_fault = 0;
    if (!missing && (file = fopen(path, "r"))) {
      char line[512];
      while (fgets(line, sizeof line, file)) read_line(line);
      fclose(file);
      seen = now;
    }
  }
  pthread_mutex_unlock(&guard);
}

/* The moment a process started, in clock ticks since boot; 0 when it does not run. Its name goes to comm. */
static u64 started(unsigned pid, char comm[16]) {
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/%u/stat", pid);
  FILE *file = fopen(path, "r");
  if (!file) return 0;
  size_t size = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[size] = 0;
  char *open = strchr(text, '('), *close = strrchr(text, ')');
  if (!open || !close || close[1] != ' ' || close[2] == 'Z' || close[2] == 'X') return 0;
  snprintf(comm, 16, "%.*s", (int)(close - open - 1), open + 1);
  int field = 2;
  char *at = close + 1;
  for (; *at && field < 22; at++)
    if (*at == ' ') field++;
  return strtoull(at, NULL, 10);
}

/* Append the running processes that one line stands for to `found`, and return how many there are then. */
static unsigned expand(const struct proc *line, unsigned count, unsigned *found) {
  char comm[16], path[64];
  if (started(line->pid, comm) != line->start) return count;
  if (!*line->comm) {
    if (count < MOST_PROCS) found[count++] = line->pid;
    return count;
  }
  snprintf(path, sizeof path, "/proc/%u/task/%u/children", line->pid, line->pid);
  FILE *file = fopen(path, "r");
  if (!file) return count;
  unsigned child;
  while (fscanf(file, "%u", &child) == 1)
    if (started(child, comm) && !strcmp(comm, line->comm) && count < MOST_PROCS) found[count++] = child;
  fclose(file);
  return count;
}

/* Whether a line is of a process on that card, and on that slice of it where one is named. */
static int is_on(const struct proc *line, const struct gpu *gpu, unsigned slice) {
  return line->gpu == gpu->index && (slice == NOT_DIVIDED || line->instance == slice);
}

/* Memory and utilisation of what runs on a card, or on a slice of one. */
static void load_of(const struct gpu *gpu, unsigned slice, u64 *mib, unsigned *util) {
  unsigned found[MOST_PROCS];
  *mib = 0;
  *util = gpu->util;
  for (unsigned i = 0; i < proc_count; i++)
    if (is_on(procs + i, gpu, slice)) {
      unsigned n = expand(&procs[i], 0, found);
      *mib += n * procs[i].mib;
      *util += n * procs[i].util;
    }
  if (*mib > gpu->mib) *mib = gpu->mib;
  if (*util > 100) *util = 100;
}

static int told_to_fail(const char *call, int gpu) {
  for (unsigned i = 0; i < fail_count; i++)
    if (!strcmp(fails[i].call, call) && (fails[i].gpu < 0 || fails[i].gpu == gpu)) return fails[i].code;
  return SUCCESS;
}

/* What stands against answering a call about a card; a hanging card hangs until the fault is cleared. */
static int obstacle(const char *call, const struct gpu *gpu) {
  refresh();
  if (gpu < gpus || gpu >= gpus + gpu_count) return INVALID_ARGUMENT;
  while (!strcmp(gpu->fault, "hang")) {
    usleep(50 * 1000);
    refresh();
  }
  if (!strcmp(gpu->fault, "lost")) return GPU_IS_LOST;
  if (!strcmp(gpu->fault, "unknown")) return UNKNOWN;
  return told_to_fail(call, (int)gpu->index);
}
#define CHECK(gpu)                            \
  do {                                        \
    int bad = obstacle(__func__, gpu);        \
    if (bad) return bad;                      \
  } while (0)
#define CHECK_CALL()                          \
  do {                                        \
    refresh();                                \
    int bad = told_to_fail(__func__, -1);     \
    if (bad) return bad;                      \
  } while (0)

static int copy(char *out, unsigned room, const char *format, ...) {
  va_list values;
  va_start(values, format);
  int size = vsnprintf(out, room, format, values);
  va_end(values);
  return size < (int)room ? SUCCESS : INSUFFICIENT_SIZE;
}

#include "nvml_mig.c"

/* ---- the library as a whole */

EXPORT int nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  CHECK_CALL();
  if (!strcmp(init_fault, "mismatch")) return LIB_RM_VERSION_MISMATCH;
  return *init_fault || !gpu_count ? DRIVER_NOT_LOADED : SUCCESS;
}
EXPORT int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
EXPORT int nvmlShutdown(void) { CHECK_CALL(); return SUCCESS; }
EXPORT int nvmlSystemGetDriverVersion(char *out, unsigned room) { CHECK_CALL(); return copy(out, room, "%s", driver_version); }
EXPORT int nvmlSystemGetNVMLVersion(char *out, unsigned room) {
  CHECK_CALL();
  return copy(out, room, "%d.%s", cuda_version / 1000, driver_version);
}
EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *out) { CHECK_CALL(); *out = cuda_version; return SUCCESS; }
EXPORT int nvmlSystemGetCudaDriverVersion(int *out) { CHECK_CALL(); *out = cuda_version; return SUCCESS; }
EXPORT const char *nvmlErrorString(int code) {
  switch (code) {
    case SUCCESS: return "Success";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NO_PERMISSION: return "Insufficient Permissions";
    case NOT_FOUND: return "Not Found";
    case INSUFFICIENT_SIZE: return "Insufficient Size";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case TIMEOUT: return "Timeout";
    case FUNCTION_NOT_FOUND: return "Function Not Found";
    case GPU_IS_LOST: return "GPU is lost";
    case IN_USE: return "In use by another client";
    case INSUFFICIENT_RESOURCES: return "Insufficient Resources";
    case LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
    default: return "Unknown Error";
  }
}

/* ---- finding a card; a handle is the address of its entry, and cards keep their places */

EXPORT int nvmlDeviceGetCount_v2(unsigned *out) { CHECK_CALL(); *out = gpu_count; return SUCCESS; }
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct gpu **out) {
  CHECK_CALL();
  if (index >= gpu_count) return INVALID_ARGUMENT;
  *out = gpus + index;
  int bad = obstacle(__func__, *out);
  return bad == UNKNOWN ? SUCCESS : bad;
}
EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, struct gpu **out) {
  CHECK_CALL();
  for (unsigned i = 0; i < gpu_count; i++)
    if (!strcmp(gpus[i].uuid, uuid)) return nvmlDeviceGetHandleByIndex_v2(i, out);
  return NOT_FOUND;
}
/* Both ways of writing the domain are taken: 0000:11:00.0 and 00000000:11:00.0. */
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *address, struct gpu **out) {
  CHECK_CALL();
  size_t size = strlen(address);
  for (unsigned i = 0; i < gpu_count; i++)
    if (size >= strlen(gpus[i].pci) && !strcasecmp(address + size - strlen(gpus[i].pci), gpus[i].pci))
      return nvmlDeviceGetHandleByIndex_v2(i, out);
  return NOT_FOUND;
}

/* ---- what a card is */

EXPORT int nvmlDeviceGetIndex(struct gpu *gpu, unsigned *out) { CHECK(gpu); *out = gpu->index; return SUCCESS; }
EXPORT int nvmlDeviceGetMinorNumber(struct gpu *gpu, unsigned *out) { CHECK(gpu); *out = gpu->minor; return SUCCESS; }
EXPORT int nvmlDeviceGetUUID(struct gpu *gpu, char *out, unsigned room) {
  CHECK_EITHER(gpu, slice);
  return slice ? slice_uuid(slice, out, room) : copy(out, room, "%s", gpu->uuid);
}
EXPORT int nvmlDeviceGetName(struct gpu *gpu, char *out, unsigned room) { CHECK(gpu); return copy(out, room, "%s", gpu->name); }
EXPORT int nvmlDeviceGetSerial(struct gpu *gpu, char *out, unsigned room) { (void)out, (void)room; CHECK(gpu); return NOT_SUPPORTED; }
EXPORT int nvmlDeviceGetPciInfo_v3(struct gpu *gpu, struct pci_info *out) {
  CHECK(gpu);
  memset(out, 0, sizeof *out);
  sscanf(gpu->pci, "%x:%x:%x", &out->domain, &out->bus, &out->device);
  snprintf(out->legacy, sizeof out->legacy, "%s", gpu->pci);
  snprintf(out->bus_id, sizeof out->bus_id, "0000%s", gpu->pci);
  out->pci_device = gpu->device << 16 | 0x10de;
  return SUCCESS;
}
EXPORT int nvmlDeviceGetPersistenceMode(struct gpu *gpu, unsigned *out) { CHECK(gpu); *out = 1; return SUCCESS; }

/* ---- what a card does */

EXPORT int nvmlDeviceGetUtilizationRates(struct gpu *gpu, struct utilization *out) {
  u64 mib;
  CHECK(gpu);
  if (!strcmp(gpu->fault, "noutil") || mig_is_on(gpu)) return NOT_SUPPORTED;
  load_of(gpu, NOT_DIVIDED, &mib, &out->gpu);
  out->memory = out->gpu / 2;
  return SUCCESS;
}
static int memory_of(struct gpu *gpu, const struct instance *slice, struct memory *out) {
  u64 mib, all = slice ? size_of_slice(slice) : gpu->mib;
  unsigned util;
  load_of(gpu, slice ? slice->id : NOT_DIVIDED, &mib, &util);
  if (mib > all) mib = all;
  *out = (struct memory){.total = all << 20, .free = (all - mib) << 20, .used = mib << 20};
  return SUCCESS;
}
EXPORT int nvmlDeviceGetMemoryInfo(struct gpu *gpu, struct memory *out) {
  CHECK_EITHER(gpu, slice);
  return memory_of(gpu, slice, out);
}
EXPORT int nvmlDeviceGetMemoryInfo_v2(struct gpu *gpu, struct memory_v2 *out) {
  struct memory plain;
  CHECK_EITHER(gpu, slice);
  memory_of(gpu, slice, &plain);
  out->total = plain.total, out->reserved = 0, out->free = plain.free, out->used = plain.used;
  return SUCCESS;
}
static int rises(struct gpu *gpu, unsigned base, unsigned step, unsigned *out) {
  u64 mib;
  unsigned util;
  load_of(gpu, NOT_DIVIDED, &mib, &util);
  *out = base + util * step / 100;
  return SUCCESS;
}
EXPORT int nvmlDeviceGetTemperature(struct gpu *gpu, int sensor, unsigned *out) { (void)sensor; CHECK(gpu); return rises(gpu, 35, 40, out); }
EXPORT int nvmlDeviceGetFanSpeed(struct gpu *gpu, unsigned *out) { CHECK(gpu); return rises(gpu, 30, 50, out); }
EXPORT int nvmlDeviceGetPowerUsage(struct gpu *gpu, unsigned *out) { CHECK(gpu); return rises(gpu, 25000, gpu->watt * 900, out); }
EXPORT int nvmlDeviceGetEnforcedPowerLimit(struct gpu *gpu, unsigned *out) { CHECK(gpu); *out = gpu->watt * 1000; return SUCCESS; }
EXPORT int nvmlDeviceGetEncoderUtilization(struct gpu *gpu, unsigned *out, unsigned *period) { CHECK(gpu); *out = 0; *period = 1000000; return SUCCESS; }
EXPORT int nvmlDeviceGetDecoderUtilization(struct gpu *gpu, unsigned *out, unsigned *period) { CHECK(gpu); *out = 0; *period = 1000000; return SUCCESS; }

/* Callers ask twice: with no room, to learn the number, then with room for it. */
static int running(struct gpu *gpu, const struct instance *slice, unsigned *count, struct process_info *out, char kind) {
  unsigned found[MOST_PROCS], total = 0, room = out ? *count : 0;
  if (!strcmp(gpu->fault, "noproc")) return NOT_SUPPORTED;
  for (unsigned i = 0; i < proc_count; i++) {
    if (!is_on(procs + i, gpu, slice ? slice->id : NOT_DIVIDED) || procs[i].kind != kind) continue;
    unsigned part = procs[i].instance == NOT_DIVIDED ? NOT_DIVIDED : 0;
    unsigned n = expand(&procs[i], 0, found);
    for (unsigned k = 0; k < n; k++, total++)
      if (total < room) out[total] = (struct process_info){found[k], procs[i].mib << 20, procs[i].instance, part};
  }
  *count = total;
  return total > room ? INSUFFICIENT_SIZE : SUCCESS;
}
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(struct gpu *gpu, unsigned *count, struct process_info *out) {
  CHECK_EITHER(gpu, slice);
  return running(gpu, slice, count, out, 'C');
}
EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(struct gpu *gpu, unsigned *count, struct process_info *out) {
  CHECK_EITHER(gpu, slice);
  return running(gpu, slice, count, out, 'G');
}
EXPORT int nvmlDeviceGetMPSComputeRunningProcesses_v3(struct gpu *gpu, unsigned *count, struct process_info *out) {
  CHECK_EITHER(gpu, slice);
  return running(gpu, slice, count, out, 'M');
}
