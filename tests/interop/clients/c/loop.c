/*
 * A program with a loop of its own, for the library without threads: every asynchronous function, a chain of calls from within
 * completions, a watch that is left again from within its watcher, and a close from within a completion.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zookeeper/zookeeper.h>

static zhandle_t *handle;
static int is_closed, fired;
static zoo_op_result_t results[3];
static char made[32];

static void watcher(zhandle_t *zh, int type, int state, const char *path, void *context) {
    if (type == ZOO_SESSION_EVENT) printf("session: %d\n", state);
    else printf("event: %s type=%d state=%d path=%s\n", (const char *)context, type, state, path);
    if (type == ZOO_CHANGED_EVENT && ++fired < 3) zoo_awget(zh, path, watcher, context, NULL, NULL);
    fflush(stdout);
}

static void closing(int rc, const void *data) {
    printf("%s: %d\n", (const char *)data, rc);
    printf("close: %d\n", zookeeper_close(handle));
    is_closed = 1;
}

static void late(int rc, const void *data) { printf("%s: %d\n", (const char *)data, rc); }

static void done(int rc, const void *data) {
    printf("%s: %d", (const char *)data, rc);
    for (int at = 0; at < 3; at++) printf(" %d", results[at].err);
    printf(" %s\n", made);
    zoo_adelete(handle, "/loop/gone", -1, late, "delete of nothing");
    zoo_adelete(handle, "/loop", 77, closing, "delete with a wrong version");
    zoo_adelete(handle, "/loop", 78, late, "delete behind the close");
}

static void acl(int rc, struct ACL_vector *acl, struct Stat *stat, const void *data) {
    static zoo_op_t ops[3];
    printf("%s: %d %d %s version %d\n", (const char *)data, rc, acl->count, acl->data->id.scheme, stat->version);
    zoo_create_op_init(&ops[0], "/loop/m-", "x", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_SEQUENTIAL, made, sizeof made);
    zoo_set_op_init(&ops[1], "/loop", "y", 1, -1, NULL);
    zoo_check_op_init(&ops[2], "/loop", 4);
    printf("amulti: %d\n", zoo_amulti(handle, 3, ops, results, done, "multi"));
}

static void strings(int rc, const struct String_vector *names, const struct Stat *stat, const void *data) {
    printf("%s: %d %d %s children %d\n", (const char *)data, rc, names->count, names->data[0], stat->numChildren);
    zoo_aget_acl(handle, "/loop", acl, "acl");
}

static void value(int rc, const char *value, int length, const struct Stat *stat, const void *data) {
    printf("%s: %d %.*s version %d\n", (const char *)data, rc, length, value, stat->version);
    zoo_aget_children2(handle, "/loop", 0, strings, "children");
}

static void set(int rc, const struct Stat *stat, const void *data) {
    printf("%s: %d version %d\n", (const char *)data, rc, stat->version);
    if (stat->version < 3) zoo_aset(handle, "/loop", "new", 3, stat->version, set, data);
    else zoo_aget(handle, "/loop", 0, value, "get");
}

static void child(int rc, const char *path, const struct Stat *stat, const void *data) {
    printf("%s: %d %s version %d\n", (const char *)data, rc, path, stat->version);
    zoo_aset(handle, "/loop", "new", 3, 0, set, "set");
}

static void created(int rc, const char *path, const void *data) {
    printf("%s: %d %s\n", (const char *)data, rc, path);
    zoo_awget(handle, "/loop", watcher, "data", NULL, NULL);
    zoo_acreate2(handle, "/loop/child", "c", 1, &ZOO_OPEN_ACL_UNSAFE, 0, child, "create2");
}

int main(int count, char **words) {
    if (count != 2) return 2;
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    handle = zookeeper_init(words[1], watcher, 10000, NULL, "handle", 0);
    if (!handle) return 1;
    printf("acreate: %d\n", zoo_acreate(handle, "/loop", "v", 1, &ZOO_OPEN_ACL_UNSAFE, 0, created, "create"));
    while (!is_closed) {
        int fd, interest, events = 0;
        struct timeval wait;
        struct pollfd poll_fd;
        if (zookeeper_interest(handle, &fd, &interest, &wait) != ZOK) return 3;
        poll_fd.fd = fd;
        poll_fd.events = (interest & ZOOKEEPER_READ ? POLLIN : 0) | (interest & ZOOKEEPER_WRITE ? POLLOUT : 0);
        poll_fd.revents = 0;
        poll(&poll_fd, fd >= 0, (int)(wait.tv_sec * 1000 + wait.tv_usec / 1000));
        if (poll_fd.revents & (POLLIN | POLLHUP | POLLERR)) events |= ZOOKEEPER_READ;
        if (poll_fd.revents & POLLOUT) events |= ZOOKEEPER_WRITE;
        zookeeper_process(handle, events);
    }
    return 0;
}
