/* Features of pictures that were seen, found by the key of the picture: a hash table whose entries are also in a list, the one used
 * last at its end. When there is no room, the first of the list goes. Features, never pixels. */
#include "serve/server.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 1 << 14 };

struct entry {
    char key[KEY_TEXT];
    uint64_t checksum;
    char *path;
    struct entry *chained;         /* in the same slot */
    struct entry *earlier, *later; /* by use */
    float features[];
};

struct cache {
    pthread_mutex_t lock;
    uint64_t limit, bytes;
    size_t width, count, listed; /* listed: of the library */
    struct entry *slots[SLOTS];
    struct entry *first, *last;
};

struct cache *cache_create(uint64_t bytes, size_t width) {
    struct cache *cache = calloc(1, sizeof *cache);
    if (cache) {
        cache->limit = bytes;
        cache->width = width;
        pthread_mutex_init(&cache->lock, NULL);
    }
    return cache;
}

static size_t entry_bytes(const struct cache *cache, const char *path) {
    return sizeof(struct entry) + cache->width * sizeof(float) + (path ? strlen(path) + 1 : 0);
}

/* A key is made of hexadecimal digits of a hash. */
static size_t slot_of(const char *key) {
    size_t slot = 0;
    for (size_t i = 0; i < 4; i++) {
        slot = slot << 4 | (size_t)(key[i] <= '9' ? key[i] - '0' : key[i] - 'a' + 10);
    }
    return slot % SLOTS;
}

static struct entry *find(const struct cache *cache, const char *key) {
    struct entry *entry = cache->slots[slot_of(key)];
    while (entry && strcmp(entry->key, key) != 0) {
        entry = entry->chained;
    }
    return entry;
}

static void unlink_entry(struct cache *cache, struct entry *entry) {
    *(entry->earlier ? &entry->earlier->later : &cache->first) = entry->later;
    *(entry->later ? &entry->later->earlier : &cache->last) = entry->earlier;
    entry->earlier = entry->later = NULL;
}

static void append(struct cache *cache, struct entry *entry) {
    entry->earlier = cache->last;
    *(cache->last ? &cache->last->later : &cache->first) = entry;
    cache->last = entry;
}

static void drop_first(struct cache *cache) {
    struct entry *entry = cache->first, **at = &cache->slots[slot_of(entry->key)];
    while (*at != entry) {
        at = &(*at)->chained;
    }
    *at = entry->chained;
    unlink_entry(cache, entry);
    cache->bytes -= entry_bytes(cache, entry->path);
    cache->count--;
    cache->listed -= entry->path != NULL;
    free(entry->path);
    free(entry);
}

void cache_free(struct cache *cache) {
    if (cache) {
        while (cache->first) {
            drop_first(cache);
        }
        pthread_mutex_destroy(&cache->lock);
        free(cache);
    }
}

bool cache_find(struct cache *cache, const char *key, float *features, uint64_t *checksum) {
    pthread_mutex_lock(&cache->lock);
    struct entry *entry = strspn(key, "0123456789abcdef") == KEY_TEXT - 1 && strlen(key) == KEY_TEXT - 1 ? find(cache, key) : NULL;
    if (entry) {
        memcpy(features, entry->features, cache->width * sizeof *features);
        *checksum = entry->checksum;
        unlink_entry(cache, entry);
        append(cache, entry);
    }
    pthread_mutex_unlock(&cache->lock);
    return entry != NULL;
}

static void add(struct cache *cache, const char *key, const float *features, uint64_t checksum, const char *path) {
    struct entry *entry = calloc(1, sizeof *entry + cache->width * sizeof *features);
    char *copy = copy_string(path);
    if (!entry || (path && !copy)) {
        free(entry);
        free(copy);
        return;
    }
    memcpy(entry->key, key, KEY_TEXT);
    memcpy(entry->features, features, cache->width * sizeof *features);
    entry->checksum = checksum;
    entry->path = copy;
    struct entry **slot = &cache->slots[slot_of(key)];
    entry->chained = *slot;
    *slot = entry;
    append(cache, entry);
    cache->bytes += entry_bytes(cache, path);
    cache->count++;
    cache->listed += path != NULL;
}

void cache_put(struct cache *cache, const char *key, const float *features, uint64_t checksum, const char *path) {
    pthread_mutex_lock(&cache->lock);
    struct entry *entry = find(cache, key);
    if (entry && path && !entry->path) { /* it is in the library, too */
        entry->path = copy_string(path);
        cache->bytes += entry->path ? strlen(path) + 1 : 0;
        cache->listed += entry->path != NULL;
    } else if (!entry && entry_bytes(cache, path) <= cache->limit) {
        add(cache, key, features, checksum, path);
    }
    while (cache->bytes > cache->limit) {
        drop_first(cache);
    }
    pthread_mutex_unlock(&cache->lock);
}

static int compare_paths(const void *left, const void *right) {
    return strcmp(((const struct cached *)left)->path, ((const struct cached *)right)->path);
}

size_t cache_library(struct cache *cache, struct cached **found) {
    size_t count = 0;
    pthread_mutex_lock(&cache->lock);
    *found = calloc(cache->count + 1, sizeof **found);
    for (const struct entry *entry = cache->first; *found && entry; entry = entry->later) {
        struct cached *to = &(*found)[count];
        if (!entry->path) {
            continue;
        }
        to->path = copy_string(entry->path);
        to->features = malloc(cache->width * sizeof *to->features);
        if (to->path && to->features) {
            memcpy(to->features, entry->features, cache->width * sizeof *to->features);
            memcpy(to->key, entry->key, KEY_TEXT);
            to->checksum = entry->checksum;
            count++;
        } else {
            free(to->path);
            free(to->features);
        }
    }
    pthread_mutex_unlock(&cache->lock);
    if (count) {
        qsort(*found, count, sizeof **found, compare_paths);
    }
    return count;
}

void cached_free(struct cached *found, size_t count) {
    for (size_t i = 0; i < count; i++) {
        free(found[i].path);
        free(found[i].features);
    }
    free(found);
}

size_t cache_count_library(struct cache *cache) {
    pthread_mutex_lock(&cache->lock);
    const size_t count = cache->listed;
    pthread_mutex_unlock(&cache->lock);
    return count;
}

size_t cache_copy_library(struct cache *cache, size_t most, size_t numbers, float *features, uint64_t *checksums) {
    size_t count = 0, seen = 0;
    pthread_mutex_lock(&cache->lock);
    for (const struct entry *entry = cache->first; entry && count < most; entry = entry->later) {
        if (entry->path && count * cache->listed <= seen++ * most) {
            memcpy(features + count * numbers, entry->features, numbers * sizeof *features);
            checksums[count++] = entry->checksum;
        }
    }
    pthread_mutex_unlock(&cache->lock);
    return count;
}

void cache_measure(struct cache *cache, size_t *count, uint64_t *bytes) {
    pthread_mutex_lock(&cache->lock);
    *count = cache->count;
    *bytes = cache->bytes;
    pthread_mutex_unlock(&cache->lock);
}
