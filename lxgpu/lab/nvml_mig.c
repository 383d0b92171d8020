/* The part of the stand-in NVML library that divides cards into MIG slices; nvml_stub.c takes it in.
 *
 * What a card can be divided into stands in `state`; what it is divided into stands in `slices` beside it, which calls
 * change under the lock `lock`. Lines of `slices`:
 *   mode IDX NOW NEXT          (MIG mode of a card, and the one after its next reset)
 *   gi IDX ID PROFILE START CI (a GPU instance; CI: whether it has its compute instance)
 * Simpler than a card: a GPU instance has one compute instance, as large as itself and with the number 0; a
 * process that is on no slice keeps all slices of its card in use; ids of GPU instances are given in turn.
 */
#define MOST_INSTANCES 15

struct placement {
  unsigned start, size;
};
struct instance {
  unsigned id, profile, start;
  int there, compute;
};
struct divided {
  unsigned now, next;
  struct instance instances[MOST_INSTANCES];
};
struct profile_info {
  unsigned id, p2p, slices, instances, multiprocessors, copy, decoders, encoders, jpeg, ofa;
  u64 mib;
};
struct profile_info_v2 {
  unsigned version, id, p2p, slices, instances, multiprocessors, copy, decoders, encoders, jpeg, ofa;
  u64 mib;
  char name[96];
};
struct instance_info {
  struct gpu *gpu;
  unsigned id, profile;
  struct placement placement;
};
struct compute_info {
  struct gpu *gpu;
  struct instance *instance;
  unsigned id, profile;
  struct placement placement;
};
struct compute_profile_info {
  unsigned id, slices, instances, multiprocessors, copy, decoders, encoders, jpeg, ofa;
};

/* An instance keeps its place, so its address serves as its handle, as its slice's and as its compute instance's. */
static struct divided divided[MOST_GPUS];

static void slices_path(char *path, size_t room, const char *name) {
  Dl_info here;
  dladdr((void *)slices_path, &here);
  snprintf(path, room, "%.*s/%s", (int)(strrchr(here.dli_fname, '/') - here.dli_fname), here.dli_fname, name);
}

static void read_slices(void) {
  char path[4096], line[128];
  struct divided read[MOST_GPUS] = {0};
  slices_path(path, sizeof path, "slices");
  FILE *file = fopen(path, "r");
  while (file && fgets(line, sizeof line, file)) {
    unsigned gpu, now, next;
    struct instance one = {.there = 1};
    if (sscanf(line, "mode %u %u %u", &gpu, &now, &next) == 3 && gpu < MOST_GPUS)
      read[gpu].now = now, read[gpu].next = next;
    else if (sscanf(line, "gi %u %u %u %u %d", &gpu, &one.id, &one.profile, &one.start, &one.compute) == 5 &&
             gpu < MOST_GPUS && one.id < MOST_INSTANCES)
      read[gpu].instances[one.id] = one;
  }
  if (file) fclose(file);
  memcpy(divided, read, sizeof divided); /* at once: other threads never see a card without the slices it has */
}

static int write_slices(void) {
  char path[4096], fresh[4096];
  slices_path(path, sizeof path, "slices");
  slices_path(fresh, sizeof fresh, "slices.new");
  FILE *file = fopen(fresh, "w");
  if (!file) return NO_PERMISSION;
  for (unsigned gpu = 0; gpu < MOST_GPUS; gpu++) {
    if (divided[gpu].now || divided[gpu].next) fprintf(file, "mode %u %u %u\n", gpu, divided[gpu].now, divided[gpu].next);
    for (unsigned id = 0; id < MOST_INSTANCES; id++) {
      struct instance *one = &divided[gpu].instances[id];
      if (one->there) fprintf(file, "gi %u %u %u %u %d\n", gpu, id, one->profile, one->start, one->compute);
    }
  }
  return fclose(file) || rename(fresh, path) ? NO_PERMISSION : SUCCESS;
}

/* Begin a change: nobody else changes slices until `finish`; gives the lock, negative when it cannot be had. */
static int begin(void) {
  char path[4096];
  slices_path(path, sizeof path, "lock");
  int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock >= 0) flock(lock, LOCK_EX), read_slices();
  return lock;
}
static int finish(int lock, int answer) {
  if (answer == SUCCESS) answer = write_slices();
  close(lock);
  return answer;
}

