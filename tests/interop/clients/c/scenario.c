/*
 * Walks through the original's C client and prints what it sees, one line a call.
 *
 * usage: scenario host:port
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

#define TIMEOUT_MS 10000
#define EVENTS_MAX 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int session_state;
static char events[EVENTS_MAX][256];
static int event_count;
static int completed;

static struct timespec deadline(void) {
    struct timespec when;
    clock_gettime(CLOCK_REALTIME, &when);
    when.tv_sec += 60;
    return when;
}

static void session_watcher(zhandle_t *zh, int type, int state, const char *path, void *context) {
    (void)zh;
    (void)path;
    (void)context;
    if (type != ZOO_SESSION_EVENT) return;
    pthread_mutex_lock(&lock);
    session_state = state;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void node_watcher(zhandle_t *zh, int type, int state, const char *path, void *context) {
    (void)zh;
    if (type == ZOO_SESSION_EVENT) return;
    pthread_mutex_lock(&lock);
    if (event_count < EVENTS_MAX) {
        snprintf(events[event_count++], sizeof events[0], "event: %s type=%d state=%d path=%s",
                 (const char *)context, type, state, path);
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void wait_for_state(int state) {
    struct timespec when = deadline();
    pthread_mutex_lock(&lock);
    while (session_state != state)
        if (pthread_cond_timedwait(&changed, &lock, &when) != 0) break;
    printf("state: %s\n", session_state == state ? "as awaited" : "NOT as awaited");
    pthread_mutex_unlock(&lock);
}

/* Waits for `count` events in all, then prints and forgets them. */
static void show_events(int count) {
    struct timespec when = deadline();
    pthread_mutex_lock(&lock);
    while (event_count < count)
        if (pthread_cond_timedwait(&changed, &lock, &when) != 0) break;
    for (int i = 0; i < event_count; i++) printf("%s\n", events[i]);
    if (event_count != count) printf("events: %d, not %d\n", event_count, count);
    event_count = 0;
    pthread_mutex_unlock(&lock);
}

