/* What the parts of the server share: a request on its way through the stages, and the server itself. */
#ifndef L3A_SERVE_SERVER_H
#define L3A_SERVE_SERVER_H

#include "common/json_tree.h"
#include "serve/guard.h"
#include "serve/log.h"
#include "serve/serve.h"
#include "serve/text.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

enum { KEY_BYTES = 16, KEY_TEXT = 2 * KEY_BYTES + 1, REQUEST_PICTURES = 1000, JSON_VALUES = 1 << 20 };
enum { CLIENT_NAME = 16, CLIENT_SLOTS = 256, PARTING = 64, BACKLOG = 1024 };
/* New tags that a lesson may bring, and tags that a model may have. */
enum { LESSON_TAGS = 1000, MODEL_TAGS = 10000 };

struct server;
struct peer;
struct worker;
struct request;

/* ---- Pictures of a request ---- */

struct picture {
    struct request *request;
    char *name;         /* what answers and messages call it */
    const char *path;   /* in the library; NULL: it was sent */
    uint64_t id;        /* in its index; 0: not known */
    char *place;        /* the path, if the request did not name it */
    const char *base64; /* of a picture that was sent as a text; NULL: as bytes */
    size_t base64_length;
    const void *bytes; /* in the body of the request */
    size_t byte_count;
    const struct json_value *told; /* the object of the request that it comes from; NULL: none */
    char key[KEY_TEXT];            /* "": not known yet */
    uint64_t checksum;
    float *input;     /* for the backbone, until it has run */
    float *features;  /* NULL: there are none (yet) */
    unsigned problem; /* the status of the failure; 0: none */
    char *error, *hint;
    double since; /* when it became ready for the backbone */
    struct picture *next;
};

struct queue {
    struct picture *first, **last;
    size_t count;
};

/* ---- Requests ---- */

/* Work goes through lanes, each with threads of its own, so that what takes long does not stand in the way of what does not. */
enum lane { LANE_PROMPT, LANE_SLOW, LANE_HUGE, LANES };

/* A way to answer. Each stage may be missing. It can end the request by setting its status. */
struct route {
    const char *method, *path;
    bool prefix;                          /* the path may go on */
    enum role role;                       /* that a token must have to ask */
    bool changes;                         /* something, so that a browser must prove that the page itself is asking */
    void (*now)(struct request *request); /* at once, on the connection's thread: must not block */
    void (*start)(struct request *request, struct worker *worker);  /* reads the body and names the pictures */
    void (*finish)(struct request *request, struct worker *worker); /* with the features of all pictures */
    void (*teach)(struct request *request);                         /* on the teacher's thread */
    bool slow;                                                      /* its stages take long, and are not urgent */
    bool examine;                                                   /* the examiner answers */
    bool upload;                                                    /* the body goes to a file beside the model */
};

extern const struct route routes[]; /* ended by a NULL method */

/* What is asked for. */
struct wanted {
    const struct route *route;
    const char *rest; /* of the path, after the route's */
    char *url;        /* the whole path */
    const char *path; /* without the server's base path */
    char method[16];
    bool all; /* the scores of all tags */
};

struct body {
    struct text text;
    uint64_t received; /* bytes */
    uint64_t counted;  /* those that count towards the server's limit */
    bool taken;        /* it is complete, and the request on its way */
    struct json_tree *json;
};

/* A body that goes to a file beside the model. */
struct upload {
    int file; /* -1: none */
    char *path;
    uint64_t bytes;
    bool chosen; /* it is the one that may: there is one at a time */
};

/* Where a request stands in the pipeline; under its lock. */
struct place {
    enum lane lane;                /* of its stages */
    bool staged;                   /* the next stage waits for a worker */
    struct queue todo[LANES];      /* pictures that wait for one */
    bool lined[LANES];             /* it stands in its client's line … */
    struct request *behind[LANES]; /* … before this one */
    size_t waiting;                /* pictures without features */
    size_t share;                  /* pictures that count in the queue */
    bool errand;                   /* it counts as one */
    bool started;
};