static struct instance *as_instance(const void *handle) {
  const char *at = handle, *first = (const char *)divided;
  if (at < first || at >= first + sizeof divided) return NULL;
  struct instance *one = (struct instance *)handle;
  return one->there ? one : NULL;
}
static struct gpu *card_of(const struct instance *one) {
  return gpus + ((const char *)one - (const char *)divided) / sizeof *divided;
}
/* Before the lock: a card that hangs would keep it, and whoever ends the hanging needs it. */
#define CHECK_INSTANCE(handle)                              \
  do {                                                      \
    read_slices();                                          \
    if (!as_instance(handle)) return INVALID_ARGUMENT;      \
    CHECK(card_of(as_instance(handle)));                    \
  } while (0)
/* A handle of a card or of a slice: `gpu` becomes the card, `slice` the slice, or NULL for a card. */
#define CHECK_EITHER(gpu, slice)                               \
  read_slices();                                               \
  const struct instance *slice = as_instance(gpu);             \
  if (slice) gpu = card_of(slice);                             \
  CHECK(gpu)
static const struct kind *kind_of(const struct gpu *gpu, unsigned id) {
  for (unsigned i = 0; i < kind_count; i++)
    if (kinds[i].gpu == gpu->index && kinds[i].id == id) return kinds + i;
  return NULL;
}
static int divisible(const struct gpu *gpu) {
  for (unsigned i = 0; i < kind_count; i++)
    if (kinds[i].gpu == gpu->index) return 1;
  return 0;
}
/* Whether anything runs on a card, or on that slice of it, or on nobody knows which. */
static int busy(const struct gpu *gpu, unsigned slice) {
  unsigned found[MOST_PROCS], count = 0;
  for (unsigned i = 0; i < proc_count; i++)
    if (is_on(procs + i, gpu, procs[i].instance == NOT_DIVIDED ? NOT_DIVIDED : slice))
      count = expand(&procs[i], count, found);
  return count > 0;
}
static u64 size_of_slice(const struct instance *one) {
  const struct kind *kind = kind_of(card_of(one), one->profile);
  return kind ? kind->mib : 0;
}
static int mig_is_on(const struct gpu *gpu) {
  if (!divisible(gpu)) return 0;
  read_slices();
  return divided[gpu->index].now != 0;
}

/* Whether memory slices `start` to `start + size - 1` and so many compute slices are free. */
static int fits(const struct gpu *gpu, const struct kind *kind, unsigned start) {
  unsigned compute = kind->slices;
  for (unsigned id = 0; id < MOST_INSTANCES; id++) {
    const struct instance *one = &divided[gpu->index].instances[id];
    const struct kind *other = one->there ? kind_of(gpu, one->profile) : NULL;
    if (!other) continue;
    if (start < one->start + other->size && one->start < start + kind->size) return 0;
    compute += other->slices;
  }
  return compute <= MOST_COMPUTE;
}
static unsigned places(const struct kind *kind, struct placement *out) {
  unsigned count = 0;
  for (const char *at = kind->starts; *at; at++)
    if (*at != ',') out[count++] = (struct placement){(unsigned)(*at - '0'), kind->size};
  return count;
}

/* ---- the mode of a card */

EXPORT int nvmlDeviceGetMigMode(struct gpu *gpu, unsigned *now, unsigned *next) {
  CHECK(gpu);
  if (!divisible(gpu)) return NOT_SUPPORTED;
  read_slices();
  *now = divided[gpu->index].now, *next = divided[gpu->index].next;
  return SUCCESS;
}
/* A card that is in use changes at its next reset; `activation` says so. */
EXPORT int nvmlDeviceSetMigMode(struct gpu *gpu, unsigned mode, int *activation) {
  CHECK(gpu);
  if (!divisible(gpu)) return NOT_SUPPORTED;
  if (mode > 1) return INVALID_ARGUMENT;
  int lock = begin();
  if (lock < 0) return NO_PERMISSION;
  struct divided *here = divided + gpu->index;
  for (unsigned id = 0; id < MOST_INSTANCES; id++)
    if (here->instances[id].there && !mode) return finish(lock, IN_USE);
  *activation = here->now != mode && busy(gpu, NOT_DIVIDED) ? IN_USE : SUCCESS;
  here->next = mode;
  if (*activation == SUCCESS) here->now = mode;
  return finish(lock, SUCCESS);
}

/* ---- what a card can be divided into */

