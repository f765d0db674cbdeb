/*
 * The interface of the ZooKeeper client for C.
 *
 * Link with -lzookeeper_mt, and define THREADED before this header is included: the library then has two threads for each handle.
 * Or link with -lzookeeper_st: the program's own loop calls zookeeper_interest and zookeeper_process, and there are no
 * synchronous functions.
 *
 * Functions return ZOK or another number of enum ZOO_ERRORS. A function with a completion returns ZOK when the completion will be
 * called, which happens exactly once. Everything that a completion or a watcher is shown belongs to the library and lasts as long
 * as the call. A completion or watcher may call any function, also zookeeper_close.
 *
 * Texts are UTF-8. A null handle, path or buffer is ZBADARGUMENTS.
 */
#ifndef ZEBU_ZOOKEEPER_H
#define ZEBU_ZOOKEEPER_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "proto.h"
#include "recordio.h"
#include "zookeeper.jute.h"
#include "zookeeper_version.h"

#ifndef ZOOAPI
#define ZOOAPI
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum ZOO_ERRORS {
    ZOK = 0,

    /* Below ZSYSTEMERROR: the request may or may not have been executed. */
    ZSYSTEMERROR = -1,
    ZRUNTIMEINCONSISTENCY = -2,
    ZDATAINCONSISTENCY = -3,
    /* The connection was lost before the answer came, or there was none in time. */
    ZCONNECTIONLOSS = -4,
    ZMARSHALLINGERROR = -5,
    ZUNIMPLEMENTED = -6,
    ZOPERATIONTIMEOUT = -7,
    ZBADARGUMENTS = -8,
    /* The session is over. */
    ZINVALIDSTATE = -9,
    ZNEWCONFIGNOQUORUM = -13,
    ZRECONFIGINPROGRESS = -14,
    ZSSLCONNECTIONERROR = -15,

    /* Below ZAPIERROR: a server says so. */
    ZAPIERROR = -100,
    ZNONODE = -101,
    ZNOAUTH = -102,
    ZBADVERSION = -103,
    ZNOCHILDRENFOREPHEMERALS = -108,
    ZNODEEXISTS = -110,
    ZNOTEMPTY = -111,
    ZSESSIONEXPIRED = -112,
    ZINVALIDCALLBACK = -113,
    ZINVALIDACL = -114,
    ZAUTHFAILED = -115,
    ZCLOSING = -116,
    /* From zookeeper_process: there was nothing to do. */
    ZNOTHING = -117,
    ZSESSIONMOVED = -118,
    ZNOTREADONLY = -119,
    ZEPHEMERALONLOCALSESSION = -120,
    ZNOWATCHER = -121,
    ZRECONFIGDISABLED = -123,
    ZSESSIONCLOSEDREQUIRESASLAUTH = -124,
    ZTHROTTLEDOP = -127
};

typedef enum {
    ZOO_LOG_LEVEL_ERROR = 1,
    ZOO_LOG_LEVEL_WARN = 2,
    ZOO_LOG_LEVEL_INFO = 3,
    ZOO_LOG_LEVEL_DEBUG = 4
} ZooLogLevel;

/* Permissions of an ACL, to be combined with |. */
extern ZOOAPI const int ZOO_PERM_READ;
extern ZOOAPI const int ZOO_PERM_WRITE;
extern ZOOAPI const int ZOO_PERM_CREATE;
extern ZOOAPI const int ZOO_PERM_DELETE;
extern ZOOAPI const int ZOO_PERM_ADMIN;
extern ZOOAPI const int ZOO_PERM_ALL;

/* The znode that holds the ensemble's configuration. */
#define ZOO_CONFIG_NODE "/zookeeper/config"

/* Flags of zookeeper_init: a server without a quorum will do, for reads. */
#define ZOO_READONLY 1
/* Flags of zookeeper_init: says nothing about the machine in the log. */
#define ZOO_NO_LOG_CLIENTENV 2