struct answer {
    unsigned status; /* 0: there is none yet */
    struct text text;
    const char *type;     /* of the content; NULL: JSON */
    const char *download; /* the name of the file to save; NULL: none */
    int file;             /* to send instead of the text; -1: none */
    unsigned retry;       /* seconds; 0: not said */
    bool page;            /* it is part of the page */
    bool close;           /* the connection ends with it */
    const char *etag;     /* NULL: none */
    const char *location; /* where to look instead; NULL: not said */
    uint64_t bytes;       /* of the content that is sent */
    size_t json_length;   /* bytes of it that are JSON, before binary tensors; 0: not said */
};

struct request {
    struct server *server;
    struct MHD_Connection *connection;
    struct peer *peer;
    struct client *client;
    struct bearer bearer;
    double began;
    bool suspended;
    struct wanted wanted;
    struct body body;
    struct upload upload;
    struct {
        struct picture *items;
        size_t count;
    } pictures;
    struct place place;
    struct answer answer;
    struct request *next;
};

/* Ends the request with an error. */
__attribute__((format(printf, 4, 5))) void refuse(struct request *request, unsigned status, const char *hint, const char *format,
                                                  ...);
/* The status of HTTP for an error of the library. */
unsigned status_of(l3a_status status);
/* The value of ?name=; NULL if there is none. *bad: it has a zero byte. */
const char *query(const struct request *request, const char *name, bool *bad);
/* Frees the pictures of the request, and what was read of its body. */
void request_release(struct request *request);
/* The answer is complete: it is sent as soon as the connection allows. The request must not be used any more. */
void request_done(struct request *request);
/* Whether the server decodes pictures of this format. libheif cannot be made safe against hostile files, so its formats have to be
 * allowed. *problem says why not. */
bool format_allowed(const struct server *server, const void *bytes, size_t count, const char **problem);
/* Reads the body as a JSON object; false: refused. */
bool request_json(struct request *request);
/* The same with its first `length` bytes; the body is kept if there are more. */
bool request_json_head(struct request *request, size_t length);

/* ---- What is known: what readers of the server see of the model ---- */

/* It never changes; the teacher makes a new one. */
struct knowledge {
    atomic_uint users;
    uint64_t edition;
    size_t classes;
    bool takes_features;    /* it is enough to know a picture's features to teach it */
    struct text class_list; /* as JSON */
    char **names;
};

struct knowledge *knowledge_keep(struct server *server);
void knowledge_free(struct knowledge *knowledge);

/* ---- The ledger: what was taught ---- */

struct taught;
struct lesson_text;

/* The teacher changes it; all others read it under its lock. */
struct ledger {
    pthread_mutex_t lock;
    bool current;                /* otherwise the next update makes it anew */
    struct lesson_text *lessons; /* the oldest first */
    size_t count, capacity;
    char *gap;              /* why nothing older can be undone */
    struct taught **chains; /* the pictures, by checksum */
    size_t chain_count, taught_count;
};

void ledger_free(struct ledger *ledger);
/* Ends an answer with the history, or with what was said about a picture ("null" if nothing was). */
void ledger_write_history(struct ledger *ledger, struct text *text);
void ledger_write_taught(struct ledger *ledger, uint64_t checksum, struct text *text);
/* For the teacher's thread: */
/* There is no history, for this reason. */
void ledger_close(struct ledger *ledger, const char *why);
/* Everything may have changed. */
void ledger_outdate(struct ledger *ledger);
/* Makes it anew if it is outdated; false: that has failed. */
bool ledger_update(struct ledger *ledger, const l3a_history *history);
/* The checksums of the pictures that the last lesson touched, for the caller to free; NULL: not enough memory. */
uint64_t *ledger_touched(const l3a_history *history, size_t *count);
/* Follows the history by one lesson, taught or undone, which touched these pictures. If it cannot, it is outdated. */
void ledger_follow(struct ledger *ledger, const l3a_history *history, const uint64_t *touched, size_t count);

