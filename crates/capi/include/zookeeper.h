/*
 * The interface of the ZooKeeper client for C.
 *
 * Link with -lzookeeper_mt, and define THREADED before this header is included: the library then has two threads for each handle.
 * Or link with -lzookeeper_st: the program's own loop calls zookeeper_interest and zookeeper_process, and there are no
 * synchronous functions.
 *
 * Functions return ZOK or another number of enum ZOO_ERRORS. A function with a completion returns ZOK when the completion will be
 * called, which happens exactly once. The arguments of completions and watchers belong to the library, and are valid until the
 * function returns. A completion or watcher may call any function, including zookeeper_close.
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

    /* From ZSYSTEMERROR down to ZAPIERROR, the client reports the error. The server may have executed the request. */
    ZSYSTEMERROR = -1,
    ZRUNTIMEINCONSISTENCY = -2,
    ZDATAINCONSISTENCY = -3,
    /* The connection was lost before the answer came, or there was none in time. */
    ZCONNECTIONLOSS = -4,
    ZMARSHALLINGERROR = -5,
    ZUNIMPLEMENTED = -6,
    ZOPERATIONTIMEOUT = -7,
    ZBADARGUMENTS = -8,
    /* The session has ended, or the call is not allowed in this state. */
    ZINVALIDSTATE = -9,
    ZNEWCONFIGNOQUORUM = -13,
    ZRECONFIGINPROGRESS = -14,
    /* From zookeeper_process: the TLS handshake failed. The log says why. The library tries the next server. */
    ZSSLCONNECTIONERROR = -15,

    /* From ZAPIERROR down, the server reports the error, except for ZINVALIDCALLBACK, ZCLOSING, ZNOTHING and ZNOWATCHER. */
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
    /* From zookeeper_process: nothing has happened. */
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

/* Flag of zookeeper_init: the session may use a read-only server, which has no quorum, until it finds a server with a quorum. */
#define ZOO_READONLY 1
/* Flag of zookeeper_init: do not log the version of the library and the arguments. */
#define ZOO_NO_LOG_CLIENTENV 2

/* ZOO_ANYONE_ID_UNSAFE is everybody. ZOO_AUTH_IDS, in an ACL, stands for the identities of the session that sets the ACL. */
extern ZOOAPI struct Id ZOO_ANYONE_ID_UNSAFE;
extern ZOOAPI struct Id ZOO_AUTH_IDS;

/* Everybody has all permissions; everybody may read; the identities of the session have all permissions. */
extern ZOOAPI struct ACL_vector ZOO_OPEN_ACL_UNSAFE;
extern ZOOAPI struct ACL_vector ZOO_READ_ACL_UNSAFE;
extern ZOOAPI struct ACL_vector ZOO_CREATOR_ALL_ACL;

/* The events of a descriptor, for zookeeper_interest and zookeeper_process. */
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
/* The state of the session has changed. Every watcher gets this event, and stays registered. */
extern ZOOAPI const int ZOO_SESSION_EVENT;
extern ZOOAPI const int ZOO_NOTWATCHING_EVENT;

/* A handle: a session and its connection. */
typedef struct _zhandle zhandle_t;

/* The id and the password of a session. Keep the password secret: its holder can take over the session. */
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

/* One operation of a multi. The functions zoo_..._op_init fill it in. Paths and data must be valid until zoo_multi or zoo_amulti
 * returns. */
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

/* The result of one operation. If the multi fails, err is 0 for an operation that was undone, and ZRUNTIMEINCONSISTENCY for an
 * operation that was not tried. */
typedef struct zoo_op_result {
    int err;
    char *value;
    int valuelen;
    struct Stat *stat;
} zoo_op_result_t;

/* The path of the new znode is copied to path_buffer, truncated to the size of the buffer. path_buffer may be null. */
void zoo_create_op_init(zoo_op_t *op, const char *path, const char *value, int valuelen, const struct ACL_vector *acl, int mode,
                        char *path_buffer, int path_buffer_len);
/* As zoo_create_op_init. The server also returns the stat of the new znode. */
void zoo_create2_op_init(zoo_op_t *op, const char *path, const char *value, int valuelen, const struct ACL_vector *acl, int mode,
                         char *path_buffer, int path_buffer_len);
