/* Watches that last, with the headers of Zebu. A completion behind the changes waits for their events. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <zookeeper/zookeeper.h>

static void nobody(zhandle_t *zh, int type, int state, const char *path, void *context) {
    (void)zh, (void)type, (void)state, (void)path, (void)context;
}

static void watcher(zhandle_t *zh, int type, int state, const char *path, void *context) {
    (void)zh, (void)state;
    if (type != ZOO_SESSION_EVENT) printf("%s: %d %s\n", (const char *)context, type, path);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int is_settled;

static void settled(int rc, const char *path, const void *data) {
    (void)rc, (void)path, (void)data;
    pthread_mutex_lock(&mutex);
    is_settled = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
}

static void settle(zhandle_t *zh) {
    is_settled = 0;
    if (zoo_async(zh, "/", settled, NULL) != ZOK) return;
    pthread_mutex_lock(&mutex);
    while (!is_settled) pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

int main(int count, char **words) {
    zhandle_t *zh;
    char name[8];
    if (count != 2) return 2;
    zoo_set_debug_level(0);
    zh = zookeeper_init(words[1], nobody, 10000, NULL, NULL, 0);
    if (!zh) return 1;
    printf("wrong: %d %d %d\n", zebu_add_watch(zh, "/lasting", 2, watcher, NULL),
           zebu_add_watch(zh, "/lasting", ZEBU_PERSISTENT_WATCH, NULL, NULL),
           zebu_add_watch(zh, NULL, ZEBU_PERSISTENT_WATCH, watcher, NULL));
    printf("add: %d", zebu_add_watch(zh, "/lasting", ZEBU_PERSISTENT_WATCH, watcher, "persistent"));
    printf(" %d\n", zebu_add_watch(zh, "/lasting", ZEBU_RECURSIVE_WATCH, watcher, "recursive"));
    printf("add again: %d\n", zebu_add_watch(zh, "/lasting", ZEBU_RECURSIVE_WATCH, watcher, "recursive"));
    zoo_create(zh, "/lasting", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, name, sizeof name);
    zoo_create(zh, "/lasting/a", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, name, sizeof name);
    zoo_set(zh, "/lasting/a", "1", 1, -1);
    zoo_set(zh, "/lasting/a", "2", 1, -1);
    zoo_delete(zh, "/lasting/a", -1);
    zoo_set(zh, "/lasting", "1", 1, -1);
    settle(zh);
    printf("remove: %d\n", zoo_remove_watches(zh, "/lasting", ZWATCHTYPE_ANY, watcher, "persistent", 0));
    zoo_set(zh, "/lasting", "2", 1, -1);
    settle(zh);
    printf("remove all: %d\n", zoo_remove_all_watches(zh, "/lasting", ZWATCHTYPE_ANY, 0));
    printf("remove all: %d\n", zoo_remove_all_watches(zh, "/lasting", ZWATCHTYPE_ANY, 0));
    zoo_set(zh, "/lasting", "3", 1, -1);
    return zookeeper_close(zh);
}
