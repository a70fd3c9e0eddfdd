/* The library that remembers: its index, and who works with it.
 *
 * The indexer, a thread at low priority, keeps the index up to date (indexer.c): it finds what is new in the folder, looks at it,
 * takes over what was said, and scores after each lesson. Nobody waits for it; what it does it does in small steps, and while
 * requests are being answered it pauses between them. Requests use two handles of their own, each under a lock: one to search
 * (finder.c), and one for single pictures (shelf.c), so that no lesson waits for a search.
 *
 * What answers and metrics say of the index as a whole is a copy that the indexer renews (holdings.c).
 *
 * A server whose library cannot have an index works without: it lists folder by folder, and remembers in memory. */
#ifndef L3A_SERVE_LIBRARIAN_H
#define L3A_SERVE_LIBRARIAN_H

#include "serve/server.h"

#include <sys/stat.h>

/* A way to the index: only under its lock. */
struct handle {
    pthread_mutex_t lock;
    l3a_context *context;
    l3a_library *library; /* NULL: to be opened again */
    unsigned epoch;       /* when it was opened */
    unsigned opened;      /* how often it was opened */
    struct stat file;     /* the index that it has open */
};

/* What was said about some pictures, on its way from the teacher to the index. */
struct saying {
    l3a_said *said;
    int8_t *labels; /* [count x classes] */
    size_t count, capacity, classes;
    char **names;
    bool all, failed;
    struct saying *next;
};

/* How many pictures a tag has. */
struct tally {
    char *name;
    uint64_t said, suggested;
};

/* The index as a whole. */
struct holdings {
    l3a_library_info info;
    struct tally *tallies;
    size_t tally_count;
    char *trouble;  /* why the index does not go on; NULL: it does */
    char *away;     /* why the folder is not there; NULL: it is */
    char *wordless; /* why the network knows no words; NULL: it does */
    bool described;
    uint64_t
        edition; /* whose scores, and what was said until then, are counted; of the numbers before while some are still missing */
    double rate; /* pictures a second; 0: none are being looked at */
};

enum { ANSWERS_KEPT = 8, WARNINGS = 16 };

/* The pictures of a search, kept so that scrolling through them costs nothing. */
struct search_result {
    char *question; /* NULL: none */
    uint64_t change, used;
    l3a_found *found;
};

struct librarian {
    struct server *server;
    char *folder, *path; /* of the pictures, and of the index; absolute */
    bool nested;         /* the index has a folder that the folder is below */
    pthread_t thread, watcher;
    bool running, watching;
    l3a_context *watch_context;
    l3a_watch *watch; /* under the lock, as far as it is stopped */
    atomic_bool stop;
    atomic_bool urgent; /* something was said: what takes long makes room */
    atomic_uint epoch;  /* counts how often the index was opened again */
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct saying *first, **last; /* under the lock, as are: */
    bool outdated;                /* there may be another edition */
    bool changed;                 /* the folder may have */
    bool watched;                 /* it is told if it does; otherwise it is looked at every so often */
    struct holdings holdings;
    struct handle own, finder, shelf, twins;    /* twins: open while duplicates are looked for */
    struct search_result results[ANSWERS_KEPT]; /* the finder's */
    uint64_t clock;
    struct search_result duplicates;
    char *warned[WARNINGS]; /* what the log says already */
    size_t warning;
    double rate;    /* the indexer's: pictures a second; 0: it looks at none */
    double renewed; /* when the copy was made, and how long that took */
    double renewing;
    uint64_t *written; /* of each picture: a hash of the tags in its sidecar */
    size_t written_count;
    uint64_t written_change; /* up to which sidecars are written */
};

/* librarian.c: */
/* Opens the index, and starts the indexer. It is no failure if there can be no index: a note says why. */
void librarian_start(struct server *server);
/* Tells the indexer to end soon. */
void librarian_hurry(struct server *server);
/* Ends it. Requests may still search. */
void librarian_stop(struct server *server);
void librarian_free(struct server *server);
/* Opens the handle, if it is not open; false: *status says why, and the handle's context. Under the handle's lock. */
bool handle_open(struct librarian *librarian, struct handle *handle, l3a_status *status);
/* After a failure: a handle whose index is damaged is closed. */
void handle_check(struct librarian *librarian, struct handle *handle, l3a_status status);
void handle_close(struct handle *handle);
/* The path of a picture below the folder; NULL: it is not below, or a link leads out of it. */
const char *librarian_relative(const struct librarian *librarian, const char *path);

/* Whether no link leads from the folder to this picture. Without a folder above it in the index, the index has none such. */
bool library_reaches(const struct librarian *librarian, const char *relative);

/* indexer.c: the thread. */
void *indexer_run(void *librarian);
int indexer_on_event(const l3a_event *event, void *librarian);

/* watcher.c: tells the indexer when something changes in the folder. */
void watcher_start(struct librarian *librarian);
void watcher_stop(struct librarian *librarian);

/* saying.c, for the teacher's thread: hands over what was said about these pictures, or about all (NULL). */
void librarian_say(struct server *server, const l3a_history *history, const uint64_t *touched, size_t count);
/* Readers have another edition, perhaps. */
void librarian_tell_edition(struct server *server);
void saying_free(struct saying *saying);

/* holdings.c: */
/* Renews the copy: at once if nothing is left to look at and to score, of which edition; or else if the last one is old enough for
 * what it costs. On the indexer's thread. */
void holdings_renew(struct librarian *librarian, bool settled, uint64_t edition);
void holdings_free(struct holdings *holdings);
/* Pictures that were looked at; 0: there is no index. */
uint64_t holdings_done(struct server *server);
void library_state_now(struct request *request);
void library_metrics(struct server *server, struct text *text);
void words_start(struct request *request, struct worker *worker);

/* shelf.c: */
/* Gives pictures of a request that the index has their features. */
void shelf_fill(struct request *request);
/* The features and the checksum of a picture that a key of the index names; false: it has none. */
bool shelf_find_key(struct server *server, const char *key, float *features, uint64_t *checksum);
/* The key of a picture whose bytes the server has not seen. */
void shelf_key(uint64_t checksum, char key[KEY_TEXT]);
/* The id of a picture of this content; 0: there is none. */
uint64_t shelf_known(struct server *server, uint64_t checksum);
/* The path of a picture by its id, for the caller to free; NULL: there is none. */
char *shelf_path(struct server *server, uint64_t id);

/* A text that is a number of at most so much; false: it is none. */
bool read_number(const char *text, uint64_t most, uint64_t *number);

/* finder.c and answers.c: */
void find_start(struct request *request, struct worker *worker);
void duplicates_start(struct request *request, struct worker *worker);
void library_folders_start(struct request *request, struct worker *worker);
void library_problems_start(struct request *request, struct worker *worker);

/* sidecars.c: writes tags beside the pictures, where they have changed. On the indexer's thread. */
void sidecars_write(struct librarian *librarian);

#endif
