/* A wall clock that is wrong by as many seconds as a file says, for the processes that have this library loaded before
 * the C library. The monotonic clock stays what it is. The file named by CHAOS_CLOCK holds one 64-bit integer and is
 * mapped, so that a step is seen by every process at once. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *wrong_by;

__attribute__((constructor)) static void look(void) {
  const char *path = getenv("CHAOS_CLOCK");
  int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return;
  void *at = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (at != MAP_FAILED) wrong_by = at;
}

static int64_t step(void) { return wrong_by ? *wrong_by : 0; }

int clock_gettime(clockid_t id, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int failed = real ? real(id, now) : (int)syscall(SYS_clock_gettime, id, now);
  if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) now->tv_sec += step();
  return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
  (void)zone;
  struct timespec fine;
  if (clock_gettime(CLOCK_REALTIME, &fine)) return -1;
  now->tv_sec = fine.tv_sec;
  now->tv_usec = fine.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *out) {
  struct timespec fine;
  clock_gettime(CLOCK_REALTIME, &fine);
  if (out) *out = fine.tv_sec;
  return fine.tv_sec;
}

/* the kernel compares with the true clock */
int sem_timedwait(sem_t *sem, const struct timespec *until) {
  static int (*real)(sem_t *, const struct timespec *);
  if (!real) real = (int (*)(sem_t *, const struct timespec *))dlsym(RTLD_NEXT, "sem_timedwait");
  struct timespec truly = *until;
  truly.tv_sec -= step();
  return real(sem, &truly);
}
