/*
 * What a careless or an unlucky program does to the library with threads: wrong arguments, buffers that are too small, calls from
 * within callbacks, a close from within a watcher, a fork.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int connected, finished;

static void signal_to(int *flag) {
    pthread_mutex_lock(&mutex);
    ++*flag;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static void wait_for(int *flag, int count) {
    pthread_mutex_lock(&mutex);
    while (*flag < count) pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

static void watcher(zhandle_t *zh, int type, int state, const char *path, void *context) {
    (void)zh, (void)path, (void)context;
    if (type == ZOO_SESSION_EVENT && state == ZOO_CONNECTED_STATE) signal_to(&connected);
}

/* A watcher that waits for answers itself, and in the end closes its own handle. */
static void busy(zhandle_t *zh, int type, int state, const char *path, void *context) {
    struct Stat stat;
    char data[8];
    int length = sizeof data;
    (void)state;
    if (type == ZOO_SESSION_EVENT) return;
    printf("busy: type=%d path=%s get=%d length=%d\n", type, path, zoo_get(zh, path, 0, data, &length, &stat), length);
    printf("busy: again=%d\n", zoo_wget(zh, path, busy, context, data, &length, &stat));
    if (stat.version < 3) {
        printf("busy: set=%d\n", zoo_set(zh, path, "next", 4, stat.version));
        return;
    }
    printf("busy: close=%d\n", zookeeper_close(zh));
    signal_to(&finished);
}

static void value(int rc, const char *value, int length, const struct Stat *stat, const void *data) {
    (void)stat;
    printf("%s: %d %d %s\n", (const char *)data, rc, length, value ? "bytes" : "NULL");
    signal_to(&finished);
}

static void nothing(int rc, const void *data) {
    printf("%s: %d\n", (const char *)data, rc);
    signal_to(&finished);
}

static void wrong_arguments(zhandle_t *zh) {
    char data[16];
    int length = sizeof data;
    struct Stat stat;
    zoo_op_t op;
    zoo_op_result_t result;
    struct String_vector names;
    const char *paths[] = {NULL, "", "a", "/a/", "//", "/a/./b", "/a/../b", "/\xff\xfe"};
    for (size_t at = 0; at < sizeof paths / sizeof *paths; at++)
        printf("path %zu: %d %d %d\n", at, zoo_exists(zh, paths[at], 0, &stat), zoo_adelete(zh, paths[at], -1, NULL, NULL),
               zoo_get_children(zh, paths[at], 0, &names));
    printf("no handle: %d %d %d %d\n", zoo_exists(NULL, "/", 0, &stat), zookeeper_close(NULL), zoo_state(NULL),
           is_unrecoverable(NULL));
    printf("no length: %d\n", zoo_get(zh, "/", 0, data, NULL, &stat));
    printf("no names: %d\n", zoo_get_children(zh, "/", 0, NULL));
    printf("no data: %d %d\n", zoo_set(zh, "/rough", NULL, 3, -1), zoo_set(zh, "/rough", "x", -2, -1));
    printf("no buffer: %d", zoo_get(zh, "/", 0, NULL, &length, NULL));
    printf(" %d\n", length);
    printf("modes: %d %d\n", zoo_create(zh, "/n", "", 0, &ZOO_OPEN_ACL_UNSAFE, 9, NULL, 0),
           zoo_create(zh, "/n", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_WITH_TTL, NULL, 0));
    printf("no ACL: %d\n", zoo_create(zh, "/n", "", 0, NULL, 0, NULL, 0));
    printf("no operations: %d %d\n", zoo_multi(zh, 1, NULL, NULL), zoo_multi(zh, -1, &op, &result));
    memset(&op, 0, sizeof op);
    op.type = 99;
    printf("no such operation: %d\n", zoo_multi(zh, 1, &op, &result));
    printf("no scheme: %d\n", zoo_add_auth(zh, NULL, "x", 1, NULL, NULL));
    printf("no servers: %d %d\n", zoo_set_servers(zh, NULL), zoo_set_servers(zh, "nonsense"));
    printf("no such watches: %d %d\n", zoo_remove_watches(zh, "/", 9, watcher, NULL, 0),
           zoo_remove_all_watches(zh, "/", ZWATCHTYPE_ANY, 1));
}