/* Everybody; and, in ACLs only, the identities of the session. */
extern ZOOAPI struct Id ZOO_ANYONE_ID_UNSAFE;
extern ZOOAPI struct Id ZOO_AUTH_IDS;

/* Everybody may do everything; everybody may read; the identities of the session may do everything. */
extern ZOOAPI struct ACL_vector ZOO_OPEN_ACL_UNSAFE;
extern ZOOAPI struct ACL_vector ZOO_READ_ACL_UNSAFE;
extern ZOOAPI struct ACL_vector ZOO_CREATOR_ALL_ACL;

/* What a descriptor is ready for, in zookeeper_interest and zookeeper_process. */
extern ZOOAPI const int ZOOKEEPER_WRITE;
extern ZOOAPI const int ZOOKEEPER_READ;

/* Modes of a create. The modes with a time to live need a function that takes one. */
extern ZOOAPI const int ZOO_PERSISTENT;
extern ZOOAPI const int ZOO_EPHEMERAL;
extern ZOOAPI const int ZOO_PERSISTENT_SEQUENTIAL;
extern ZOOAPI const int ZOO_EPHEMERAL_SEQUENTIAL;
extern ZOOAPI const int ZOO_CONTAINER;
extern ZOOAPI const int ZOO_PERSISTENT_WITH_TTL;
extern ZOOAPI const int ZOO_PERSISTENT_SEQUENTIAL_WITH_TTL;
/* The old name of ZOO_PERSISTENT_SEQUENTIAL; with | ZOO_EPHEMERAL it is ZOO_EPHEMERAL_SEQUENTIAL. */
extern ZOOAPI const int ZOO_SEQUENCE;

/* States of a handle. The first two are final. */
extern ZOOAPI const int ZOO_EXPIRED_SESSION_STATE;
extern ZOOAPI const int ZOO_AUTH_FAILED_STATE;
extern ZOOAPI const int ZOO_CONNECTING_STATE;
extern ZOOAPI const int ZOO_ASSOCIATING_STATE;
extern ZOOAPI const int ZOO_CONNECTED_STATE;
extern ZOOAPI const int ZOO_READONLY_STATE;
extern ZOOAPI const int ZOO_SSL_CONNECTING_STATE;
extern ZOOAPI const int ZOO_NOTCONNECTED_STATE;

/* Types of events. */
extern ZOOAPI const int ZOO_CREATED_EVENT;
extern ZOOAPI const int ZOO_DELETED_EVENT;
extern ZOOAPI const int ZOO_CHANGED_EVENT;
extern ZOOAPI const int ZOO_CHILD_EVENT;
/* The state of the session has changed: every watcher is told, and keeps waiting. */
extern ZOOAPI const int ZOO_SESSION_EVENT;
extern ZOOAPI const int ZOO_NOTWATCHING_EVENT;

/* A session and its connection. */
typedef struct _zhandle zhandle_t;

/* A session and what proves that it is ours: keep it secret. */
typedef struct {
    int64_t client_id;
    char passwd[16];
} clientid_t;

typedef struct _zcert {
    char *certstr;
    char *ca;
    char *cert;
    char *key;
    char *passwd;
} zcert_t;

typedef struct _zsock {
    int sock;
    zcert_t *cert;
} zsock_t;

/* One operation of a multi. The functions zoo_..._op_init fill it in; texts and data must last until the call has returned. */
typedef struct zoo_op {
    int type;
    union {
        struct {
            const char *path;
            const char *data;
            int datalen;
            char *buf;
            int buflen;
            const struct ACL_vector *acl;
            int flags;
            int64_t ttl;
        } create_op;
        struct {
            const char *path;
            int version;
        } delete_op;
        struct {
            const char *path;
            const char *data;
            int datalen;
            int version;
            struct Stat *stat;
        } set_op;
        struct {
            const char *path;
            int version;
        } check_op;
    };
} zoo_op_t;

