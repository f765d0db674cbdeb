/* A session that loses its server, finds it again, and is told in the end that it has expired. Lines on stdin say what to do. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

static void watcher(zhandle_t *zh, int type, int state, const char *path, void *context) {
    (void)zh;
    printf("%s: type=%d state=%d path=%s\n", (const char *)context, type, state, path);
}

static int is_sure(int rc) { return rc != ZCONNECTIONLOSS && rc != ZOPERATIONTIMEOUT; }

int main(int count, char **words) {
    char line[32], data[16];
    clientid_t first;
    zhandle_t *zh;
    if (count != 3) return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    zoo_set_debug_level(0);
    zh = zookeeper_init(words[1], watcher, atoi(words[2]), NULL, "handle", 0);
    if (!zh) return 1;
    while (fgets(line, sizeof line, stdin)) {
        int rc, length = sizeof data;
        line[strcspn(line, "\n")] = 0;
        if (!strcmp(line, "create")) {
            rc = zoo_create(zh, "/moves", "0", 1, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
            first = *zoo_client_id(zh);
        } else if (!strcmp(line, "watch")) {
            /* The same watcher twice, and one of its own. */
            do rc = zoo_wget(zh, "/moves", watcher, "data", data, &length, NULL);
            while (!is_sure(rc) && usleep(10000) == 0);
            length = sizeof data;
            zoo_wget(zh, "/moves", watcher, "data", data, &length, NULL);
            zoo_wexists(zh, "/none", watcher, "exists", NULL);
        } else if (!strcmp(line, "set")) {
            do rc = zoo_set(zh, "/moves", "1", 1, -1);
            while (!is_sure(rc) && usleep(10000) == 0);
        } else if (!strcmp(line, "same")) {
            rc = memcmp(&first, zoo_client_id(zh), sizeof first) != 0;
        } else if (!strcmp(line, "over")) {
            rc = is_unrecoverable(zh);
        } else if (!strcmp(line, "state")) {
            rc = zoo_state(zh);
        } else {
            break;
        }
        printf("%s: rc=%d\n", line, rc);
    }
    printf("close: rc=%d\n", zookeeper_close(zh));
    return 0;
}
