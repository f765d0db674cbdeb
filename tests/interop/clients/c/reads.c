/* Several reads in one request, with the headers of Zebu, waited for and with a completion. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zookeeper/zookeeper.h>

#define COUNT 4

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int is_done;

static void nobody(zhandle_t *zh, int type, int state, const char *path, void *context) {
    (void)zh, (void)type, (void)state, (void)path, (void)context;
}

static void show(int rc, zebu_read_result_t *results) {
    printf("reads: %d\n", rc);
    for (int at = 0; at < COUNT; at++) {
        zebu_read_result_t *it = &results[at];
        printf("%d: %s %d, version %d, %d children", it->err, it->data ? it->data : "-", it->data_len, it->stat.version,
               it->children.count);
        for (int child = 0; child < it->children.count; child++) printf(" %s", it->children.data[child]);
        printf("\n");
    }
    zebu_free_read_results(COUNT, results);
}

static void done(int rc, const void *data) {
    show(rc, (zebu_read_result_t *)(size_t)data);
    pthread_mutex_lock(&mutex);
    is_done = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
}

int main(int count, char **words) {
    zebu_read_t reads[COUNT] = {
        {ZEBU_READ_DATA, "/reads"}, {ZEBU_READ_CHILDREN, "/reads"}, {ZEBU_READ_DATA, "/none"}, {ZEBU_READ_DATA, "/reads/null"}};
    zebu_read_t wrong[2] = {{1, "/reads"}, {ZEBU_READ_DATA, "reads"}};
    zebu_read_result_t results[COUNT];
    char name[16], servers[64];
    zhandle_t *zh;
    if (count != 2) return 2;
    zoo_set_debug_level(0);
    zh = zookeeper_init(words[1], nobody, 10000, NULL, NULL, 0);
    if (!zh) return 1;
    zoo_create(zh, "/reads", "some", 4, &ZOO_OPEN_ACL_UNSAFE, 0, name, sizeof name);
    zoo_create(zh, "/reads/null", NULL, -1, &ZOO_OPEN_ACL_UNSAFE, 0, name, sizeof name);
    zoo_set(zh, "/reads", "more", 4, -1);
    show(zebu_multi_read(zh, COUNT, reads, results), results);
    if (zebu_amulti_read(zh, COUNT, reads, results, done, results) != ZOK) return 1;
    pthread_mutex_lock(&mutex);
    while (!is_done) pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
    printf("wrong: %d %d %d %d %d\n", zebu_multi_read(zh, 1, wrong, results), zebu_multi_read(zh, 1, wrong + 1, results),
           zebu_multi_read(zh, -1, reads, results), zebu_multi_read(zh, 1, NULL, results), zebu_multi_read(zh, 1, reads, NULL));
    printf("none: %d\n", zebu_multi_read(zh, 0, NULL, NULL));
    zookeeper_close(zh);
    /* Below a chroot. */
    snprintf(servers, sizeof servers, "%s/reads", words[1]);
    zh = zookeeper_init(servers, nobody, 10000, NULL, NULL, 0);
    if (!zh) return 1;
    reads[0].path = "/null", reads[1].path = "/", reads[3].path = "/";
    show(zebu_multi_read(zh, COUNT, reads, results), results);
    return zookeeper_close(zh);
}