void zoo_delete_op_init(zoo_op_t *op, const char *path, int version);
void zoo_set_op_init(zoo_op_t *op, const char *path, const char *buffer, int buflen, int version, struct Stat *stat);
void zoo_check_op_init(zoo_op_t *op, const char *path, int version);

/* path is relative to the chroot. It is empty in session events. */
typedef void (*watcher_fn)(zhandle_t *zh, int type, int state, const char *path, void *watcherCtx);

typedef void (*log_callback_fn)(const char *message);

/*
 * Creates a handle. The session is established in the background: then the watcher gets a session event with
 * ZOO_CONNECTED_STATE.
 *
 * host: the servers and, optionally, a chroot, as in "host:port,host:port/chroot". recv_timeout: the session timeout in
 * milliseconds. clientid: a session to continue, or null for a new session.
 * Returns null if an argument is invalid (errno is EINVAL) or no host has an address (errno is ENOENT).
 */
ZOOAPI zhandle_t *zookeeper_init(const char *host, watcher_fn fn, int recv_timeout, const clientid_t *clientid, void *context,
                                 int flags);
ZOOAPI zhandle_t *zookeeper_init2(const char *host, watcher_fn fn, int recv_timeout, const clientid_t *clientid, void *context,
                                  int flags, log_callback_fn log_callback);

/*
 * As zookeeper_init, over TLS. The port of the servers must be their secureClientPort.
 *
 * cert: "authority", or "authority,certificate,key,password". These are PEM files: the certificates of trusted authorities, and
 * the certificate and the private key that the client shows. The password decrypts the key; it may be missing if the key is not
 * encrypted. The certificate of a server must be signed by a trusted authority. It need not contain the name of the server.
 * Returns null (errno is EINVAL) also if a file cannot be used; the log names the file and the reason.
 */
ZOOAPI zhandle_t *zookeeper_init_ssl(const char *host, const char *cert, watcher_fn fn, int recv_timeout,
                                     const clientid_t *clientid, void *context, int flags);

/*
 * The functions with which a program answers who it is, as in Cyrus SASL: SASL_CB_AUTHNAME and SASL_CB_PASS, optionally
 * SASL_CB_USER and SASL_CB_GETREALM. The library does not need Cyrus SASL. Without HAVE_CYRUS_SASL_H, the header declares the
 * structure itself.
 */
#ifdef HAVE_CYRUS_SASL_H
#include <sasl/sasl.h>
#else
typedef struct sasl_callback {
    unsigned long id;
    int (*proc)(void);
    void *context;
} sasl_callback_t;
#endif

/*
 * service, host: the Kerberos principal of the servers; host may be null, for the address of each server.
 * mechlist: "DIGEST-MD5" or "GSSAPI"; the first supported mechanism of a list is used. GSSAPI uses the ticket cache of the user.
 * callbacks: for DIGEST-MD5; must be valid until the handle is closed. The texts are copied.
 */
typedef struct zoo_sasl_params {
    const char *service;
    const char *host;
    const char *mechlist;
    const sasl_callback_t *callbacks;
} zoo_sasl_params_t;

/*
 * As zookeeper_init2. At the start of each connection, the client and the server authenticate each other with SASL.
 * The session ends with ZOO_AUTH_FAILED_STATE if that fails; the log says why. Without sasl_params, there is no SASL.
 */
ZOOAPI zhandle_t *zookeeper_init_sasl(const char *host, watcher_fn fn, int recv_timeout, const clientid_t *clientid, void *context,
                                      int flags, log_callback_fn log_callback, zoo_sasl_params_t *sasl_params);

/*
 * Makes callbacks that answer with a user, a realm and the first line of a file. Each argument may be null. Without a file, the
 * library asks for the password at the terminal. Free the result with free after the handle is closed; null: not enough memory.
 */
ZOOAPI sasl_callback_t *zoo_sasl_make_basic_callbacks(const char *user, const char *realm, const char *password_file);

/* Makes the password from the content of a file. Writes at most buf_len bytes to buf, and their number to passwd_len. Returns
 * SASL_OK (0), or another code of Cyrus SASL. */
typedef int (*zoo_sasl_password_callback_t)(const char *content, size_t content_len, void *context, char *buf, size_t buf_len,
                                            size_t *passwd_len);

