/*
 * A session over TLS (secure SERVERS tls CERTIFICATES), or with SASL: with a password in a file (basic USER FILE), or in a file
 * whose content is reversed (password USER FILE), or with functions of the program's (own USER PASSWORD).
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

#define BIG 300000

/* Every type of function can be cast to it and from it. */
typedef void (*any)(void);

static volatile int is_connected, is_over;
static char *big;
static const char *user, *secret;

static void watcher(zhandle_t *zh, int type, int state, const char *path, void *context) {
    (void)zh, (void)type, (void)path, (void)context;
    if (state == ZOO_CONNECTED_STATE) is_connected = 1;
    if (state == ZOO_AUTH_FAILED_STATE) is_over = 1;
    printf("state: %d\n", state);
}

/* The library tries again after a failed handshake. The program does not. */
static void logged(const char *line) {
    puts(line);
    if (strstr(line, "TLS")) is_over = 1;
}

static void last(int rc, const struct Stat *stat, const void *data) {
    (void)stat;
    printf("%s: %d\n", (const char *)data, rc);
    is_over = 1;
}

static void read_acl(int rc, struct ACL_vector *acl, struct Stat *stat, const void *data) {
    printf("%s: %d %s %s\n", (const char *)data, rc, acl->data->id.scheme, acl->data->id.id);
    (void)stat;
}

static void read_data(int rc, const char *value, int length, const struct Stat *stat, const void *data) {
    (void)stat;
    printf("%s: %d %d %s\n", (const char *)data, rc, length, length == BIG && memcmp(value, big, BIG) == 0 ? "same" : "other");
}

static void created(int rc, const char *path, const void *data) { printf("%s: %d %s\n", (const char *)data, rc, path ? path : "-"); }

static int give_name(void *context, int id, const char **result, unsigned *length) {
    (void)id;
    *result = context;
    if (length) *length = strlen(context);
    return 0;
}

static int give_password(void *connection, void *context, int id, void **result) {
    static struct {
        unsigned long length;
        char bytes[64];
    } own;
    if (!connection || id != 0x4004) return -7;
    own.length = strlen(context);
    memcpy(own.bytes, context, own.length);
    *result = &own;
    return 0;
}

static int reversed(const char *content, size_t length, void *context, char *to, size_t room, size_t *count) {
    (void)context;
    if (length > room) return -3;
    for (size_t at = 0; at < length; at++) to[at] = content[length - 1 - at];
    *count = length;
    return 0;
}

static void turn(zhandle_t *zh) {
#ifdef THREADED
    (void)zh;
    usleep(10000);
#else
    int fd, interest;
    struct timeval tv;
    static int last_code;
    if (zookeeper_interest(zh, &fd, &interest, &tv) != ZOK) return;
    struct pollfd wanted = {fd, (interest & ZOOKEEPER_READ ? POLLIN : 0) | (interest & ZOOKEEPER_WRITE ? POLLOUT : 0), 0};
    poll(&wanted, fd >= 0, tv.tv_sec > 0 ? 1000 : tv.tv_usec / 1000);
    int events = (wanted.revents & (POLLIN | POLLHUP | POLLERR) ? ZOOKEEPER_READ : 0) | (wanted.revents & POLLOUT ? ZOOKEEPER_WRITE : 0);
    int code = zookeeper_process(zh, events);
    if (code == ZSSLCONNECTIONERROR && last_code != code) printf("process: %d\n", code);
    last_code = code;
#endif
}

int main(int count, char **words) {
    sasl_callback_t own[] = {{0x4002, NULL, NULL}, {0x4004, NULL, NULL}, {0, NULL, NULL}}, *callbacks = NULL;
    zhandle_t *zh;
    if (count < 4) return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    zoo_set_debug_level(ZOO_LOG_LEVEL_WARN);
    zoo_set_log_stream(stdout);
    if (strcmp(words[2], "tls") == 0) {
        zh = zookeeper_init_ssl(words[1], words[3], watcher, 10000, NULL, NULL, 0);
    } else {
        user = words[3], secret = words[4];
        zoo_sasl_params_t params = {"zookeeper", "zk-sasl-md5", "DIGEST-MD5", own};
        if (strcmp(words[2], "own") == 0) {
            own[0].proc = (int (*)(void))(any)give_name, own[0].context = words[3];
            own[1].proc = (int (*)(void))(any)give_password, own[1].context = words[4];
        } else {
            zoo_sasl_password_t description = {secret, NULL, reversed};
            params.callbacks = callbacks = strcmp(words[2], "basic") == 0
                ? zoo_sasl_make_basic_callbacks(user, "zk-sasl-md5", secret)
                : zoo_sasl_make_password_callbacks(user, "zk-sasl-md5", &description);
        }
        if (strcmp(words[2], "plain") == 0) params.mechlist = "PLAIN";
        zh = zookeeper_init_sasl(words[1], watcher, 10000, NULL, NULL, 0, NULL, &params);
    }
    if (!zh) {
        printf("no handle: %s\n", errno == EINVAL ? "EINVAL" : strerror(errno));
        return 0;
    }
    zoo_set_log_callback(zh, logged);
    for (int times = 0; times < 1000 && !is_connected && !is_over; times++) turn(zh);
    if (is_connected) {
        big = malloc(BIG);
        for (int at = 0; at < BIG; at++) big[at] = at * 7 % 251;
        zoo_acreate(zh, "/secure", big, BIG, &ZOO_CREATOR_ALL_ACL, ZOO_EPHEMERAL, created, "create");
        for (int times = 0; times < 50; times++) zoo_aget(zh, "/secure", 0, read_data, "get");
        zoo_aget_acl(zh, "/secure", read_acl, "acl");
        zoo_aexists(zh, "/secure", 0, last, "exists");
        for (int times = 0; times < 1000 && !is_over; times++) turn(zh);
        free(big);
    }
    printf("close: %d\n", zookeeper_close(zh));
    free(callbacks);
    return 0;
}