static void openings(void) {
    const char *hosts[] = {NULL, "", "localhost", "localhost:", "localhost:0", "localhost:70000", "localhost:2181/a/", ":2181"};
    for (size_t at = 0; at < sizeof hosts / sizeof *hosts; at++) {
        zhandle_t *zh;
        errno = 0;
        zh = zookeeper_init(hosts[at], watcher, 1000, NULL, NULL, 0);
        printf("host %zu: %s %s\n", at, zh ? "handle" : "NULL", errno == EINVAL ? "EINVAL" : "other");
    }
    zhandle_t *without = zookeeper_init("127.0.0.1:1", watcher, 0, NULL, NULL, 0);
    printf("no timeout: %s\n", without ? "handle" : "NULL");
    zookeeper_close(without);
}

static void small_buffers(zhandle_t *zh) {
    char name[8], data[3];
    int length = sizeof data;
    struct Stat stat;
    memset(name, 'x', sizeof name);
    printf("create: %d", zoo_create(zh, "/rough", "12345", 5, &ZOO_OPEN_ACL_UNSAFE, 0, name, 4));
    printf(" %s %c\n", name, name[4]);
    printf("get: %d", zoo_get(zh, "/rough", 0, data, &length, &stat));
    printf(" %d %.3s of %d\n", length, data, stat.dataLength);
    printf("null: %d", zoo_set(zh, "/rough", NULL, -1, -1));
    length = sizeof data;
    printf(" %d", zoo_get(zh, "/rough", 0, data, &length, NULL));
    printf(" %d\n", length);
    finished = 0;
    printf("aget: %d\n", zoo_aget(zh, "/rough", 0, value, "null data"));
    wait_for(&finished, 1);
}

static void many(zhandle_t *zh) {
    int count = 10000;
    char data[4];
    finished = 0;
    for (int at = 0; at < count; at++) {
        int length = sizeof data;
        if (at % 100 == 0) zoo_wget(zh, "/rough", watcher, "same", data, &length, NULL);
        if (zoo_aset(zh, "/rough", "many", 4, -1, NULL, NULL) != ZOK) printf("aset failed\n");
    }
    zoo_adelete(zh, "/rough/none", -1, nothing, "behind many");
    wait_for(&finished, 1);
}

static void forked(zhandle_t *zh) {
    struct Stat stat;
    int status;
    pid_t child;
    fflush(stdout);
    child = fork();
    if (child == 0) {
        printf("child: exists=%d state=%d close=%d\n", zoo_exists(zh, "/", 0, &stat), zoo_state(zh) == ZOO_CONNECTED_STATE,
               zookeeper_close(zh));
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, &status, 0);
    printf("parent: status=%d exists=%d\n", status, zoo_exists(zh, "/", 0, &stat));
}

int main(int count, char **words) {
    zhandle_t *zh, *other;
    char data[8];
    int length = sizeof data;
    if (count != 2) return 2;
    zoo_set_debug_level(0);
    zh = zookeeper_init(words[1], watcher, 10000, NULL, NULL, 0);
    if (!zh) return 1;
    wait_for(&connected, 1);
    small_buffers(zh);
    wrong_arguments(zh);
    openings();
    many(zh);
    forked(zh);

    other = zookeeper_init(words[1], watcher, 10000, NULL, NULL, 0);
    wait_for(&connected, 2);
    printf("node: %d\n", zoo_create(zh, "/busy", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0));
    finished = 0;
    printf("watch: %d\n", zoo_wget(other, "/busy", busy, "context", data, &length, NULL));
    if (zoo_set(zh, "/busy", "first", 5, -1) != ZOK) return 3;
    wait_for(&finished, 1);
    printf("close: %d\n", zookeeper_close(zh));
    return 0;
}