/* What became of it. err is 0 for an operation that was undone, ZRUNTIMEINCONSISTENCY for one that was not tried. */
typedef struct zoo_op_result {
    int err;
    char *value;
    int valuelen;
    struct Stat *stat;
} zoo_op_result_t;

/* The path of the new znode goes into path_buffer, cut to what fits; it may be null. */
void zoo_create_op_init(zoo_op_t *op, const char *path, const char *value, int valuelen, const struct ACL_vector *acl, int mode,
                        char *path_buffer, int path_buffer_len);
/* The same; servers answer with a stat, too. */
void zoo_create2_op_init(zoo_op_t *op, const char *path, const char *value, int valuelen, const struct ACL_vector *acl, int mode,
                         char *path_buffer, int path_buffer_len);
void zoo_delete_op_init(zoo_op_t *op, const char *path, int version);
void zoo_set_op_init(zoo_op_t *op, const char *path, const char *buffer, int buflen, int version, struct Stat *stat);
void zoo_check_op_init(zoo_op_t *op, const char *path, int version);

/* path is relative to the chroot, and empty in session events. */
typedef void (*watcher_fn)(zhandle_t *zh, int type, int state, const char *path, void *watcherCtx);

typedef void (*log_callback_fn)(const char *message);

/*
 * A handle. The session begins in the background: the watcher is told of ZOO_CONNECTED_STATE.
 *
 * host: host:port,host:port/chroot. clientid: a session to go on with, or null. recv_timeout: milliseconds.
 * Null when the arguments are wrong (errno: EINVAL) or no host has an address (ENOENT).
 */
ZOOAPI zhandle_t *zookeeper_init(const char *host, watcher_fn fn, int recv_timeout, const clientid_t *clientid, void *context,
                                 int flags);
ZOOAPI zhandle_t *zookeeper_init2(const char *host, watcher_fn fn, int recv_timeout, const clientid_t *clientid, void *context,
                                  int flags, log_callback_fn log_callback);

/*
 * Ends the session and frees the handle. Everything that is open is answered before it returns, with ZCLOSING where no server has
 * answered. With THREADED, a child of a fork frees nothing, and the session goes on in the parent.
 */
ZOOAPI int zookeeper_close(zhandle_t *zh);
ZOOAPI void close_zsock(zsock_t *zsock);

/* Replaces the servers; a chroot must be that of the handle. */
ZOOAPI int zoo_set_servers(zhandle_t *zh, const char *hosts);
/* For how many milliseconds addresses are believed before names are resolved again: 0 not at all, -1 for ever. */
ZOOAPI int zoo_set_servers_resolution_delay(zhandle_t *zh, int delay_ms);
ZOOAPI void zoo_cycle_next_server(zhandle_t *zh);
/* Address and port. The text is the handle's. */
ZOOAPI const char *zoo_get_current_server(zhandle_t *zh);

/* The session is the handle's: copy it. Its id is 0 before there is one. */
ZOOAPI const clientid_t *zoo_client_id(zhandle_t *zh);
/* Milliseconds: as settled with the server. */
ZOOAPI int zoo_recv_timeout(zhandle_t *zh);
ZOOAPI const void *zoo_get_context(zhandle_t *zh);
ZOOAPI void zoo_set_context(zhandle_t *zh, void *context);
/* Returns the watcher before. */
ZOOAPI watcher_fn zoo_set_watcher(zhandle_t *zh, watcher_fn newFn);
ZOOAPI struct sockaddr *zookeeper_get_connected_host(zhandle_t *zh, struct sockaddr *addr, socklen_t *addr_len);
ZOOAPI int zoo_state(zhandle_t *zh);
ZOOAPI int is_unrecoverable(zhandle_t *zh);
/* A text that lasts for ever. */
ZOOAPI const char *zerror(int c);
ZOOAPI void zoo_set_debug_level(ZooLogLevel logLevel);
ZOOAPI void zoo_set_log_stream(FILE *logStream);
ZOOAPI log_callback_fn zoo_get_log_callback(const zhandle_t *zh);
ZOOAPI void zoo_set_log_callback(zhandle_t *zh, log_callback_fn callback);
/* For tests: every handle tries its servers in the order of its connect string. */
ZOOAPI void zoo_deterministic_conn_order(int yesOrNo);
ZOOAPI int zoo_lock_auth(zhandle_t *zh);
ZOOAPI int zoo_unlock_auth(zhandle_t *zh);

