/* The master of the master-worker example, with the C client. It assigns tasks to workers, and takes them back from
 * workers whose sessions have ended. Start several masters: one leads, the others wait to take over.
 *
 *     cc -DTHREADED master.c -lzookeeper_mt -lpthread        requests and answers on threads of the library
 *     cc master.c -lzookeeper_st                             everything on the one thread of this program
 *
 *     ZK_AUTH=amy:secret ./a.out HOST:PORT[,HOST:PORT...][/CHROOT]
 *
 * The znodes:
 *
 *     /master                 ephemeral, names the master
 *     /workers/NAME           ephemeral, created by the worker after its znode below /assign
 *     /tasks/task-NUMBER      a task of a client that no worker has yet
 *     /assign/NAME/TASK       a task assigned to that worker
 *     /status/TASK            the result of the task
 *
 * One transaction moves a task from /tasks to /assign, and another one moves it back if its worker has gone. So the
 * task is always in exactly one of the two. All callbacks run on one thread, so their data need no lock. The main
 * thread uses these data only after the last callback. If a connection is lost, the program repeats the step in
 * progress, and each step finds out whether it was already executed. The program ends with its session. When it is
 * started again, it continues from the znodes. */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

enum { SESSION_MS = 15000, PATH_MAX_BYTES = 512 };

/* Set by the first callback, which may run before zookeeper_init has returned. */
static zhandle_t *handle;
static const char *credentials;
static char server_id[17];
static volatile int is_connected, is_master;
static volatile sig_atomic_t is_over;

/* ---- Output. */

static void say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    fflush(stdout);
}

static void warn(const char *what, const char *path, int rc) {
    fprintf(stderr, "%s: %s: %s\n", what, path, zerror(rc));
}