/* context is passed to the callback. Without a callback, the password is the first line of the file. */
typedef struct zoo_sasl_password {
    const char *password_file;
    void *context;
    zoo_sasl_password_callback_t callback;
} zoo_sasl_password_t;

/* As zoo_sasl_make_basic_callbacks. */
ZOOAPI sasl_callback_t *zoo_sasl_make_password_callbacks(const char *user, const char *realm, zoo_sasl_password_t *password);

/*
 * Closes the session and frees the handle. Before it returns, the completions of all unanswered requests are called, with
 * ZCLOSING if no server has answered. With THREADED, a call in the child of a fork frees nothing, and the session continues in the parent.
 */
ZOOAPI int zookeeper_close(zhandle_t *zh);
ZOOAPI void close_zsock(zsock_t *zsock);

/* Replaces the list of servers. If the list has a chroot, it must be the chroot of the handle. */
ZOOAPI int zoo_set_servers(zhandle_t *zh, const char *hosts);
/* How many milliseconds the addresses of host names stay valid before the names are resolved again. 0: they are resolved for every
 * connection. -1: they are never resolved again. */
ZOOAPI int zoo_set_servers_resolution_delay(zhandle_t *zh, int delay_ms);
ZOOAPI void zoo_cycle_next_server(zhandle_t *zh);
/* Address and port of the server. The text belongs to the handle. */
ZOOAPI const char *zoo_get_current_server(zhandle_t *zh);

/* The structure belongs to the handle, and changes with the session: copy it. The id is 0 until the session is established. */
ZOOAPI const clientid_t *zoo_client_id(zhandle_t *zh);
/* The session timeout in milliseconds, as the server has set it. */
ZOOAPI int zoo_recv_timeout(zhandle_t *zh);
ZOOAPI const void *zoo_get_context(zhandle_t *zh);
ZOOAPI void zoo_set_context(zhandle_t *zh, void *context);
/* Returns the previous watcher. */
ZOOAPI watcher_fn zoo_set_watcher(zhandle_t *zh, watcher_fn newFn);
ZOOAPI struct sockaddr *zookeeper_get_connected_host(zhandle_t *zh, struct sockaddr *addr, socklen_t *addr_len);
ZOOAPI int zoo_state(zhandle_t *zh);
ZOOAPI int is_unrecoverable(zhandle_t *zh);
/* The returned text is valid for the life of the process. */
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
 * For the event loop of a program without threads. Wait for the events of the descriptor, at most for the time in tv; a descriptor
 * of -1 means that there is no connection. Then call zookeeper_process with the events that happened, or with 0.
 */
ZOOAPI int zookeeper_interest(zhandle_t *zh, int *fd, int *interest, struct timeval *tv);
ZOOAPI int zookeeper_process(zhandle_t *zh, int events);

typedef void (*void_completion_t)(int rc, const void *data);
typedef void (*stat_completion_t)(int rc, const struct Stat *stat, const void *data);
/* value_len is -1 for null data. The value is not zero-terminated. */
typedef void (*data_completion_t)(int rc, const char *value, int value_len, const struct Stat *stat, const void *data);
typedef void (*strings_completion_t)(int rc, const struct String_vector *strings, const void *data);
typedef void (*strings_stat_completion_t)(int rc, const struct String_vector *strings, const struct Stat *stat,
                                          const void *data);
typedef void (*string_completion_t)(int rc, const char *value, const void *data);
typedef void (*string_stat_completion_t)(int rc, const char *string, const struct Stat *stat, const void *data);
typedef void (*acl_completion_t)(int rc, struct ACL_vector *acl, struct Stat *stat, const void *data);

/* The version -1 matches any version. Data of length -1 is null. The time to live (ttl) is in milliseconds. */
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
 * Reads. If watch is not 0, the watcher of the handle gets the next change of the znode. The functions zoo_aw... take a watcher of
 * their own. A watcher that is registered several times with the same context gets each event once. exists sets a watch even if
 * the znode does not exist.
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

/* The lists of servers are separated by commas: either joining and leaving servers, or all new members. Unused lists are null. */
ZOOAPI int zoo_areconfig(zhandle_t *zh, const char *joining, const char *leaving, const char *members, int64_t version,
                         data_completion_t dc, const void *data);