static const struct kind *kind_at(const struct gpu *gpu, unsigned profile) {
  for (unsigned i = 0; i < kind_count; i++)
    if (kinds[i].gpu == gpu->index && kinds[i].profile == profile) return kinds + i;
  return NULL;
}
EXPORT int nvmlDeviceGetGpuInstanceProfileInfo(struct gpu *gpu, unsigned profile, struct profile_info *out) {
  CHECK(gpu);
  const struct kind *kind = kind_at(gpu, profile);
  if (!kind) return NOT_SUPPORTED;
  struct placement room[MOST_COMPUTE + 1];
  *out = (struct profile_info){.id = kind->id, .slices = kind->slices, .instances = places(kind, room),
                               .multiprocessors = kind->multiprocessors, .mib = kind->mib};
  return SUCCESS;
}
EXPORT int nvmlDeviceGetGpuInstanceProfileInfoV(struct gpu *gpu, unsigned profile, struct profile_info_v2 *out) {
  struct profile_info plain;
  int bad = nvmlDeviceGetGpuInstanceProfileInfo(gpu, profile, &plain);
  if (bad) return bad;
  unsigned version = out->version;
  *out = (struct profile_info_v2){.version = version, .id = plain.id, .slices = plain.slices, .mib = plain.mib,
                                  .instances = plain.instances, .multiprocessors = plain.multiprocessors};
  return copy(out->name, sizeof out->name, "MIG %s", kind_at(gpu, profile)->name);
}
EXPORT int nvmlDeviceGetGpuInstancePossiblePlacements_v2(struct gpu *gpu, unsigned id, struct placement *out, unsigned *count) {
  struct placement room[MOST_COMPUTE + 1];
  CHECK(gpu);
  const struct kind *kind = kind_of(gpu, id);
  if (!kind) return NOT_SUPPORTED;
  unsigned asked = out ? *count : 0;
  *count = places(kind, room);
  if (out && asked < *count) return INSUFFICIENT_SIZE;
  if (out) memcpy(out, room, *count * sizeof *out);
  return SUCCESS;
}

/* ---- GPU instances */

static int create(struct gpu *gpu, unsigned id, const struct placement *wanted, struct instance **out) {
  struct placement room[MOST_COMPUTE + 1];
  const struct kind *kind = kind_of(gpu, id);
  if (!kind) return NOT_SUPPORTED;
  int lock = begin();
  if (lock < 0) return NO_PERMISSION;
  struct divided *here = divided + gpu->index;
  if (!here->now) return finish(lock, NOT_SUPPORTED);
  unsigned free_id = 1;
  while (free_id < MOST_INSTANCES && here->instances[free_id].there) free_id++;
  if (free_id == MOST_INSTANCES) return finish(lock, INSUFFICIENT_RESOURCES);
  for (unsigned i = places(kind, room); i-- > 0;) { /* the last place first: 3g.20gb at 4, then at 0 */
    if (wanted && room[i].start != wanted->start) continue;
    if (!fits(gpu, kind, room[i].start)) continue;
    *out = here->instances + free_id;
    **out = (struct instance){.id = free_id, .profile = id, .start = room[i].start, .there = 1};
    return finish(lock, SUCCESS);
  }
  return finish(lock, INSUFFICIENT_RESOURCES);
}
EXPORT int nvmlDeviceCreateGpuInstance(struct gpu *gpu, unsigned id, struct instance **out) { CHECK(gpu); return create(gpu, id, NULL, out); }
EXPORT int nvmlDeviceCreateGpuInstanceWithPlacement(struct gpu *gpu, unsigned id, const struct placement *wanted, struct instance **out) {
  CHECK(gpu);
  return create(gpu, id, wanted, out);
}
EXPORT int nvmlDeviceGetGpuInstances(struct gpu *gpu, unsigned profile, struct instance **out, unsigned *count) {
  CHECK(gpu);
  read_slices();
  *count = 0;
  for (unsigned id = 0; id < MOST_INSTANCES; id++) {
    struct instance *one = &divided[gpu->index].instances[id];
    if (one->there && one->profile == profile) out[(*count)++] = one;
  }
  return SUCCESS;
}
EXPORT int nvmlDeviceGetGpuInstanceById(struct gpu *gpu, unsigned id, struct instance **out) {
  CHECK(gpu);
  read_slices();
  if (id >= MOST_INSTANCES || !divided[gpu->index].instances[id].there) return NOT_FOUND;
  *out = &divided[gpu->index].instances[id];
  return SUCCESS;
}
EXPORT int nvmlGpuInstanceGetInfo(struct instance *handle, struct instance_info *out) {
  read_slices();
  struct instance *one = as_instance(handle);
  if (!one) return INVALID_ARGUMENT;
  CHECK(card_of(one));
  const struct kind *kind = kind_of(card_of(one), one->profile);
  *out = (struct instance_info){card_of(one), one->id, one->profile, {one->start, kind ? kind->size : 0}};
  return SUCCESS;
}
EXPORT int nvmlGpuInstanceDestroy(struct instance *handle) {
  CHECK_INSTANCE(handle);
  int lock = begin();
  if (lock < 0) return NO_PERMISSION;
  struct instance *one = as_instance(handle);
  int bad = one ? SUCCESS : INVALID_ARGUMENT;
  if (bad || one->compute) return finish(lock, bad ? bad : IN_USE);
  one->there = 0;
  return finish(lock, SUCCESS);
}