/*
 * The loop of a program without threads: wait for the descriptor, unless it is -1, no longer than tv says; then call
 * zookeeper_process, also when nothing has happened.
 */
ZOOAPI int zookeeper_interest(zhandle_t *zh, int *fd, int *interest, struct timeval *tv);
ZOOAPI int zookeeper_process(zhandle_t *zh, int events);

typedef void (*void_completion_t)(int rc, const void *data);
typedef void (*stat_completion_t)(int rc, const struct Stat *stat, const void *data);
/* value_len is -1 for null data. The value has no zero at its end. */
typedef void (*data_completion_t)(int rc, const char *value, int value_len, const struct Stat *stat, const void *data);
typedef void (*strings_completion_t)(int rc, const struct String_vector *strings, const void *data);
typedef void (*strings_stat_completion_t)(int rc, const struct String_vector *strings, const struct Stat *stat,
                                          const void *data);
typedef void (*string_completion_t)(int rc, const char *value, const void *data);
typedef void (*string_stat_completion_t)(int rc, const char *string, const struct Stat *stat, const void *data);
typedef void (*acl_completion_t)(int rc, struct ACL_vector *acl, struct Stat *stat, const void *data);

/* A version of -1 is any version. Data of length -1 is null. The time to live is in milliseconds. */
ZOOAPI int zoo_acreate(zhandle_t *zh, const char *path, const char *value, int valuelen, const struct ACL_vector *acl, int mode,
                       string_completion_t completion, const void *data);
ZOOAPI int zoo_acreate_ttl(zhandle_t *zh, const char *path, const char *value, int valuelen, const struct ACL_vector *acl,
                           int mode, int64_t ttl, string_completion_t completion, const void *data);
ZOOAPI int zoo_acreate2(zhandle_t *zh, const char *path, const char *value, int valuelen, const struct ACL_vector *acl, int mode,
                        string_stat_completion_t completion, const void *data);
ZOOAPI int zoo_acreate2_ttl(zhandle_t *zh, const char *path, const char *value, int valuelen, const struct ACL_vector *acl,
                            int mode, int64_t ttl, string_stat_completion_t completion, const void *data);
ZOOAPI int zoo_adelete(zhandle_t *zh, const char *path, int version, void_completion_t completion, const void *data);

/*
 * Reads. Where watch is not 0 the watcher of the handle is told of the next change; the functions with a w take a watcher of their
 * own. The same watcher with the same context is told of an event once. exists leaves a watch also where there is no znode.
 */
ZOOAPI int zoo_aexists(zhandle_t *zh, const char *path, int watch, stat_completion_t completion, const void *data);
ZOOAPI int zoo_awexists(zhandle_t *zh, const char *path, watcher_fn watcher, void *watcherCtx, stat_completion_t completion,
                        const void *data);
ZOOAPI int zoo_aget(zhandle_t *zh, const char *path, int watch, data_completion_t completion, const void *data);
ZOOAPI int zoo_awget(zhandle_t *zh, const char *path, watcher_fn watcher, void *watcherCtx, data_completion_t completion,
                     const void *data);
