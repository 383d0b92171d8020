// Three loops that say how long they took, in seconds: cpu, memory, file DIRECTORY.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}

static void cpu(void) {
  volatile unsigned long x = 1;
  for (long i = 0; i < 400000000; i++) x = x * 6364136223846793005UL + 1442695040888963407UL;
}

static void memory(void) {
  size_t size = 256UL << 20;
  char *a = malloc(size), *b = malloc(size);
  memset(a, 1, size);
  for (int i = 0; i < 12; i++) memcpy(b, a, size), memcpy(a, b, size);
}

static void file(const char *directory) {
  char path[4096], block[65536];
  memset(block, 7, sizeof block);
  for (int i = 0; i < 1500; i++) {
    snprintf(path, sizeof path, "%s/loop-%d", directory, i);
    int f = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
    if (f < 0) exit(1);
    for (int j = 0; j < 4; j++)
      if (write(f, block, sizeof block) < 0) exit(1);
    lseek(f, 0, SEEK_SET);
    while (read(f, block, sizeof block) > 0) {}
    close(f);
    unlink(path);
  }
}

int main(int count, char **words) {
  if (count < 2) return 2;
  double start = now();
  if (!strcmp(words[1], "cpu")) cpu();
  else if (!strcmp(words[1], "memory")) memory();
  else if (count > 2) file(words[2]);
  printf("%.4f\n", now() - start);
  return 0;
}