/* ---- compute instances */

/* Profiles of compute instances are numbered 0 to 4, for 1, 2, 3, 4 and 7 slices. */
static unsigned compute_profile(const struct instance *one) {
  const struct kind *kind = kind_of(card_of(one), one->profile);
  return !kind ? 0 : kind->slices == MOST_COMPUTE ? 4 : kind->slices - 1;
}
EXPORT int nvmlGpuInstanceGetComputeInstanceProfileInfo(struct instance *handle, unsigned profile, unsigned engine, struct compute_profile_info *out) {
  (void)engine;
  read_slices();
  struct instance *one = as_instance(handle);
  if (!one) return INVALID_ARGUMENT;
  CHECK(card_of(one));
  const struct kind *kind = kind_of(card_of(one), one->profile);
  if (!kind || profile != compute_profile(one)) return NOT_SUPPORTED;
  *out = (struct compute_profile_info){.id = profile, .slices = kind->slices, .instances = 1, .multiprocessors = kind->multiprocessors};
  return SUCCESS;
}
EXPORT int nvmlGpuInstanceCreateComputeInstance(struct instance *handle, unsigned profile, int **out) {
  CHECK_INSTANCE(handle);
  int lock = begin();
  if (lock < 0) return NO_PERMISSION;
  struct instance *one = as_instance(handle);
  int bad = one ? SUCCESS : INVALID_ARGUMENT;
  if (!bad && profile != compute_profile(one)) bad = NOT_SUPPORTED;
  if (!bad && one->compute) bad = INSUFFICIENT_RESOURCES;
  if (bad) return finish(lock, bad);
  one->compute = 1;
  *out = (int *)one;
  return finish(lock, SUCCESS);
}
EXPORT int nvmlGpuInstanceGetComputeInstanceById(struct instance *handle, unsigned id, int **out) {
  read_slices();
  struct instance *one = as_instance(handle);
  if (!one) return INVALID_ARGUMENT;
  CHECK(card_of(one));
  if (id || !one->compute) return NOT_FOUND;
  *out = (int *)one;
  return SUCCESS;
}
EXPORT int nvmlComputeInstanceDestroy(void *handle) {
  CHECK_INSTANCE(handle);
  int lock = begin();
  if (lock < 0) return NO_PERMISSION;
  struct instance *one = as_instance(handle);
  int bad = one && one->compute ? SUCCESS : INVALID_ARGUMENT;
  if (!bad && busy(card_of(one), one->id)) bad = IN_USE;
  if (bad) return finish(lock, bad);
  one->compute = 0;
  return finish(lock, SUCCESS);
}

/* ---- slices as devices: there is one for each compute instance */

EXPORT int nvmlDeviceIsMigDeviceHandle(void *handle, unsigned *out) { CHECK_CALL(); *out = as_instance(handle) != NULL; return SUCCESS; }
EXPORT int nvmlDeviceGetMaxMigDeviceCount(struct gpu *gpu, unsigned *out) { CHECK(gpu); *out = divisible(gpu) ? MOST_COMPUTE : 0; return SUCCESS; }
EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(struct gpu *gpu, unsigned index, void **out) {
  CHECK(gpu);
  read_slices();
  for (unsigned id = 0; id < MOST_INSTANCES; id++) {
    struct instance *one = &divided[gpu->index].instances[id];
    if (!one->there || !one->compute || index--) continue;
    *out = one;
    return SUCCESS;
  }
  return NOT_FOUND;
}
EXPORT int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *handle, struct gpu **out) {
  read_slices();
  struct instance *one = as_instance(handle);
  if (!one) return INVALID_ARGUMENT;
  CHECK(card_of(one));
  *out = card_of(one);
  return SUCCESS;
}
EXPORT int nvmlDeviceGetGpuInstanceId(void *handle, unsigned *out) {
  read_slices();
  struct instance *one = as_instance(handle);
  if (!one) return INVALID_ARGUMENT;
  CHECK(card_of(one));
  *out = one->id;
  return SUCCESS;
}
EXPORT int nvmlDeviceGetComputeInstanceId(void *handle, unsigned *out) {
  int bad = nvmlDeviceGetGpuInstanceId(handle, out);
  if (!bad) *out = 0;
  return bad;
}
/* The UUID of a slice is the same whenever it is made again in the same place on the same card. */
static int slice_uuid(const struct instance *one, char *out, unsigned room) {
  return copy(out, room, "MIG-%.13s-5%x%02x-%s", card_of(one)->uuid + 4, one->start, one->profile, card_of(one)->uuid + 23);
}