/* The id of a lesson as answers and requests have it: a text, since not every program keeps 64 bits of a number. */
enum { LESSON_ID = 17 };
void lesson_id(uint64_t id, char text[LESSON_ID]);
/* How a picture was judged, as members of an object. */
void judgement_write(struct text *text, const l3a_model *model, const int8_t *labels, int complete);
/* The number and the id of a lesson, as members of an object. */
void lesson_write(struct text *text, const l3a_history_entry *entry);

/* ---- Workers ---- */

/* Whoever asks from one address. */
struct client {
    uint8_t name[CLIENT_NAME];
    size_t connections;
    struct client *chained; /* in the same slot */
    /* Under the pipeline's lock: its requests with something to do in each lane, and the client behind it. */
    struct request *first[LANES], **last[LANES];
    bool lined[LANES];
    struct client *behind[LANES];
    size_t admitted; /* what its requests take of the queue */
};

struct worker {
    struct server *server;
    enum lane lane;
    pthread_t thread;
    bool running;
    l3a_reader *reader;
    l3a_context *context; /* for thumbnails and sidecars, under the lock */
    pthread_mutex_t lock;
    float *inputs, *features; /* of a batch */
    double batched;           /* when it ended the last one */
};

struct pipeline {
    pthread_mutex_t lock;
    pthread_cond_t work[LANES];
    struct client *first[LANES], **last[LANES]; /* with something to do */
    struct queue ready[2];                      /* for the backbone, from the prompt lane and from the others */
    size_t requests;                            /* that are in the pipeline … */
    size_t errands;                             /* … and those of routes that are slow */
    size_t admitted, decoding, idle;
    bool stop;
    struct worker *workers;
    size_t count, inputs, width;
};

bool pipeline_start(struct server *server);
/* Finishes what is waiting, and ends the workers. */
void pipeline_stop(struct server *server);
/* Requests that wait for the teacher need what the workers have: to be called when there are none. */
void pipeline_free(struct server *server);
/* Hands a request to the workers; false: refused. */
bool pipeline_add(struct request *request);
/* The bytes of a picture, unless the request has only its key; *owned: to be freed. NULL: the picture has a problem. */
const uint8_t *picture_bytes(struct picture *picture, size_t *count, uint8_t **owned);

/* ---- The teacher ---- */

struct teacher {
    pthread_t thread;
    bool running;
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct request *first, **last;
    size_t waiting;
    bool stop, reload, copy, tell, unsaved;
    bool unreadable;    /* the history cannot be read */
    bool cancelled;     /* a change was cancelled because the server ends */
    char *trouble;      /* why lessons cannot be kept; NULL: they can */
    bool trouble_stays; /* until the model is loaded again */
    char *unsavable;    /* why the model is not saved, as a sentence; NULL: it is, or soon will be */
    size_t lessons;     /* in the history and not in the model's file */
    size_t declined;    /* pictures of the library when they could not be the model's unlabelled ones; 0: they could */
};

bool teacher_start(struct server *server);
/* Teaches what is waiting, saves the model, and ends. */
void teacher_stop(struct server *server);
void teacher_reload(struct server *server);
/* Asks for everything that was said, for the index of the library. */
void teacher_tell(struct server *server);
/* Asks for a copy of the model for the examiner. */
void teacher_copy(struct server *server);
/* Hands a request to the teacher; false: too many are waiting. */
bool teacher_add(struct request *request);
/* Ends a request that the teacher has no time for any more. */
void refuse_cancelled(struct request *request);
/* For the teacher's thread: */
/* Shows readers what the model is now. */
bool teacher_publish(struct server *server);
/* Folds the history into the model file. */
l3a_status teacher_save(struct server *server);
/* Lessons cannot be kept, or can again (NULL). */
void teacher_set_trouble(struct server *server, const char *trouble, bool stays);
/* The model cannot be saved, for this reason, or can again (NULL). Lessons are still kept. */
void teacher_set_unsavable(struct server *server, const char *reason);

