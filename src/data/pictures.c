/* Finds the picture files among files and folders, and in tar files.
 *
 * Folders are searched to any depth, one after the other, without recursion. Symbolic links are followed, but no folder is searched
 * twice: a set of the folders seen so far ends loops. Links to folders wait until the folders proper are done, so that a picture is
 * found under its own path where it has one. What comes of a folder is sorted at the end. */
#include "base/file.h"
#include "base/picture_kind.h"
#include "base/text_index.h"
#include "common/utf8.h"
#include "data/archives.h"
#include "data/pictures.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

struct place {
    uint64_t device, inode;
    bool used;
};

/* Folders, by what they are and not by name; open addressing, at most half full. */
struct place_set {
    struct place *places;
    size_t count, capacity;
};

struct l3a_pictures {
    l3a_context *context;
    text_list paths;
    struct archive_span *spans; /* of the first pictures; the others have files of their own */
    size_t span_count, span_capacity;
    text_list archives;
    text_list skipped, reasons;
    size_t others;
};

static const char archive_prefix[] = "tar:";

struct search {
    struct l3a_pictures *found;
    l3a_context *context;
    struct place_set seen;
    text_list folders, links; /* to be searched; the last one comes first */
    bool shallow;             /* folders in folders are not searched */
    bool archives;            /* "tar:FILE" names an archive */
    const char *archive;      /* that is being read; one of found->archives */
};

static size_t find_place(const struct place_set *set, struct place place) {
    size_t at = (size_t)((place.inode + 31 * place.device) * 0x9E3779B97F4A7C15u >> 20) & (set->capacity - 1);
    while (set->places[at].used && (set->places[at].device != place.device || set->places[at].inode != place.inode)) {
        at = (at + 1) & (set->capacity - 1);
    }
    return at;
}

static l3a_status grow_set(l3a_context *context, struct place_set *set) {
    struct place_set larger = {.count = set->count, .capacity = set->capacity ? 2 * set->capacity : 64};
    const l3a_status status = allocate_zeroed(context, larger.capacity, sizeof *larger.places, &larger.places);
    if (status != L3A_OK) {
        return status;
    }
    for (size_t i = 0; i < set->capacity; i++) {
        if (set->places[i].used) {
            larger.places[find_place(&larger, set->places[i])] = set->places[i];
        }
    }
    release(context, set->places);
    *set = larger;
    return L3A_OK;
}

static l3a_status add_place(struct search *search, const file_description *about, bool *known) {
    struct place_set *set = &search->seen;
    l3a_status status = L3A_OK;
    if (2 * (set->count + 1) > set->capacity) {
        TRY(grow_set(search->context, set));
    }
    struct place *place = &set->places[find_place(set, (struct place){about->device, about->inode, true})];
    *known = place->used;
    set->count += !*known;
    *place = (struct place){about->device, about->inode, true};
done:
    return status;
}

static l3a_status skip(struct search *search, const char *path, const char *why) {
    l3a_status status = L3A_OK;
    TRY(text_list_add(search->context, &search->found->skipped, path, strlen(path)));
    TRY(text_list_add(search->context, &search->found->reasons, why, strlen(why)));
done:
    return status;
}

/* Skips what could not be read; the reason is the error just recorded, without the path. Lack of memory is no reason to skip. */
static l3a_status skip_failed(struct search *search, const char *path, l3a_status failure) {
    char reason[sizeof search->context->error_text];
    if (failure == L3A_ERROR_MEMORY) {
        return failure;
    }
    snprintf(reason, sizeof reason, "%s", search->context->error_text);
    const size_t length = strlen(path);
    const bool prefixed = strncmp(reason, path, length) == 0 && strncmp(reason + length, ": ", 2) == 0;
    return skip(search, path, reason + (prefixed ? length + 2 : 0));
}

bool named_like_a_picture(const char *path) {
    static const char *const endings[] = {".jpg", ".jpeg", ".png", ".webp", ".heic", ".heif", ".avif"};
    const char *ending = strrchr(path, '.');
    bool found = false;
    for (size_t i = 0; ending && !found && i < sizeof endings / sizeof endings[0]; i++) {
        found = strcasecmp(ending, endings[i]) == 0;
    }
    return found;
}

/* `named`: the caller gave this path, and is told if it is no picture. Of the files in a folder, only those are listed that should
 * be pictures; the others are counted. */
static l3a_status take_file(struct search *search, const char *path, bool named) {
    char start[PICTURE_KIND_BYTES];
    size_t count;
    const l3a_status status = read_start(search->context, path, start, sizeof start, &count);
    if (status != L3A_OK) {
        return skip_failed(search, path, status);
    }
    const struct picture_kind *kind = picture_kind_of(start, count);
    if (!kind->refusal) {
        return is_utf8(path) ? text_list_add(search->context, &search->found->paths, path, strlen(path))
                             : skip(search, path, "the name is not UTF-8; rename it");
    }
    if (named || kind->format || named_like_a_picture(path)) {
        return skip(search, path, kind->refusal);
    }
    search->found->others++;
    return L3A_OK;
}

