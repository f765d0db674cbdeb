/* Every constant, every structure's size and every error text of zookeeper.h, as the library that is loaded has them. */
#include <stddef.h>
#include <stdio.h>
#include <zookeeper/zookeeper.h>

extern const int ZOO_SSL_CONNECTING_STATE;

#define NUMBER(x) printf(#x " %ld\n", (long)(x))
#define SIZE(x) NUMBER(sizeof(x))

static void show_acl(const char *name, const struct ACL_vector *acl) {
    printf("%s", name);
    for (int at = 0; at < acl->count; at++)
        printf(" %d:%s:%s", acl->data[at].perms, acl->data[at].id.scheme, acl->data[at].id.id);
    printf("\n");
}

int main(void) {
    NUMBER(ZOOKEEPER_READ), NUMBER(ZOOKEEPER_WRITE);
    NUMBER(ZOO_PERSISTENT), NUMBER(ZOO_EPHEMERAL), NUMBER(ZOO_PERSISTENT_SEQUENTIAL);
    NUMBER(ZOO_EPHEMERAL_SEQUENTIAL), NUMBER(ZOO_CONTAINER), NUMBER(ZOO_PERSISTENT_WITH_TTL);
    NUMBER(ZOO_PERSISTENT_SEQUENTIAL_WITH_TTL), NUMBER(ZOO_SEQUENCE);
    NUMBER(ZOO_EXPIRED_SESSION_STATE), NUMBER(ZOO_AUTH_FAILED_STATE), NUMBER(ZOO_CONNECTING_STATE);
    NUMBER(ZOO_ASSOCIATING_STATE), NUMBER(ZOO_CONNECTED_STATE), NUMBER(ZOO_READONLY_STATE);
    NUMBER(ZOO_NOTCONNECTED_STATE), NUMBER(ZOO_SSL_CONNECTING_STATE);
    NUMBER(ZOO_CREATED_EVENT), NUMBER(ZOO_DELETED_EVENT), NUMBER(ZOO_CHANGED_EVENT), NUMBER(ZOO_CHILD_EVENT);
    NUMBER(ZOO_SESSION_EVENT), NUMBER(ZOO_NOTWATCHING_EVENT);
    NUMBER(ZOO_PERM_READ), NUMBER(ZOO_PERM_WRITE), NUMBER(ZOO_PERM_CREATE), NUMBER(ZOO_PERM_DELETE);
    NUMBER(ZOO_PERM_ADMIN), NUMBER(ZOO_PERM_ALL);
    NUMBER(ZSYSTEMERROR), NUMBER(ZNEWCONFIGNOQUORUM), NUMBER(ZAPIERROR), NUMBER(ZTHROTTLEDOP);
    NUMBER(ZOO_CREATE2_OP), NUMBER(ZOO_CREATE_TTL_OP), NUMBER(ZOO_CLOSE_OP), NUMBER(ZOO_SASL_OP);
    SIZE(struct Stat), SIZE(struct ACL_vector), SIZE(struct String_vector), SIZE(struct CreateTTLRequest);
    SIZE(clientid_t), SIZE(zoo_op_t), SIZE(zoo_op_result_t), SIZE(struct iarchive), SIZE(struct oarchive);
    NUMBER(offsetof(zoo_op_t, create_op.ttl)), NUMBER(offsetof(zoo_op_t, set_op.stat));
    NUMBER(offsetof(struct Stat, ephemeralOwner)), NUMBER(offsetof(struct Stat, pzxid));
    show_acl("open", &ZOO_OPEN_ACL_UNSAFE);
    show_acl("read", &ZOO_READ_ACL_UNSAFE);
    show_acl("creator", &ZOO_CREATOR_ALL_ACL);
    printf("%s:%s %s:%s\n", ZOO_ANYONE_ID_UNSAFE.scheme, ZOO_ANYONE_ID_UNSAFE.id, ZOO_AUTH_IDS.scheme, ZOO_AUTH_IDS.id);
    for (int code = 5; code > -140; code--) printf("%d %s\n", code, zerror(code));
    return 0;
}