ZOOAPI int zoo_aget_children(zhandle_t *zh, const char *path, int watch, strings_completion_t completion, const void *data);
ZOOAPI int zoo_awget_children(zhandle_t *zh, const char *path, watcher_fn watcher, void *watcherCtx,
                              strings_completion_t completion, const void *data);
ZOOAPI int zoo_aget_children2(zhandle_t *zh, const char *path, int watch, strings_stat_completion_t completion,
                              const void *data);
ZOOAPI int zoo_awget_children2(zhandle_t *zh, const char *path, watcher_fn watcher, void *watcherCtx,
                               strings_stat_completion_t completion, const void *data);
ZOOAPI int zoo_agetconfig(zhandle_t *zh, int watch, data_completion_t completion, const void *data);
ZOOAPI int zoo_awgetconfig(zhandle_t *zh, watcher_fn watcher, void *watcherCtx, data_completion_t completion, const void *data);

/* Lists are null, or texts with commas: joining and leaving servers, or the new members. */
ZOOAPI int zoo_areconfig(zhandle_t *zh, const char *joining, const char *leaving, const char *members, int64_t version,
                         data_completion_t dc, const void *data);
ZOOAPI int zoo_aset(zhandle_t *zh, const char *path, const char *buffer, int buflen, int version, stat_completion_t completion,
                    const void *data);
/* Asynchronous sync: the server catches up with the leader before it answers. */
ZOOAPI int zoo_async(zhandle_t *zh, const char *path, string_completion_t completion, const void *data);
ZOOAPI int zoo_aget_acl(zhandle_t *zh, const char *path, acl_completion_t completion, const void *data);
ZOOAPI int zoo_aset_acl(zhandle_t *zh, const char *path, int version, struct ACL_vector *acl, void_completion_t completion,
                        const void *data);
/* The results are filled in before the completion is called. */
ZOOAPI int zoo_amulti(zhandle_t *zh, int count, const zoo_op_t *ops, zoo_op_result_t *results, void_completion_t completion,
                      const void *data);
/* Credentials for this and all later connections. The session is over when a server refuses them. */
ZOOAPI int zoo_add_auth(zhandle_t *zh, const char *scheme, const char *cert, int certLen, void_completion_t completion,
                        const void *data);

typedef enum { ZWATCHTYPE_CHILD = 1, ZWATCHTYPE_DATA = 2, ZWATCHTYPE_ANY = 3 } ZooWatcherType;

/*
 * Removes one watcher, or all when watcher is null; ZNOWATCHER when there is none. local: without asking a server.
 * The completion is a void_completion_t, cast to the type of the parameter, as in the C client.
 */
ZOOAPI int zoo_aremove_watches(zhandle_t *zh, const char *path, ZooWatcherType wtype, watcher_fn watcher, void *watcherCtx,
                               int local, void_completion_t *completion, const void *data);
ZOOAPI int zoo_aremove_all_watches(zhandle_t *zh, const char *path, ZooWatcherType wtype, int local,
                                   void_completion_t *completion, const void *data);

/*
 * What the C client does not have: a watch that lasts until it is removed, on a znode or on all of a subtree. It takes a server
 * from 3.6 on. zoo_remove_watches and zoo_remove_all_watches remove it with ZWATCHTYPE_ANY. Events of the time without a connection
 * are lost: read again after ZOO_CONNECTED_STATE.
 */
#define ZEBU_PERSISTENT_WATCH 0
#define ZEBU_RECURSIVE_WATCH 1
ZOOAPI int zebu_aadd_watch(zhandle_t *zh, const char *path, int mode, watcher_fn watcher, void *watcherCtx,
                           void_completion_t completion, const void *data);

#ifdef THREADED
/*
 * The same, and the call returns when there is an answer. They may be called from a completion or a watcher, too.
 *
 * A path is cut to what fits into path_buffer, always with a zero at its end. *buffer_len says how much room there is, then how
 * many bytes were copied: -1 for null data. A stat may be null. Vectors are to be freed with deallocate_..._vector.
 */