/* ---- The examiner ---- */

/* Pictures of the library that were looked at. */
struct library_rows {
    float *features;
    uint64_t *checksums;
    l3a_features *table; /* of the features; NULL: none */
};

struct examiner {
    pthread_t thread;
    bool running;
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct request *first;
    size_t waiting;
    bool stop, copied;
    l3a_context *context; /* the teacher's while it makes a copy, otherwise the examiner's; as is what follows */
    l3a_history *history; /* the copy */
    struct library_rows library;
    size_t looked_at;  /* pictures of the library, when the copy was made */
    uint64_t edition;  /* of the copy */
    l3a_status status; /* of the copy, then of the answer */
    char error[1024], hint[512];
    struct text answer;
};

bool examiner_start(struct server *server);
/* Answers what is waiting, and ends. */
void examiner_stop(struct server *server);
/* Hands a request to the examiner; false: too many are waiting. */
bool examiner_add(struct request *request);
/* For the teacher's thread: makes the copy that the examiner waits for. */
void examiner_copy(struct server *server);

/* ---- Features of pictures that were seen ---- */

struct cache;
struct cache *cache_create(uint64_t bytes, size_t width);
void cache_free(struct cache *cache);
/* Copies the features; false: they are not there. */
bool cache_find(struct cache *cache, const char *key, float *features, uint64_t *checksum);
/* path: of a picture in the library; NULL: it was sent. */
void cache_put(struct cache *cache, const char *key, const float *features, uint64_t checksum, const char *path);
/* Calls `each` for every picture of the library that is in the cache, sorted by path, with a copy. */
struct cached {
    char *path;
    char key[KEY_TEXT];
    uint64_t checksum;
    float *features;
};
size_t cache_library(struct cache *cache, struct cached **found);
void cached_free(struct cached *found, size_t count);
size_t cache_count_library(struct cache *cache);
/* Copies the first numbers of the features [most x numbers] and the checksums of all pictures of the library that are in the cache
 * or, if these are too many, of some of them, spread evenly. Returns how many. */
size_t cache_copy_library(struct cache *cache, size_t most, size_t numbers, float *features, uint64_t *checksums);
void cache_measure(struct cache *cache, size_t *count, uint64_t *bytes);

/* ---- Unlabelled pictures ---- */

/* How many pictures of the library were looked at; 0: too few to tell anything, or they are not to be used. */
size_t library_looked_at(struct server *server);
/* Whether these are a quarter more than there were. */
bool library_has_grown(struct server *server, uint64_t since);
/* For the teacher's thread: */
/* They or some of them; whole: without their crops. No table: they are too few. */
l3a_status library_table(struct server *server, l3a_context *context, bool whole, struct library_rows *rows);
void library_rows_free(struct library_rows *rows);
/* Before a lesson: makes them the model's unlabelled pictures, if that is due. A failure is one of the lesson as well, if it would
 * fail for the same reason; any other is noted. */
l3a_status teacher_use_library(struct server *server);

/* ---- Metrics ---- */

enum { BUCKETS = 14, ROUTES = 64, BATCH_BUCKETS = 8 };

struct histogram {
    atomic_uint_fast64_t counts[BUCKETS + 1];
    atomic_uint_fast64_t micros;
};

struct metrics {
    atomic_uint_fast64_t requests[ROUTES][6]; /* by route, and by hundreds of the status */
    struct histogram seconds[ROUTES];
    atomic_uint_fast64_t batches[BATCH_BUCKETS + 1], batch_pictures, pictures, unreadable, cached;
    atomic_uint_fast64_t lessons, lesson_pictures, undone, refused, journal_failures, saves, save_failures, unsaved, examined;
    struct histogram teaching;
    atomic_uint_fast64_t connections, connections_total, timed_out, dropped;
    /* Of the index of the library. */
    atomic_uint_fast64_t index_looked, index_known, index_failed, index_looking_micros, index_scored, index_scoring_micros,
        index_kept_answers, index_features, sidecars;
    struct histogram scanning, finding;
};

