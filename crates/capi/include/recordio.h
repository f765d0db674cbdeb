/*
 * Archives: tables of functions that write or read the fields of records.
 *
 * The archives of this library keep their bytes in memory, in network byte order (big-endian). A program may define archives of
 * its own. Every function returns 0, or a negated errno.
 */
#ifndef ZEBU_RECORDIO_H
#define ZEBU_RECORDIO_H

#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes and their number. The number -1 stands for null. */
struct buffer {
    int32_t len;
    char *buff;
};

struct oarchive {
    int (*start_record)(struct oarchive *oa, const char *tag);
    int (*end_record)(struct oarchive *oa, const char *tag);
    int (*start_vector)(struct oarchive *oa, const char *tag, const int32_t *count);
    int (*end_vector)(struct oarchive *oa, const char *tag);
    int (*serialize_Bool)(struct oarchive *oa, const char *tag, const int32_t *value);
    int (*serialize_Int)(struct oarchive *oa, const char *tag, const int32_t *value);
    int (*serialize_Long)(struct oarchive *oa, const char *tag, const int64_t *value);
    int (*serialize_Buffer)(struct oarchive *oa, const char *tag, const struct buffer *value);
    int (*serialize_String)(struct oarchive *oa, const char *tag, char **value);
    void *priv;
};

struct iarchive {
    int (*start_record)(struct iarchive *ia, const char *tag);
    int (*end_record)(struct iarchive *ia, const char *tag);
    int (*start_vector)(struct iarchive *ia, const char *tag, int32_t *count);
    int (*end_vector)(struct iarchive *ia, const char *tag);
    int (*deserialize_Bool)(struct iarchive *ia, const char *tag, int32_t *value);
    int (*deserialize_Int)(struct iarchive *ia, const char *tag, int32_t *value);
    int (*deserialize_Long)(struct iarchive *ia, const char *tag, int64_t *value);
    int (*deserialize_Buffer)(struct iarchive *ia, const char *tag, struct buffer *value);
    int (*deserialize_String)(struct iarchive *ia, const char *tag, char **value);
    void *priv;
};

/* Creates an archive that writes into its own memory. */
struct oarchive *create_buffer_oarchive(void);
/* Closes an archive. If free_buffer is 0, the program frees the bytes, which get_buffer has returned. */
void close_buffer_oarchive(struct oarchive **oa, int free_buffer);
/* Creates an archive that reads these bytes. The bytes belong to the program. */
struct iarchive *create_buffer_iarchive(char *buffer, int len);
void close_buffer_iarchive(struct iarchive **ia);
/* The bytes that an archive has written, and their number. */
char *get_buffer(struct oarchive *oa);
int get_buffer_len(struct oarchive *oa);

void deallocate_String(char **text);
void deallocate_Buffer(struct buffer *bytes);

/* Converts between the byte order of this machine and network byte order. */
int64_t zoo_htonll(int64_t value);

#ifdef __cplusplus
}
#endif

#endif