ZOOAPI int zoo_create(zhandle_t *zh, const char *path, const char *value, int valuelen, const struct ACL_vector *acl, int mode,
                      char *path_buffer, int path_buffer_len);
ZOOAPI int zoo_create_ttl(zhandle_t *zh, const char *path, const char *value, int valuelen, const struct ACL_vector *acl,
                          int mode, int64_t ttl, char *path_buffer, int path_buffer_len);
ZOOAPI int zoo_create2(zhandle_t *zh, const char *path, const char *value, int valuelen, const struct ACL_vector *acl, int mode,
                       char *path_buffer, int path_buffer_len, struct Stat *stat);
ZOOAPI int zoo_create2_ttl(zhandle_t *zh, const char *path, const char *value, int valuelen, const struct ACL_vector *acl,
                           int mode, int64_t ttl, char *path_buffer, int path_buffer_len, struct Stat *stat);
ZOOAPI int zoo_delete(zhandle_t *zh, const char *path, int version);
ZOOAPI int zoo_exists(zhandle_t *zh, const char *path, int watch, struct Stat *stat);
ZOOAPI int zoo_wexists(zhandle_t *zh, const char *path, watcher_fn watcher, void *watcherCtx, struct Stat *stat);
ZOOAPI int zoo_get(zhandle_t *zh, const char *path, int watch, char *buffer, int *buffer_len, struct Stat *stat);
ZOOAPI int zoo_wget(zhandle_t *zh, const char *path, watcher_fn watcher, void *watcherCtx, char *buffer, int *buffer_len,
                    struct Stat *stat);
ZOOAPI int zoo_getconfig(zhandle_t *zh, int watch, char *buffer, int *buffer_len, struct Stat *stat);
ZOOAPI int zoo_wgetconfig(zhandle_t *zh, watcher_fn watcher, void *watcherCtx, char *buffer, int *buffer_len, struct Stat *stat);
ZOOAPI int zoo_reconfig(zhandle_t *zh, const char *joining, const char *leaving, const char *members, int64_t version,
                        char *buffer, int *buffer_len, struct Stat *stat);
ZOOAPI int zoo_set(zhandle_t *zh, const char *path, const char *buffer, int buflen, int version);
ZOOAPI int zoo_set2(zhandle_t *zh, const char *path, const char *buffer, int buflen, int version, struct Stat *stat);
ZOOAPI int zoo_get_children(zhandle_t *zh, const char *path, int watch, struct String_vector *strings);
ZOOAPI int zoo_wget_children(zhandle_t *zh, const char *path, watcher_fn watcher, void *watcherCtx,
                             struct String_vector *strings);
ZOOAPI int zoo_get_children2(zhandle_t *zh, const char *path, int watch, struct String_vector *strings, struct Stat *stat);
ZOOAPI int zoo_wget_children2(zhandle_t *zh, const char *path, watcher_fn watcher, void *watcherCtx,
                              struct String_vector *strings, struct Stat *stat);
ZOOAPI int zoo_get_acl(zhandle_t *zh, const char *path, struct ACL_vector *acl, struct Stat *stat);
ZOOAPI int zoo_set_acl(zhandle_t *zh, const char *path, int version, const struct ACL_vector *acl);
ZOOAPI int zoo_multi(zhandle_t *zh, int count, const zoo_op_t *ops, zoo_op_result_t *results);
ZOOAPI int zoo_remove_watches(zhandle_t *zh, const char *path, ZooWatcherType wtype, watcher_fn watcher, void *watcherCtx,
                              int local);
ZOOAPI int zoo_remove_all_watches(zhandle_t *zh, const char *path, ZooWatcherType wtype, int local);
ZOOAPI int zebu_add_watch(zhandle_t *zh, const char *path, int mode, watcher_fn watcher, void *watcherCtx);
#endif

#ifdef __cplusplus
}
#endif

#endif
