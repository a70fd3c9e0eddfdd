/* When a picture was taken, and what other files are: from any bytes, a date of a year with four digits or none, and a reason that
 * is a text. */
#include "fuzz.h"

#include "base/picture_kind.h"
#include "image/taken.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    static const char *const names[] = {"a", "a.nef", "a.raw", "a.mp4", "a.jpg"};
    static const int64_t first = -62135596800, last = 253402300799; /* 0001-01-01 and 9999-12-31, 23:59:59 */
    int64_t seconds = first - 1, again;
    if (picture_taken(bytes, count, &seconds)) {
        must(seconds >= first && seconds <= last);
        must(picture_taken(bytes, count, &again) && again == seconds);
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *reason = other_media(names[i], bytes, count);
        must(!reason || strlen(reason) > 10);
        must(!reason || !picture_kind_of(bytes, count)->format);
    }
    return 0;
}
