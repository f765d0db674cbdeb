/*
 * Moves the wall clock of one process: preloaded into it, it adds a number of seconds to what the system says.
 *
 * The number is in the file that the variable ZEBU_CLOCK names, as eight bytes, the greatest first. Whoever changes the file moves
 * the clock at once. Clocks that only count are left alone.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t *moved;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("ZEBU_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) {
        return;
    }
    void *at = mmap(NULL, sizeof(uint64_t), PROT_READ, MAP_SHARED, file, 0);
    moved = at == MAP_FAILED ? NULL : at;
    close(file);
}

static int64_t seconds(void) {
    return moved ? (int64_t)be64toh(*moved) : 0;
}

int clock_gettime(clockid_t id, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, id, now);
    if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
        now->tv_sec += seconds();
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec real;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &real);
    now->tv_sec = real.tv_sec;
    now->tv_usec = real.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *also) {
    struct timespec real;
    clock_gettime(CLOCK_REALTIME, &real);
    if (also) {
        *also = real.tv_sec;
    }
    return real.tv_sec;
}
