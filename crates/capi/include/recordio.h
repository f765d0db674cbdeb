/*
 * Archives: tables of functions that write the fields of records, and that read them.
 *
 * The archives of this library keep their bytes in memory, in the order of the wire (big-endian). A program may bring archives of
 * its own. Every function returns 0, or a negative number of errno.
 */
#ifndef ZEBU_RECORDIO_H
#define ZEBU_RECORDIO_H

#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes and how many they are; -1 stands for null. */
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

/* An archive that writes into memory of its own. */
struct oarchive *create_buffer_oarchive(void);
/* Closes it. The bytes are freed too when free_buffer is not 0; else the program frees what get_buffer returned. */
void close_buffer_oarchive(struct oarchive **oa, int free_buffer);
/* An archive that reads these bytes, which stay the program's. */
struct iarchive *create_buffer_iarchive(char *buffer, int len);
void close_buffer_iarchive(struct iarchive **ia);
/* What an archive has written, and how many bytes that is. */
char *get_buffer(struct oarchive *oa);
int get_buffer_len(struct oarchive *oa);

void deallocate_String(char **text);
void deallocate_Buffer(struct buffer *bytes);

/* Between the order of this machine and that of the wire. */
int64_t zoo_htonll(int64_t value);

#ifdef __cplusplus
}
#endif

#endif