/* A file, or a folder to be searched later. */
static l3a_status take_path(struct search *search, const char *path, bool named) {
    file_description about;
    char target;
    if (search->context->files->describe(path, &about)) {
        return skip_failed(search, path, fail_system(search->context, path, "open", errno));
    }
    if (S_ISDIR(about.mode) && search->shallow && !named) {
        return L3A_OK;
    }
    if (S_ISDIR(about.mode)) {
        const bool link = !named && search->context->files->read_link(path, &target, sizeof target) >= 0;
        return text_list_add(search->context, link ? &search->links : &search->folders, path, strlen(path));
    }
    if (S_ISREG(about.mode)) {
        return take_file(search, path, named);
    }
    search->found->others += !named;
    return named ? skip(search, path, "is neither a file nor a folder") : L3A_OK;
}

bool is_hidden(const char *name) {
    static const char thumbnails[] = "@eaDir";
    const size_t length = strcspn(name, "/");
    return name[0] == '.' || (length == sizeof thumbnails - 1 && memcmp(name, thumbnails, length) == 0);
}

static l3a_status search_folder(struct search *search, const char *folder) {
    l3a_context *context = search->context;
    l3a_status status = L3A_OK;
    text_list names = {0};
    char *path = NULL;
    file_description about;
    bool known = false;
    status = context->files->describe(folder, &about) ? fail_system(context, folder, "open", errno) : L3A_OK;
    if (status == L3A_OK) {
        TRY(add_place(search, &about, &known));
    }
    if (status == L3A_OK && !known) {
        status = list_folder(context, folder, &names);
    }
    if (status != L3A_OK) {
        status = skip_failed(search, folder, status);
        goto done;
    }
    for (size_t i = 0; i < names.count; i++) {
        if (i % 64 == 0) {
            TRY(report_progress(context, "find", search->found->paths.count, 0));
        }
        if (!is_hidden(names.items[i])) {
            TRY(join_path(context, strcmp(folder, "/") == 0 ? "" : folder, names.items[i], &path));
            TRY(take_path(search, path, false));
            release(context, path);
            path = NULL;
        }
    }
done:
    release(context, path);
    text_list_clear(context, &names);
    return status;
}

/* Takes the last text off a list; the caller releases it. */
static char *take_last(text_list *list) {
    return list->items[--list->count];
}

static l3a_status search_path(struct search *search, const char *given) {
    l3a_status status = L3A_OK;
    const size_t first = search->found->paths.count;
    size_t length = strlen(given);
    char *path = NULL;
    while (length > 1 && given[length - 1] == '/') {
        length--;
    }
    TRY(copy_text(search->context, given, length, &path));
    TRY(take_path(search, path, true));
    while (search->folders.count || search->links.count) {
        release(search->context, path);
        path = take_last(search->folders.count ? &search->folders : &search->links);
        TRY(search_folder(search, path));
    }
    if (search->found->paths.count > first) {
        sort_texts(search->found->paths.items + first, search->found->paths.count - first);
    }
done:
    release(search->context, path);
    return status;
}

/* ---- Archives ---- */

/* Adds a picture that is in the archive. */
static l3a_status add_member(struct search *search, const char *path, const struct tar_member *member) {
    struct l3a_pictures *found = search->found;
    const size_t count = found->paths.count;
    l3a_status status = L3A_OK;
    TRY(grow_array(search->context, &found->spans, &found->span_capacity, count + 1, sizeof *found->spans));
    memset(found->spans + found->span_count, 0, (count - found->span_count) * sizeof *found->spans);
    found->spans[count] = (struct archive_span){search->archive, member->offset, member->size};
    TRY(text_list_add(search->context, &found->paths, path, strlen(path)));
    found->span_count = count + 1;
done:
    return status;
}

/* As take_file() does with the files in a folder. */
static l3a_status take_member(struct tar *tar, const struct tar_member *member, void *user) {
    struct search *search = user;
    char start[PICTURE_KIND_BYTES], *path = NULL;
    const size_t count = member->size < sizeof start ? (size_t)member->size : sizeof start;
    l3a_status status = L3A_OK;
    TRY(tar_read(tar, member, start, count));
    TRY(join_path(search->context, search->archive, member->name, &path));
    const struct picture_kind *kind = picture_kind_of(start, count);
    if (!kind->refusal) {
        TRY(add_member(search, path, member));
    } else if (kind->format || named_like_a_picture(member->name)) {
        TRY(skip(search, path, kind->refusal));
    } else {
        search->found->others++;
    }
done:
    release(search->context, path);
    return status;
}

static void cut_list(l3a_context *context, text_list *list, size_t count) {
    while (list->count > count) {
        release(context, list->items[--list->count]);
    }
}

