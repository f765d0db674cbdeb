/* One load through the C client, for `zebu bench clients`: prints what was done as one line of JSON.
 *
 * usage: driver HOST:PORT get|set|all DEPTH SECONDS KEYS SIZE
 *
 * DEPTH requests are kept in flight on one session; each answer makes the next request, on the thread that
 * brings the answers. `all` reads each znode once. */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zookeeper/zookeeper.h>

static zhandle_t *handle;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int connected, in_flight, is_over;
static long sent, answered, failed, limit;
static int keys, size, is_set;
static char *data;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void watcher(zhandle_t *zh, int type, int state, const char *path, void *context) {
    (void)zh;
    (void)path;
    (void)context;
    pthread_mutex_lock(&lock);
    if (type == ZOO_SESSION_EVENT && state == ZOO_CONNECTED_STATE)
        connected = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void send_next(void);

/* With the lock held: counts an answer, and makes the next request. */
static void count(int rc) {
    in_flight--;
    answered++;
    if (rc != ZOK)
        failed++;
    if (!is_over && sent < limit)
        send_next();
    if (in_flight == 0)
        pthread_cond_broadcast(&changed);
}

static void got(int rc, const char *value, int length, const struct Stat *stat, const void *context) {
    (void)value;
    (void)length;
    (void)stat;
    (void)context;
    pthread_mutex_lock(&lock);
    count(rc);
    pthread_mutex_unlock(&lock);
}

static void was_set(int rc, const struct Stat *stat, const void *context) {
    (void)stat;
    (void)context;
    pthread_mutex_lock(&lock);
    count(rc);
    pthread_mutex_unlock(&lock);
}

static void send_next(void) {
    char path[64];
    int rc;
    snprintf(path, sizeof path, "/zebu-bench/c%07ld", sent % keys);
    sent++;
    in_flight++;
    if (is_set)
        rc = zoo_aset(handle, path, data, size, -1, was_set, NULL);
    else
        rc = zoo_aget(handle, path, 0, got, NULL);
    if (rc != ZOK) {
        fprintf(stderr, "request refused: %s\n", zerror(rc));
        exit(1);
    }
}

int main(int argc, char **argv) {
    int depth, i;
    long before;
    double seconds, start, end;
    struct timespec wait;
    if (argc != 7)
        return 2;
    depth = atoi(argv[3]);
    seconds = atof(argv[4]);
    keys = atoi(argv[5]);
    size = atoi(argv[6]);
    is_set = strcmp(argv[2], "set") == 0;
    limit = strcmp(argv[2], "all") == 0 ? keys : 0x7fffffffL;
    data = malloc((size_t)size + 1);
    memset(data, 'x', (size_t)size);
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    handle = zookeeper_init(argv[1], watcher, 30000, NULL, NULL, 0);
    if (handle == NULL)
        return 1;
    pthread_mutex_lock(&lock);
    while (!connected)
        pthread_cond_wait(&changed, &lock);
    start = now();
    for (i = 0; i < depth && sent < limit; i++)
        send_next();
    if (limit == keys) {
        while (in_flight > 0)
            pthread_cond_wait(&changed, &lock);
        before = 0;
    } else {
        /* The first fifth does not count. */
        pthread_mutex_unlock(&lock);
        wait.tv_sec = (time_t)(seconds / 5);
        wait.tv_nsec = (long)((seconds / 5 - (double)wait.tv_sec) * 1e9);
        nanosleep(&wait, NULL);
        pthread_mutex_lock(&lock);
        before = answered;
        start = now();
        pthread_mutex_unlock(&lock);
        wait.tv_sec = (time_t)seconds;
        wait.tv_nsec = (long)((seconds - (double)wait.tv_sec) * 1e9);
        nanosleep(&wait, NULL);
        pthread_mutex_lock(&lock);
    }
    end = now();
    printf("{\"requests\": %ld, \"seconds\": %.6f, \"errors\": %ld}\n", answered - before, end - start, failed);
    is_over = 1;
    while (in_flight > 0)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    zookeeper_close(handle);
    free(data);
    return 0;
}
