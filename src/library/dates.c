#include "library/dates.h"

#include <stddef.h>
#include <string.h>
#include <time.h>

/* Reads so many digits and steps behind them. */
static bool digits(const char **at, int count, int *number) {
    *number = 0;
    for (int i = 0; i < count; i++) {
        if (**at < '0' || **at > '9') {
            return false;
        }
        *number = 10 * *number + (*(*at)++ - '0');
    }
    return true;
}

static int64_t seconds_of(int year, int month, int day) {
    struct tm time = {.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day};
    return (int64_t)timegm(&time);
}

bool date_parse(const char *text, int64_t *first, int64_t *after) {
    int parts[3] = {0, 1, 1};
    size_t count = 0;
    bool good = digits(&text, 4, &parts[count++]);
    while (good && *text == '-' && count < 3) {
        text++;
        good = digits(&text, 2, &parts[count++]);
    }
    if (!good || *text || parts[1] < 1 || parts[1] > 12 || parts[2] < 1 || parts[2] > 31) {
        return false;
    }
    *first = seconds_of(parts[0], parts[1], parts[2]);
    *after = seconds_of(parts[0] + (count == 1), parts[1] + (count == 2), parts[2] + (count == 3));
    const time_t time = (time_t)*first;
    struct tm real;
    gmtime_r(&time, &real);
    return real.tm_mday == parts[2]; /* there is no 31st of June */
}