/* Of an archive that cannot be read to its end, nothing is taken. */
static l3a_status search_archive(struct search *search) {
    struct l3a_pictures *found = search->found;
    const struct l3a_pictures before = *found;
    const l3a_status status = archive_visit(search->context, search->archive, take_member, search);
    if (status == L3A_OK || status == L3A_ERROR_CANCELLED) {
        return status;
    }
    cut_list(search->context, &found->paths, before.paths.count);
    cut_list(search->context, &found->skipped, before.skipped.count);
    cut_list(search->context, &found->reasons, before.reasons.count);
    found->span_count = before.span_count;
    found->others = before.others;
    return skip_failed(search, search->archive, status);
}

static l3a_status search_archives(struct search *search, const char *text) {
    text_list *archives = &search->found->archives;
    const size_t first = archives->count;
    l3a_status status = L3A_OK;
    TRY(archives_find(search->context, text, archives));
    for (size_t i = first; i < archives->count; i++) {
        search->archive = archives->items[i];
        TRY(search_archive(search));
    }
done:
    return status;
}

/* Keeps only the first of several equal paths. */
static l3a_status drop_repeated(l3a_pictures *found) {
    l3a_context *context = found->context;
    text_list *paths = &found->paths;
    l3a_status status = L3A_OK;
    text_index index;
    bool *repeated = NULL;
    size_t kept = 0;
    TRY(text_index_make(context, paths->items, paths->count, &index));
    TRY(allocate_zeroed(context, paths->count, sizeof *repeated, &repeated));
    for (size_t i = 0; i < paths->count; i++) {
        repeated[i] = text_index_find(&index, paths->items[i]) < i;
    }
    for (size_t i = 0; i < paths->count; i++) {
        if (repeated[i]) {
            release(context, paths->items[i]);
            continue;
        }
        if (i < found->span_count) {
            found->spans[kept] = found->spans[i];
        }
        paths->items[kept++] = paths->items[i];
    }
    found->span_count = found->span_count < kept ? found->span_count : kept;
    paths->count = kept;
done:
    release(context, repeated);
    text_index_free(context, &index);
    return status;
}

static l3a_status run_search(struct search *search, const char *const *paths, size_t count, l3a_pictures **pictures) {
    l3a_context *context = search->context;
    l3a_status status = L3A_OK;
    l3a_pictures *made = NULL;
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    search->found = made;
    for (size_t i = 0; i < count; i++) {
        const bool archives = search->archives && strncmp(paths[i], archive_prefix, sizeof archive_prefix - 1) == 0;
        TRY(archives ? search_archives(search, paths[i] + sizeof archive_prefix - 1) : search_path(search, paths[i]));
    }
    TRY(drop_repeated(made));
    *pictures = made;
    made = NULL;
done:
    release(context, search->seen.places);
    text_list_clear(context, &search->folders);
    text_list_clear(context, &search->links);
    l3a_pictures_free(made);
    return status;
}

l3a_status l3a_pictures_find(l3a_context *context, const char *const *paths, size_t count, l3a_pictures **pictures) {
    l3a_status status = L3A_OK;
    struct search search = {.context = context, .archives = true};
    NEED(context, context, pictures);
    if (count) {
        NEED(context, paths);
        TRY(need_items(context, __func__, "paths", paths, count));
    }
    TRY(run_search(&search, paths, count, pictures));
done:
    return status;
}

l3a_status pictures_find_in(l3a_context *context, const char *folder, bool deep, l3a_pictures **pictures) {
    struct search search = {.context = context, .shallow = !deep};
    return run_search(&search, &folder, 1, pictures);
}

void l3a_pictures_free(l3a_pictures *pictures) {
    if (pictures) {
        l3a_context *context = pictures->context;
        text_list_clear(context, &pictures->paths);
        release(context, pictures->spans);
        text_list_clear(context, &pictures->archives);
        text_list_clear(context, &pictures->skipped);
        text_list_clear(context, &pictures->reasons);
        release(context, pictures);
    }
}

size_t l3a_pictures_count(const l3a_pictures *pictures) {
    return pictures ? pictures->paths.count : 0;
}

const char *l3a_pictures_path(const l3a_pictures *pictures, size_t index) {
    return pictures && index < pictures->paths.count ? pictures->paths.items[index] : NULL;
}

const char *l3a_pictures_archive(const l3a_pictures *pictures, size_t index) {
    return pictures && index < pictures->span_count ? pictures->spans[index].archive : NULL;
}

struct picture_source pictures_source(const l3a_pictures *pictures, size_t index) {
    struct picture_source source = {.name = pictures->paths.items[index]};
    if (index < pictures->span_count) {
        source.span = pictures->spans[index];
    }
    return source;
}

const char *l3a_pictures_skipped(const l3a_pictures *pictures, size_t index) {
    return pictures && index < pictures->skipped.count ? pictures->skipped.items[index] : NULL;
}

const char *l3a_pictures_reason(const l3a_pictures *pictures, size_t index) {
    return pictures && index < pictures->reasons.count ? pictures->reasons.items[index] : NULL;
}

size_t l3a_pictures_others(const l3a_pictures *pictures) {
    return pictures ? pictures->others : 0;
}
