#include "run/saving.h"

/* A run that is hardly ever killed is done soonest if it saves as late as it may. WORTH keeps what is saved more often, because it
 * is cheap, to a tenth of the time. */
static const double LIMIT = 10;                 /* seconds of finished work that may be lost */
static const double WORTH = 10;                 /* seconds of work that are worth a second of saving */
static const double START = 0.05, RATE = 1.0e9; /* of the first save: seconds for the tables, bytes per second for the rest */

void saving_begin(struct saving *saving) {
    saving->unsaved = saving->phase = 0;
}

void saving_add(struct saving *saving, double seconds) {
    saving->phase = seconds;
    saving->unsaved += seconds;
}

static double expected_seconds(const struct saving *saving, uint64_t bytes) {
    if (saving->seconds == 0) {
        return START + (double)bytes / RATE;
    }
    return saving->bytes && bytes > saving->bytes ? saving->seconds * (double)bytes / (double)saving->bytes : saving->seconds;
}

/* The next phase may take twice as long as the last one. When it is finished, what it adds must not be too much to lose. */
bool saving_is_due(const struct saving *saving, uint64_t bytes) {
    return saving->always || saving->unsaved >= WORTH * expected_seconds(saving, bytes) ||
           saving->unsaved + 2 * saving->phase > LIMIT;
}

void saving_done(struct saving *saving, double seconds, uint64_t bytes) {
    saving->unsaved = 0;
    saving->seconds = seconds;
    saving->bytes = bytes;
}