ZOOAPI int zoo_aset(zhandle_t *zh, const char *path, const char *buffer, int buflen, int version, stat_completion_t completion,
                    const void *data);
/* Asynchronous sync: the server catches up with the leader before it answers. */
ZOOAPI int zoo_async(zhandle_t *zh, const char *path, string_completion_t completion, const void *data);
ZOOAPI int zoo_aget_acl(zhandle_t *zh, const char *path, acl_completion_t completion, const void *data);
ZOOAPI int zoo_aset_acl(zhandle_t *zh, const char *path, int version, struct ACL_vector *acl, void_completion_t completion,
                        const void *data);
/* The results are valid when the completion is called. */
ZOOAPI int zoo_amulti(zhandle_t *zh, int count, const zoo_op_t *ops, zoo_op_result_t *results, void_completion_t completion,
                      const void *data);
/* Adds credentials for this and all later connections. If a server refuses the credentials, the session ends. */
ZOOAPI int zoo_add_auth(zhandle_t *zh, const char *scheme, const char *cert, int certLen, void_completion_t completion,
                        const void *data);

typedef enum { ZWATCHTYPE_CHILD = 1, ZWATCHTYPE_DATA = 2, ZWATCHTYPE_ANY = 3 } ZooWatcherType;

/*
 * Removes one watcher, or all watchers if watcher is null. Returns ZNOWATCHER if there is none. If local is not 0, the library
 * removes the watcher without asking a server.
 * The completion is a void_completion_t, cast to the type of the parameter, as in the C client.
 */
ZOOAPI int zoo_aremove_watches(zhandle_t *zh, const char *path, ZooWatcherType wtype, watcher_fn watcher, void *watcherCtx,
                               int local, void_completion_t *completion, const void *data);
ZOOAPI int zoo_aremove_all_watches(zhandle_t *zh, const char *path, ZooWatcherType wtype, int local,
                                   void_completion_t *completion, const void *data);

/*
 * Sets a persistent watch on a znode, or on a znode and all znodes below it. The original's C client has no such function. It needs
 * a server from version 3.6 on. The watch lasts until zoo_remove_watches or zoo_remove_all_watches removes it, with
 * ZWATCHTYPE_ANY. Events that happen while there is no connection are lost: read again after ZOO_CONNECTED_STATE.
 */
#define ZEBU_PERSISTENT_WATCH 0
#define ZEBU_RECURSIVE_WATCH 1
ZOOAPI int zebu_aadd_watch(zhandle_t *zh, const char *path, int mode, watcher_fn watcher, void *watcherCtx,
                           void_completion_t completion, const void *data);

/*
 * Several reads in one request. The original's C client has no such function. It needs a server from version 3.6 on. Each read
 * succeeds or fails alone: the code of the call is ZOK if the server has answered, and err is the code of the read. Results must
 * stay in place until the completion is called. data is zero-terminated, and null for a read that failed and for null data; data_len
 * is -1 then. Free what the results hold with zebu_free_read_results.
 */
#define ZEBU_READ_DATA 4
#define ZEBU_READ_CHILDREN 8
typedef struct zebu_read {
    int type;
    const char *path;
} zebu_read_t;
typedef struct zebu_read_result {
    int err;
    char *data;
    int data_len;
    struct Stat stat;               /* of ZEBU_READ_DATA */
    struct String_vector children;  /* of ZEBU_READ_CHILDREN */
} zebu_read_result_t;
ZOOAPI int zebu_amulti_read(zhandle_t *zh, int count, const zebu_read_t *reads, zebu_read_result_t *results,
                            void_completion_t completion, const void *data);
ZOOAPI void zebu_free_read_results(int count, zebu_read_result_t *results);

#ifdef THREADED
/*
 * Synchronous functions: each returns when its answer has arrived. Completions and watchers may call them, too.
 *
 * A path is truncated to the size of path_buffer, and always zero-terminated. *buffer_len is the size of the buffer before the call,
 * and the number of copied bytes after it, or -1 for null data. A stat may be null. Free vectors with deallocate_..._vector.
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
ZOOAPI int zebu_multi_read(zhandle_t *zh, int count, const zebu_read_t *reads, zebu_read_result_t *results);
#endif

#ifdef __cplusplus
}
#endif

#endif