static void completion(int rc, const void *data) {
    pthread_mutex_lock(&lock);
    printf("completion: %s rc=%d %s\n", (const char *)data, rc, zerror(rc));
    completed++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void string_completion(int rc, const char *value, const void *data) {
    pthread_mutex_lock(&lock);
    printf("completion: %s rc=%d value=%s\n", (const char *)data, rc, value ? value : "(null)");
    completed++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void wait_completed(int count) {
    struct timespec when = deadline();
    pthread_mutex_lock(&lock);
    while (completed < count)
        if (pthread_cond_timedwait(&changed, &lock, &when) != 0) break;
    if (completed != count) printf("completions: %d, not %d\n", completed, count);
    completed = 0;
    pthread_mutex_unlock(&lock);
}

static void show_rc(const char *what, int rc) { printf("%s: rc=%d %s\n", what, rc, zerror(rc)); }

/* Of a function whose one completion prints, too: on another thread, so perhaps before the function has returned. */
static void show_rc_and_wait(const char *what, int rc) {
    wait_completed(1);
    show_rc(what, rc);
}

static void show_stat(const struct Stat *stat) {
    printf("  stat: czxid=%" PRId64 " mzxid=%" PRId64 " pzxid=%" PRId64
           " version=%d cversion=%d aversion=%d owner=%s length=%d children=%d\n",
           stat->czxid, stat->mzxid, stat->pzxid, stat->version, stat->cversion, stat->aversion,
           stat->ephemeralOwner ? "a session" : "none", stat->dataLength, stat->numChildren);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void create(zhandle_t *zh, const char *path, const char *data, int flags) {
    char name[256] = "";
    struct Stat stat = {0};
    int length = data ? (int)strlen(data) : -1;
    int rc = zoo_create(zh, path, data, length, &ZOO_OPEN_ACL_UNSAFE, flags, name, sizeof name);
    printf("create %s flags=%d: rc=%d name=%s\n", path, flags, rc, rc == ZOK ? name : "");
    char again[256];
    snprintf(again, sizeof again, "%s-2", path);
    rc = zoo_create2(zh, again, data, length, &ZOO_OPEN_ACL_UNSAFE, flags, name, sizeof name, &stat);
    printf("create2 %s flags=%d: rc=%d name=%s\n", again, flags, rc, rc == ZOK ? name : "");
    if (rc == ZOK) show_stat(&stat);
}

static void get(zhandle_t *zh, const char *path) {
    char data[512];
    int length = sizeof data;
    struct Stat stat;
    int rc = zoo_get(zh, path, 0, data, &length, &stat);
    if (rc != ZOK) {
        printf("get %s: rc=%d %s\n", path, rc, zerror(rc));
        return;
    }
    printf("get %s: length=%d data=%.*s\n", path, length, length > 0 ? length : 0, data);
    show_stat(&stat);
}

static void children(zhandle_t *zh, const char *path) {
    struct String_vector names = {0};
    struct Stat stat;
    int rc = zoo_get_children2(zh, path, 0, &names, &stat);
    printf("children %s: rc=%d", path, rc);
    if (rc == ZOK) {
        if (names.count) qsort(names.data, (size_t)names.count, sizeof names.data[0], by_name);
        for (int i = 0; i < names.count; i++) printf(" %s", names.data[i]);
        printf("\n");
        show_stat(&stat);
        deallocate_String_vector(&names);
    } else {
        printf("\n");
    }
}

static void acl(zhandle_t *zh, const char *path) {
    struct ACL_vector list = {0};
    struct Stat stat;
    int rc = zoo_get_acl(zh, path, &list, &stat);
    printf("acl %s: rc=%d", path, rc);
    for (int i = 0; rc == ZOK && i < list.count; i++)
        printf(" %d:%s:%s", list.data[i].perms, list.data[i].id.scheme, list.data[i].id.id);
    printf("\n");
    if (rc == ZOK) deallocate_ACL_vector(&list);
}

static zhandle_t *connect_to(const char *host, const clientid_t *id) {
    session_state = 0;
    zhandle_t *zh = zookeeper_init(host, session_watcher, TIMEOUT_MS, id, NULL, 0);
    if (!zh) {
        printf("no handle\n");
        exit(1);
    }
    wait_for_state(ZOO_CONNECTED_STATE);
    return zh;
}

/* A process that opens a session, makes an ephemeral and dies without a word; its session stays. */
static clientid_t orphaned_session(const char *host) {
    int pipes[2];
    clientid_t id = {0};
    fflush(stdout);
    if (pipe(pipes) != 0) exit(1);
    pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stdout)) _exit(2);
        zhandle_t *zh = connect_to(host, NULL);
        int rc = zoo_create(zh, "/orphan", "o", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0);
        clientid_t mine = *zoo_client_id(zh);
        ssize_t written = write(pipes[1], &mine, sizeof mine);
        _exit(rc == ZOK && written == sizeof mine ? 0 : 3);
    }
    int status = 0;
    if (read(pipes[0], &id, sizeof id) != sizeof id) printf("no session from the child\n");
    waitpid(child, &status, 0);
    printf("child: %d\n", status);
    return id;
}

