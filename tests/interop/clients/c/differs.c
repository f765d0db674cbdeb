/*
 * What the library does on purpose otherwise than the original's: COMPAT.md, "Libraries for C". Lines on stdin say what to do. The
 * first handle stays open; each round of `close` opens and closes another one.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

#define ROUNDS 50
#define WRITES 1000

static const char *servers;

static void watcher(zhandle_t *zh, int type, int state, const char *path, void *context) {
    (void)zh, (void)path, (void)context;
    if (type == ZOO_SESSION_EVENT) printf("state: %d\n", state);
}

static void nobody(zhandle_t *zh, int type, int state, const char *path, void *context) {
    (void)zh, (void)type, (void)state, (void)path, (void)context;
}

static zoo_op_result_t results[2];

static void done(int rc, const void *data) {
    (void)data;
    printf("multi: %d, results %d %d\n", rc, results[0].err, results[1].err);
}

/* Ephemerals that are still there when the close of their session returns. */
static int left_behind(zhandle_t *zh) {
    int left = 0;
    struct Stat stat;
    for (int round = 0; round < ROUNDS; round++) {
        zhandle_t *other = zookeeper_init(servers, nobody, 10000, NULL, NULL, 0);
        if (zoo_create(other, "/differs", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0) != ZOK) return -1;
        if (zookeeper_close(other) != ZOK) return -2;
        left += zoo_exists(zh, "/differs", 0, &stat) != ZNONODE;
    }
    return left;
}

static void *writes(void *context) {
    static int failed;
    for (int round = 0; round < WRITES; round++) failed += zoo_set(context, "/", "", 0, -1) != ZOK;
    return &failed;
}

/* The calls of a loop, while the library has threads of its own. */
static int loop(zhandle_t *zh) {
    pthread_t thread;
    void *failed;
    pthread_create(&thread, NULL, writes, zh);
    for (int round = 0; round < 10 * WRITES; round++) {
        int fd, interest;
        struct timeval wait;
        if (zookeeper_interest(zh, &fd, &interest, &wait) == ZOK) zookeeper_process(zh, interest);
    }
    pthread_join(thread, &failed);
    return *(int *)failed;
}

/* The descriptor that the program gets for a stream that it has closed before a session. */
static int reopened(void) {
    struct Stat stat;
    zhandle_t *other;
    int fd;
    close(STDERR_FILENO);
    other = zookeeper_init(servers, nobody, 10000, NULL, NULL, 0);
    if (zoo_exists(other, "/", 0, &stat) != ZOK) return -1;
    fd = open("/dev/null", O_WRONLY);
    return zookeeper_close(other) == ZOK ? fd : -2;
}

int main(int count, char **words) {
    char line[32];
    struct Stat stat;
    zhandle_t *zh;
    if (count != 2) return 2;
    servers = words[1];
    setvbuf(stdout, NULL, _IOLBF, 0);
    zoo_set_debug_level(0);
    zh = zookeeper_init(servers, watcher, 10000, NULL, NULL, 0);
    if (!zh) return 1;
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (!strcmp(line, "exists")) {
            printf("exists: %d\n", zoo_exists(zh, "/", 0, &stat));
        } else if (!strcmp(line, "multi")) {
            static zoo_op_t ops[2];
            zoo_set_op_init(&ops[0], "/", "", 0, -1, NULL);
            zoo_check_op_init(&ops[1], "/", -1);
            printf("amulti: %d\n", zoo_amulti(zh, 2, ops, results, done, NULL));
        } else if (!strcmp(line, "watch")) {
            printf("watch: %d\n", zoo_wexists(zh, "/differs", nobody, NULL, &stat));
        } else if (!strcmp(line, "unwatch")) {
            printf("unwatch: %d\n", zoo_remove_watches(zh, "/differs", ZWATCHTYPE_DATA, nobody, NULL, 0));
        } else if (!strcmp(line, "close")) {
            printf("left behind: %d\n", left_behind(zh));
        } else if (!strcmp(line, "loop")) {
            printf("failed: %d\n", loop(zh));
        } else if (!strcmp(line, "flags")) {
            zhandle_t *other;
            errno = 0;
            other = zookeeper_init(servers, nobody, 1000, NULL, NULL, 0x40);
            printf("flags: %s %s\n", other ? "handle" : "NULL", errno == EINVAL ? "EINVAL" : "other");
            if (other) zookeeper_close(other);
        } else if (!strcmp(line, "reopen")) {
            printf("reopened: %d\n", reopened());
        } else if (!strcmp(line, "callbacks")) {
            for (int round = 0; round < ROUNDS; round++) free(zoo_sasl_make_basic_callbacks("amy", "realm", "/no/file"));
            printf("callbacks\n");
        } else {
            break;
        }
    }
    return zookeeper_close(zh);
}