static void *checked(void *memory) {
    if (memory == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return memory;
}

static char *copy(const char *text) {
    return checked(strdup(text));
}

/* Makes the path of a child. */
static const char *below(char *path, const char *parent, const char *name) {
    if (snprintf(path, PATH_MAX_BYTES, "%s/%s", parent, name) >= PATH_MAX_BYTES) {
        fprintf(stderr, "too long: %s/%s\n", parent, name);
        exit(1);
    }
    return path;
}

static const char *last_part(const char *path) {
    return strrchr(path, '/') + 1;
}

/* Whether a step must be repeated, because it is unknown whether it was executed. */
static int is_lost(int rc) {
    return rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT;
}

/* Whether the client is connected. Reports it if not. */
static int can_ask(void) {
    if (!is_connected)
        fprintf(stderr, "not connected\n");
    return is_connected;
}

/* ---- Sets of names. */

struct names {
    int count;
    char **items;
};

static int find(const struct names *names, const char *name) {
    int i;
    for (i = 0; i < names->count; i++)
        if (strcmp(names->items[i], name) == 0)
            return i;
    return -1;
}

static void add(struct names *names, const char *name) {
    names->items = checked(realloc(names->items, (size_t)(names->count + 1) * sizeof *names->items));
    names->items[names->count++] = copy(name);
}

static void drop(struct names *names, const char *name) {
    int at = find(names, name);
    if (at < 0)
        return;
    free(names->items[at]);
    names->items[at] = names->items[--names->count];
}

static void clear(struct names *names) {
    while (names->count > 0)
        free(names->items[--names->count]);
    free(names->items);
    names->items = NULL;
}

static struct names names_of(const struct String_vector *strings) {
    struct names names = {0, NULL};
    int i;
    for (i = 0; i < strings->count; i++)
        add(&names, strings->data[i]);
    return names;
}

/* The names in `these` that are not in `those`. */
static struct names without(const struct names *these, const struct names *those) {
    struct names rest = {0, NULL};
    int i;
    for (i = 0; i < these->count; i++)
        if (find(those, these->items[i]) < 0)
            add(&rest, these->items[i]);
    return rest;
}

/* The last lists received, to find the new names in the next ones. */
static struct names workers, tasks;

static struct names replace(struct names *list, struct names now, int is_added) {
    struct names difference = is_added ? without(&now, list) : without(list, &now);
    clear(list);
    *list = now;
    return difference;
}

static struct names added_and_set(struct names *list, struct names now) {
    return replace(list, now, 1);
}

static struct names removed_and_set(struct names *list, struct names now) {
    return replace(list, now, 0);
}

/* ---- Assigns a task to a worker. */

struct task {
    char *name;
    char *worker; /* the worker that it moves to or from */
    char *value;
    int value_len;
    /* The operations of a transaction and their results. */
    zoo_op_t ops[2];
    zoo_op_result_t results[2];
    char from[PATH_MAX_BYTES], to[PATH_MAX_BYTES];
};

static struct task *new_task(const char *name, const char *worker) {
    struct task *task = checked(calloc(1, sizeof *task));
    task->name = copy(name);
    task->worker = worker == NULL ? NULL : copy(worker);
    return task;
}

static void free_task(struct task *task) {
    free(task->name);
    free(task->worker);
    free(task->value);
    free(task);
}

static void keep_value(struct task *task, const char *value, int value_len) {
    free(task->value);
    task->value_len = value_len < 0 ? 0 : value_len;
    task->value = checked(malloc((size_t)task->value_len + 1));
    if (task->value_len > 0)
        memcpy(task->value, value, (size_t)task->value_len);
}

/* Moves a task with its value in one transaction. */
static void move_task(struct task *task, const char *from, const char *to, void_completion_t moved) {
    below(task->from, from, task->name);
    below(task->to, to, task->name);
    zoo_create_op_init(&task->ops[0], task->to, task->value, task->value_len, &ZOO_CREATOR_ALL_ACL, 0, NULL, 0);
    zoo_delete_op_init(&task->ops[1], task->from, -1);
    zoo_amulti(handle, 2, task->ops, task->results, moved, task);
}

static void get_task(struct task *task);

static void task_assigned(int rc, const void *data) {
    struct task *task = (struct task *)data;
    if (is_lost(rc) || rc == ZNONODE || rc == ZNODEEXISTS) {
        /* An earlier attempt without an answer has moved it, or the worker or the task is gone: read it again. */
        get_task(task);
        return;
    }
    if (rc == ZOK) {
        say("%s goes to %s", task->name, task->worker);
        drop(&tasks, task->name);
    } else {
        warn("assign", task->name, rc);
    }
    free_task(task);
}

static void assign(struct task *task) {
    char place[PATH_MAX_BYTES];
    free(task->worker);
    task->worker = copy(workers.items[rand() % workers.count]);
    below(place, "/assign", task->worker);
    move_task(task, "/tasks", place, task_assigned);
}

static void got_task(int rc, const char *value, int value_len, const struct Stat *stat, const void *data) {
    struct task *task = (struct task *)data;
    (void)stat;
    if (is_lost(rc)) {
        get_task(task);
    } else if (rc == ZOK && workers.count > 0) {
        keep_value(task, value, value_len);
        assign(task);
    } else {
        /* Without workers, the task waits for the first one. If the task is gone, it was already assigned. */
        drop(&tasks, task->name);
        if (rc != ZOK && rc != ZNONODE)
            warn("read", task->name, rc);
        free_task(task);
    }
}

static void get_task(struct task *task) {
    char path[PATH_MAX_BYTES];
    int rc = ZINVALIDSTATE;
    if (can_ask())
        rc = zoo_aget(handle, below(path, "/tasks", task->name), 0, got_task, task);
    if (rc != ZOK) {
        drop(&tasks, task->name);
        free_task(task);
    }
}

static void get_tasks(void);

static void tasks_watcher(zhandle_t *zh, int type, int state, const char *path, void *context) {
    (void)zh, (void)state, (void)path, (void)context;
    if (type == ZOO_CHILD_EVENT)
        get_tasks();
}

static void got_tasks(int rc, const struct String_vector *strings, const void *data) {
    struct names added;
    int i;
    (void)data;
    if (is_lost(rc)) {
        get_tasks();
    } else if (rc == ZOK) {
        added = added_and_set(&tasks, names_of(strings));
        for (i = 0; i < added.count; i++)
            get_task(new_task(added.items[i], NULL));
        clear(&added);
    } else {
        warn("list", "/tasks", rc);
    }
}

static void get_tasks(void) {
    if (can_ask())
        zoo_awget_children(handle, "/tasks", tasks_watcher, NULL, got_tasks, NULL);
}

/* ---- Workers, and the tasks of workers that have gone. */

static void get_absent_worker_tasks(const char *worker);

static void task_given_back(int rc, const void *data) {
    struct task *task = (struct task *)data;
    if (rc == ZOK)
        say("%s comes back from %s", task->name, task->worker);
    else if (is_lost(rc))
        get_absent_worker_tasks(task->worker);
    else if (rc != ZNONODE && rc != ZNODEEXISTS)
        warn("give back", task->name, rc);
    free_task(task);
}

static void got_absent_worker_task(int rc, const char *value, int value_len, const struct Stat *stat, const void *data) {
    struct task *task = (struct task *)data;
    char place[PATH_MAX_BYTES];
    (void)stat;
    if (rc == ZOK) {
        keep_value(task, value, value_len);
        move_task(task, below(place, "/assign", task->worker), "/tasks", task_given_back);
        return;
    }
    if (is_lost(rc))
        get_absent_worker_tasks(task->worker);
    free_task(task);
}

static void place_removed(int rc, const void *data) {
    /* If a task has just been assigned, the znode is not empty. The next list of workers shows it again. */
    if (rc != ZOK && rc != ZNONODE && rc != ZNOTEMPTY && !is_lost(rc))
        warn("remove", data, rc);
    free((void *)data);
}

static void got_absent_worker_tasks(int rc, const struct String_vector *strings, const void *data) {
    char *worker = (char *)data, place[PATH_MAX_BYTES], path[PATH_MAX_BYTES];
    int i;
    below(place, "/assign", worker);
    if (rc == ZOK && find(&workers, worker) < 0) {
        for (i = 0; i < strings->count; i++) {
            below(path, place, strings->data[i]);
            zoo_aget(handle, path, 0, got_absent_worker_task, new_task(strings->data[i], worker));
        }
        /* The tasks are moved only when the answers to the requests above arrive. So a znode with tasks stays until
         * the last of them has been moved back. */
        if (strings->count == 0)
            zoo_adelete(handle, place, -1, place_removed, copy(worker));
    } else if (is_lost(rc)) {
        get_absent_worker_tasks(worker);
    }
    free(worker);
}

static void place_watcher(zhandle_t *zh, int type, int state, const char *path, void *context) {
    (void)zh, (void)state, (void)context;
    if (type == ZOO_CHILD_EVENT && find(&workers, last_part(path)) < 0)
        get_absent_worker_tasks(last_part(path));
}

static void get_absent_worker_tasks(const char *worker) {
    char path[PATH_MAX_BYTES];
    below(path, "/assign", worker);
    if (can_ask())
        zoo_awget_children(handle, path, place_watcher, NULL, got_absent_worker_tasks, copy(worker));
}

/* Finds workers that have a znode below /assign but are not in /workers: an earlier master may have missed them. */
static void got_places(int rc, const struct String_vector *strings, const void *data) {
    struct names places, absent;
    int i;
    (void)data;
    if (rc != ZOK)
        return; /* after a lost connection, connected() asks again */
    places = names_of(strings);
    absent = without(&places, &workers);
    for (i = 0; i < absent.count; i++)
        get_absent_worker_tasks(absent.items[i]);
    clear(&absent);
    clear(&places);
}

static void get_workers(void);

static void workers_watcher(zhandle_t *zh, int type, int state, const char *path, void *context) {
    (void)zh, (void)state, (void)path, (void)context;
    if (type == ZOO_CHILD_EVENT)
        get_workers();
}

static void got_workers(int rc, const struct String_vector *strings, const void *data) {
    struct names removed;
    int i, had_none = workers.count == 0;
    (void)data;
    if (is_lost(rc)) {
        get_workers();
    } else if (rc == ZOK) {
        removed = removed_and_set(&workers, names_of(strings));
        for (i = 0; i < removed.count; i++)
            say("%s is gone", removed.items[i]);
        clear(&removed);
        zoo_aget_children(handle, "/assign", 0, got_places, NULL);
        /* The first worker can get the waiting tasks. */
        if (had_none)
            get_tasks();
    } else {
        warn("list", "/workers", rc);
    }
}

static void get_workers(void) {
    if (can_ask())
        zoo_awget_children(handle, "/workers", workers_watcher, NULL, got_workers, NULL);
}

/* ---- The election of the master. */

static void run_for_master(void);

static void take_leadership(void) {
    if (is_master)
        return;
    is_master = 1;
    say("leading");
    clear(&workers);
    clear(&tasks);
    get_workers();
}

static void master_exists(void);

static void master_exists_watcher(zhandle_t *zh, int type, int state, const char *path, void *context) {
    (void)zh, (void)state, (void)path, (void)context;
    if (type == ZOO_DELETED_EVENT)
        run_for_master();
}

static void got_master_exists(int rc, const struct Stat *stat, const void *data) {
    (void)stat, (void)data;
    if (is_lost(rc))
        master_exists();
    else if (rc == ZNONODE)
        run_for_master(); /* deleted meanwhile */
    else if (rc == ZOK)
        say("standing by");
    else
        warn("watch", "/master", rc);
}

static void master_exists(void) {
    if (can_ask())
        zoo_awexists(handle, "/master", master_exists_watcher, NULL, got_master_exists, NULL);
}

static void got_master(int rc, const char *value, int value_len, const struct Stat *stat, const void *data);

static void check_master(void) {
    if (can_ask())
        zoo_aget(handle, "/master", 0, got_master, NULL);
}

static void got_master(int rc, const char *value, int value_len, const struct Stat *stat, const void *data) {
    (void)data;
    if (is_lost(rc))
        check_master();
    else if (rc == ZNONODE)
        run_for_master();
    else if (rc != ZOK)
        warn("read", "/master", rc);
    else if (value_len == (int)strlen(server_id) && memcmp(value, server_id, (size_t)value_len) == 0
             && stat->ephemeralOwner == zoo_client_id(handle)->client_id)
        take_leadership();
    else
        master_exists();
}

static void master_created(int rc, const char *value, const void *data) {
    (void)value, (void)data;
    if (is_lost(rc))
        check_master();
    else if (rc == ZOK)
        take_leadership();
    else if (rc == ZNODEEXISTS)
        master_exists();
    else
        warn("create", "/master", rc);
}

static void run_for_master(void) {
    if (can_ask())
        zoo_acreate(handle, "/master", server_id, (int)strlen(server_id), &ZOO_CREATOR_ALL_ACL, ZOO_EPHEMERAL,
                    master_created, NULL);
}

/* ---- The start. */

static void create_parent(const char *path);

static void parent_created(int rc, const char *value, const void *data) {
    (void)value;
    if (is_lost(rc))
        create_parent(data);
    else if (rc != ZOK && rc != ZNODEEXISTS)
        warn("create", data, rc);
}

static void create_parent(const char *path) {
    if (can_ask())
        zoo_acreate(handle, path, "", 0, &ZOO_CREATOR_ALL_ACL, 0, parent_created, path);
}

static void connected(void) {
    static int is_prepared;
    is_connected = 1;
    if (!is_prepared) {
        /* Before the first request. On later connections, the library sends the credentials by itself. */
        zoo_add_auth(handle, "digest", credentials, (int)strlen(credentials), NULL, NULL);
        create_parent("/workers");
        create_parent("/assign");
        create_parent("/tasks");
        create_parent("/status");
        is_prepared = 1;
    }
    /* Answers of the last connection may be lost, so this asks for everything again. */
    if (is_master) {
        clear(&tasks);
        get_workers();
        get_tasks();
    } else {
        check_master();
    }
}

static void session_watcher(zhandle_t *zh, int type, int state, const char *path, void *context) {
    (void)path, (void)context;
    if (type != ZOO_SESSION_EVENT)
        return;
    handle = zh;
    if (state == ZOO_CONNECTED_STATE) {
        connected();
    } else {
        is_connected = 0;
        if (state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE) {
            say("session over");
            is_over = 1;
        }
    }
}

static void stop(int signal) {
    (void)signal;
    is_over = 1;
}

/* Runs until the program must end. */
static void run(zhandle_t *zh) {
#ifdef THREADED
    (void)zh;
    struct timespec pause = {0, 100000000};
    while (!is_over)
        nanosleep(&pause, NULL);
#else
    struct pollfd wanted;
    struct timeval limit;
    int interest, ready, events;
    while (!is_over) {
        wanted.fd = -1;
        zookeeper_interest(zh, &wanted.fd, &interest, &limit);
        wanted.events = (short)(((interest & ZOOKEEPER_READ) ? POLLIN : 0) | ((interest & ZOOKEEPER_WRITE) ? POLLOUT : 0));
        ready = poll(&wanted, wanted.fd >= 0, (int)(limit.tv_sec * 1000 + limit.tv_usec / 1000));
        events = 0;
        if (ready > 0) {
            if (wanted.revents & (POLLIN | POLLHUP | POLLERR))
                events |= ZOOKEEPER_READ;
            if (wanted.revents & POLLOUT)
                events |= ZOOKEEPER_WRITE;
        }
        zookeeper_process(zh, events);
    }
#endif
}

int main(int argc, char **argv) {
    zhandle_t *zh;
    unsigned seed = (unsigned)getpid() ^ (unsigned)time(NULL);
    struct sigaction action = {0};
    credentials = getenv("ZK_AUTH");
    if (argc != 2 || credentials == NULL) {
        fprintf(stderr, "usage: ZK_AUTH=NAME:PASSWORD %s HOST:PORT[,HOST:PORT...][/CHROOT]\n", argv[0]);
        return 2;
    }
    action.sa_handler = stop;
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    srand(seed);
    snprintf(server_id, sizeof server_id, "%x%x", (unsigned)rand(), (unsigned)getpid());
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    zh = zookeeper_init(argv[1], session_watcher, SESSION_MS, NULL, NULL, 0);
    if (zh == NULL) {
        fprintf(stderr, "%s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    run(zh);
    zookeeper_close(zh);
    clear(&workers);
    clear(&tasks);
    return 0;
}
