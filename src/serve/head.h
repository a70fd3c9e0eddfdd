/* Whether the head of a request has one meaning only. A proxy before this server may understand an ambiguous head in another way,
 * and take for one request what are two (RFC 9112, 11.2). So whatever can be understood in two ways is refused: a header that says
 * something twice, two lengths of the body, names and values with bytes that do not belong there, lines that continue the one
 * before them, and lines that end in anything but CR LF. */
#ifndef L3A_SERVE_HEAD_H
#define L3A_SERVE_HEAD_H

#include <stdbool.h>
#include <stddef.h>

/* Begin with zeroes. */
struct head {
    bool old; /* HTTP/1.0 */
    /* libmicrohttpd before 1.0 replaces colons and line ends by zero bytes in place, reads values to their first zero byte, and
     * joins lines. All of that shows where the next header begins. */
    const char *next; /* where it should begin; NULL: not known */
    unsigned seen;    /* headers that may come once */
    const char *problem;
};

/* Adds a header, in the order of the request. A zero byte follows the name and the value. */
void head_add(struct head *head, const char *name, size_t name_length, const char *value, size_t value_length);
/* After the last one; end: of the head, if head->next is known. NULL: there is no problem. */
const char *head_problem(const struct head *head, const char *end);

#endif
