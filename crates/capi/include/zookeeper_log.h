/* The log of the library. */
#ifndef ZEBU_ZOOKEEPER_LOG_H
#define ZEBU_ZOOKEEPER_LOG_H

#include <zookeeper.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The most verbose level that is logged. zoo_set_debug_level sets it. */
extern ZOOAPI ZooLogLevel logLevel;

#define LOGCALLBACK(zh) zoo_get_log_callback(zh)
#define LOGSTREAM NULL

#define ZEBU_LOG(callback, level, ...) \
    do { \
        if (logLevel >= (level)) \
            log_message(callback, level, __LINE__, __func__, __VA_ARGS__); \
    } while (0)

#define LOG_ERROR(callback, ...) ZEBU_LOG(callback, ZOO_LOG_LEVEL_ERROR, __VA_ARGS__)
#define LOG_WARN(callback, ...) ZEBU_LOG(callback, ZOO_LOG_LEVEL_WARN, __VA_ARGS__)
#define LOG_INFO(callback, ...) ZEBU_LOG(callback, ZOO_LOG_LEVEL_INFO, __VA_ARGS__)
#define LOG_DEBUG(callback, ...) ZEBU_LOG(callback, ZOO_LOG_LEVEL_DEBUG, __VA_ARGS__)

/* Writes a line to the callback or, if the callback is null, to the stream. The text is truncated to 4,095 bytes. */
ZOOAPI void log_message(log_callback_fn callback, ZooLogLevel level, int line, const char *function, const char *format, ...);

/* The stream for lines without a callback: the stream that zoo_set_log_stream has set, or the standard error. */
ZOOAPI FILE *zoo_get_log_stream(void);

#ifdef __cplusplus
}
#endif

#endif