static void nodes(zhandle_t *zh) {
    create(zh, "/c", "data", 0);
    create(zh, "/c", "again", 0);
    create(zh, "/c/e", "eph", ZOO_EPHEMERAL);
    create(zh, "/c/s-", "seq", ZOO_SEQUENCE);
    create(zh, "/c/es-", "both", ZOO_EPHEMERAL | ZOO_SEQUENCE);
    create(zh, "/c/cont", "container", ZOO_CONTAINER);
    create(zh, "/c/null", NULL, 0);
    create(zh, "/c/empty", "", 0);
    create(zh, "/c/e/child", "x", 0);
    create(zh, "/none/child", "x", 0);
    create(zh, "/bad/", "x", 0);
    create(zh, "/bad//path", "x", 0);
    create(zh, "relative", "x", 0);

    char name[256] = "";
    struct Stat stat = {0};
    int rc = zoo_create_ttl(zh, "/c/ttl", "t", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_WITH_TTL, 600000,
                            name, sizeof name);
    printf("ttl: rc=%d %s\n", rc, name);
    rc = zoo_create2_ttl(zh, "/c/ttl-", "t", 1, &ZOO_OPEN_ACL_UNSAFE,
                         ZOO_PERSISTENT_SEQUENTIAL_WITH_TTL, 600000, name, sizeof name, &stat);
    printf("sequential ttl: rc=%d %s\n", rc, name);
    show_stat(&stat);
    rc = zoo_create_ttl(zh, "/c/ttl0", "t", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_WITH_TTL, 0, name,
                        sizeof name);
    printf("ttl of 0: rc=%d\n", rc);

    get(zh, "/c");
    get(zh, "/c/null");
    get(zh, "/c/empty");
    get(zh, "/none");
    show_rc("set", zoo_set(zh, "/c", "new", 3, -1));
    show_rc("set with the right version", zoo_set2(zh, "/c", "newer", 5, 1, &stat));
    show_stat(&stat);
    show_rc("set with a wrong version", zoo_set(zh, "/c", "x", 1, 7));
    show_rc("set nothing", zoo_set(zh, "/none", "x", 1, -1));
    get(zh, "/c");
    show_rc("exists", zoo_exists(zh, "/c", 0, &stat));
    show_stat(&stat);
    show_rc("exists not", zoo_exists(zh, "/none", 0, &stat));
    children(zh, "/");
    children(zh, "/c");
    children(zh, "/none");
    show_rc("delete with a wrong version", zoo_delete(zh, "/c/e-2", 3));
    show_rc("delete", zoo_delete(zh, "/c/e-2", 0));
    show_rc("delete again", zoo_delete(zh, "/c/e-2", -1));
    show_rc("delete a parent", zoo_delete(zh, "/c", -1));
    char config[1024];
    int length = sizeof config;
    rc = zoo_getconfig(zh, 0, config, &length, &stat);
    printf("config: rc=%d length=%d\n", rc, length);
    length = sizeof config;
    rc = zoo_reconfig(zh, NULL, "2", NULL, -1, config, &length, &stat);
    show_rc("reconfig", rc);
    show_rc_and_wait("sync", zoo_async(zh, "/c", string_completion, "sync"));
}

static void transactions(zhandle_t *zh) {
    char first[64] = "", second[64] = "";
    struct Stat stat = {0};
    zoo_op_t ops[5];
    zoo_op_result_t results[5] = {0};
    zoo_create_op_init(&ops[0], "/m", "m", 1, &ZOO_OPEN_ACL_UNSAFE, 0, first, sizeof first);
    zoo_create_op_init(&ops[1], "/m/s-", "s", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_SEQUENCE, second,
                       sizeof second);
    zoo_set_op_init(&ops[2], "/m", "mm", 2, 0, &stat);
    zoo_check_op_init(&ops[3], "/m", 1);
    zoo_delete_op_init(&ops[4], "/m/s-0000000000", 0);
    show_rc("multi", zoo_multi(zh, 5, ops, results));
    for (int i = 0; i < 5; i++) printf("  result %d: %d\n", i, results[i].err);
    printf("  names: %s %s\n", first, second);
    show_stat(&stat);

    memset(results, 0, sizeof results);
    zoo_create_op_init(&ops[0], "/m/a", "a", 1, &ZOO_OPEN_ACL_UNSAFE, 0, first, sizeof first);
    zoo_check_op_init(&ops[1], "/m", 9);
    zoo_delete_op_init(&ops[2], "/m", -1);
    show_rc("failing multi", zoo_multi(zh, 3, ops, results));
    for (int i = 0; i < 3; i++) printf("  result %d: %d\n", i, results[i].err);
    children(zh, "/m");
}

static void watches(zhandle_t *zh) {
    struct String_vector names = {0};
    struct Stat stat;
    char data[64];
    int length = sizeof data;
    create(zh, "/w", "w", 0);
    show_rc("watch data", zoo_wget(zh, "/w", node_watcher, "data", data, &length, &stat));
    show_rc("watch children", zoo_wget_children(zh, "/w", node_watcher, "children", &names));
    show_rc("watch existence", zoo_wexists(zh, "/w/new", node_watcher, "exists", &stat));
    show_rc("set", zoo_set(zh, "/w", "changed", 7, -1));
    create(zh, "/w/new", "n", 0);
    show_events(3);
    show_rc("watch existence", zoo_wexists(zh, "/w/new", node_watcher, "exists", &stat));
    show_rc("watch children", zoo_wget_children(zh, "/w", node_watcher, "children", &names));
    show_rc("delete", zoo_delete(zh, "/w/new", -1));
    show_events(2);
    show_rc("watch children", zoo_wget_children(zh, "/w/new-2", node_watcher, "children", &names));
    length = sizeof data;
    show_rc("watch data", zoo_wget(zh, "/w/new-2", node_watcher, "data", data, &length, &stat));
    show_rc("delete", zoo_delete(zh, "/w/new-2", -1));
    show_events(2);
    length = sizeof data;
    show_rc("watch data", zoo_wget(zh, "/w", node_watcher, "data", data, &length, &stat));
    show_rc("remove another's watch",
            zoo_remove_watches(zh, "/w", ZWATCHTYPE_CHILD, node_watcher, "data", 0));
    show_rc("remove watch", zoo_remove_watches(zh, "/w", ZWATCHTYPE_DATA, node_watcher, "data", 0));
    show_rc("remove all", zoo_remove_all_watches(zh, "/w", ZWATCHTYPE_ANY, 0));
    show_rc("set", zoo_set(zh, "/w", "unseen", 6, -1));
}

