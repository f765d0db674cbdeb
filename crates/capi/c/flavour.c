/*
 * What Rust cannot say: a function with any number of arguments, and which of the two libraries this is.
 *
 * Compiled once with -DTHREADED for libzookeeper_mt and once without for libzookeeper_st.
 */
#include <stdarg.h>
#include <stdio.h>

#ifdef THREADED
const int zebu_is_threaded = 1;
#else
const int zebu_is_threaded = 0;
#endif

typedef void (*log_callback_fn)(const char *message);

void zebu_log_text(log_callback_fn callback, int level, int line, const char *function, const char *text);

void log_message(log_callback_fn callback, int level, int line, const char *function, const char *format, ...)
{
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    zebu_log_text(callback, level, line, function, text);
}