void histogram_add(struct histogram *histogram, double seconds);
void histogram_write(struct text *text, const char *name, const char *labels, struct histogram *histogram);
void metric_explain(struct text *text, const char *name, const char *type, const char *help);
void metric_write(struct text *text, const char *name, const char *type, const char *help, unsigned long long value);
void metrics_now(struct request *request);

/* ---- Connections that are being closed ---- */

struct parting {
    pthread_t thread;
    bool running, stop;
    pthread_mutex_t lock;
    int event;
    int sockets[PARTING];
    double until[PARTING];
    size_t count;
};

bool parting_start(struct parting *parting);
void parting_stop(struct parting *parting);
/* Keeps a socket open for a moment after its owner has closed it. */
void parting_add(struct parting *parting, int socket);

/* ---- The server ---- */

/* What is served. */
struct served_model {
    l3a_tagger *tagger;
    char *path; /* after following links */
    const char *name;
    atomic_bool readonly; /* by the options, or because the model is packed */
    char backbone[128];
};

/* What a request must know to be let in: a token, and what the server is called. */
struct access {
    pthread_mutex_t lock; /* of the tokens */
    struct tokens tokens;
    char own_name[256];
    char *page; /* the path of the page */
};

/* What the server is busy with. */
struct load {
    atomic_bool draining; /* it takes no new connections */
    atomic_bool closing;  /* it takes no new requests either */
    atomic_size_t in_flight;
    atomic_uint_fast64_t body_bytes;
    atomic_bool uploading;
};

/* The connections, and who has them. */
struct peers {
    pthread_mutex_t lock;
    struct peer *newest, *oldest;
    double watched; /* when they were looked at last */
    struct client *clients[CLIENT_SLOTS];
    struct client stranger; /* for connections whose client has no memory */
    int coming[BACKLOG];    /* sockets that were handed to libmicrohttpd, which has not looked at them yet */
    size_t coming_count;
    double handed; /* when the last of them was */
};

struct server {
    const struct serve_options *options;
    l3a_context *context; /* the teacher's */
    struct MHD_Daemon *daemon;
    int library; /* the folder; -1: none */
    struct served_model model;
    struct access access;
    struct load load;
    struct peers peers;
    struct {
        pthread_mutex_t lock;
        struct knowledge *current;
    } knowledge;
    struct ledger ledger;
    struct cache *cache;
    struct pipeline pipeline;
    struct teacher teacher;
    struct examiner examiner;
    struct metrics metrics;
    struct parting parting;
    struct librarian *librarian; /* NULL: there is no index … */
    char *forgetful;             /* … for this reason; NULL: none is wanted */
};

double seconds_now(void);
/* Lowers the priority of the calling thread by so many steps, as nice does. */
void thread_give_way(int steps);
/* Says in the log what happens. */
__attribute__((format(printf, 3, 4))) void note(const struct server *server, enum log_level level, const char *format, ...);

/* ---- Routes, by file ---- */
void tag_start(struct request *request, struct worker *worker);
void tag_finish(struct request *request, struct worker *worker);
void score_start(struct request *request, struct worker *worker);
void teach_start(struct request *request, struct worker *worker);
void teach_finish(struct request *request, struct worker *worker);
void teach_lesson(struct request *request);
void undo_start(struct request *request, struct worker *worker);
void undo_lesson(struct request *request);
void lesson_start(struct request *request, struct worker *worker);
void lesson_pictures(struct request *request);
void rename_start(struct request *request, struct worker *worker);
void rename_class(struct request *request);
void status_now(struct request *request);
void classes_now(struct request *request);
/* Ends an answer with the edition and its classes, as every change does. */
void classes_end(struct request *request);
void history_now(struct request *request);
void page_now(struct request *request);

#endif