static void permissions(zhandle_t *zh) {
    struct ACL entries[] = {{ZOO_PERM_ALL, {"auth", ""}}, {ZOO_PERM_READ, {"world", "anyone"}}};
    struct ACL_vector mine = {1, entries}, shared = {2, entries}, wrong = {1, entries};
    char name[64];
    show_rc("create without credentials", zoo_create(zh, "/p", "p", 1, &mine, 0, name, sizeof name));
    show_rc_and_wait("add auth", zoo_add_auth(zh, "digest", "user:secret", 11, completion, "auth"));
    show_rc("create", zoo_create(zh, "/p", "p", 1, &mine, 0, name, sizeof name));
    show_rc("create", zoo_create(zh, "/shared", "p", 1, &shared, 0, name, sizeof name));
    acl(zh, "/p");
    acl(zh, "/shared");
    acl(zh, "/none");
    show_rc("set acl", zoo_set_acl(zh, "/shared", 0, &ZOO_READ_ACL_UNSAFE));
    show_rc("set acl again", zoo_set_acl(zh, "/shared", 1, &ZOO_OPEN_ACL_UNSAFE));
    show_rc("set acl, wrong version", zoo_set_acl(zh, "/p", 9, &ZOO_OPEN_ACL_UNSAFE));
    entries[0].id.scheme = "nonsense";
    show_rc("create with an unknown scheme", zoo_create(zh, "/q", "p", 1, &wrong, 0, name, sizeof name));
}

int main(int count, char **words) {
    if (count != 2) return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    zoo_set_debug_level(0);
    const char *host = words[1];

    clientid_t orphan = orphaned_session(host);
    zhandle_t *zh = connect_to(host, &orphan);
    printf("resumed: %s\n", zoo_client_id(zh)->client_id == orphan.client_id ? "the same" : "another");
    printf("timeout: %d\n", zoo_recv_timeout(zh));
    get(zh, "/orphan");
    nodes(zh);
    transactions(zh);
    watches(zh);
    permissions(zh);

    zhandle_t *other = connect_to(host, NULL);
    get(other, "/p");
    get(other, "/shared");
    acl(other, "/p");
    acl(other, "/shared");
    show_rc("set", zoo_set(other, "/p", "x", 1, -1));
    show_rc("delete", zoo_delete(other, "/p", -1));
    struct Stat stat;
    show_rc("watch existence", zoo_wexists(other, "/orphan", node_watcher, "orphan", &stat));
    show_rc("close", zookeeper_close(zh));
    show_events(1);
    children(other, "/");
    children(other, "/c");
    show_rc("close", zookeeper_close(other));

    /* A session that was closed cannot be resumed. */
    session_state = 0;
    zh = zookeeper_init(host, session_watcher, TIMEOUT_MS, &orphan, NULL, 0);
    wait_for_state(ZOO_EXPIRED_SESSION_STATE);
    printf("unrecoverable: %d\n", is_unrecoverable(zh) != ZOK);
    zookeeper_close(zh);

    /* Nor one with a wrong password: a credential that the server does not accept ends the session. */
    zh = connect_to(host, NULL);
    show_rc_and_wait("wrong auth", zoo_add_auth(zh, "nonsense", "x", 1, completion, "wrong auth"));
    wait_for_state(ZOO_AUTH_FAILED_STATE);
    zookeeper_close(zh);
    return 0;
}
