/* The log: what happens to the server, and one line for each request if that is wanted. Lines are written by threads of their own,
 * so that a full disk, a slow one, or a pipe that nobody reads holds up nothing else: what cannot be written in time is lost, and
 * the log says how much. Nothing in it is secret: no queries, no headers, no names of pictures, no tokens. */
#ifndef L3A_SERVE_LOG_H
#define L3A_SERVE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_form { LOG_NOTES /* no requests; as for people who look */, LOG_TEXT, LOG_JSON };
enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

struct log;

/* path: where lines go; NULL: to stderr, where notes go in any case. Returns NULL with errno if the file cannot be opened. */
struct log *log_open(enum log_form form, enum log_level level, const char *path);
/* Writes what is waiting, as far as that is possible within a moment. */
void log_close(struct log *log);
/* What has been logged so far goes to the file as it is open; then the file is opened again, so that it can be renamed. */
void log_reopen(struct log *log);
/* Lines that could not be written. */
uint64_t log_lost(struct log *log);

/* Something that happened to the server, in a sentence. */
void log_note(struct log *log, enum log_level level, const char *text);

/* A request whose answer is over. */
struct log_request {
    const char *client; /* its address */
    const char *token;  /* the name of the token that it came with; NULL: none */
    const char *method, *path;
    unsigned status; /* 0: there was no answer */
    double seconds;
    uint64_t bytes_in, bytes_out; /* of the body, and of the answer's */
    bool complete;                /* the client has got all of it */
};
void log_request(struct log *log, const struct log_request *request);
/* Whether a line of this level would be written. */
bool log_wants(const struct log *log, enum log_level level);

#endif
