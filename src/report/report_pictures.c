/* Some test pictures with their true and predicted classes, if the pictures are available; with views, also with the crop that
 * has the highest score for a class, as a box on the picture. The picture and the drawing of the box fill the same frame, and both
 * are fitted into it whole and in the centre, so the box lies where the crop was, whatever the size of the page. */
#include "base/file.h"
#include "common/number.h"
#include "base/views.h"
#include "common/jpeg_write.h"
#include "data/dataset.h"
#include "format/csv.h"
#include "image/picture.h"
#include "report/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDE = 240, HIGH = 180, QUALITY = 78, TAGS = 256, WRONG_TAGS = 5 };

/* Runs before 0.2 have the probability of a class instead of its score. Those with views have the column `view` after it. */
static const char samples_header[] = "id,class,true,predicted,";

struct pictures {
    struct report *report;
    l3a_dataset *dataset;
    text_index rows; /* of the data set, by id */
    size_t shown;
    size_t views;         /* 1: no box is shown */
    size_t width, height; /* of the last thumbnail */
};

/* A failure that does not mean that pictures are missing or damaged. */
static bool is_serious(l3a_status status) {
    return status == L3A_ERROR_MEMORY || status == L3A_ERROR_CANCELLED;
}

/* Opens a split of the data set if it has a picture with this id; otherwise p->dataset stays NULL. */
static l3a_status open_split(struct pictures *p, const char *data, const char *split, const char *id) {
    l3a_context *context = p->report->context;
    l3a_status status = L3A_OK;
    l3a_dataset *dataset = NULL;
    text_index rows = {0};
    TRY(l3a_dataset_open(context, data, split, NULL, &dataset));
    TRY(text_index_make_pool(context, &dataset->ids, &rows));
    if (text_index_find(&rows, id) < rows.count) {
        p->dataset = dataset;
        p->rows = rows;
        dataset = NULL;
        rows = (text_index){0};
    }
done:
    text_index_free(context, &rows);
    l3a_dataset_free(dataset);
    return status;
}

static l3a_status search_splits(struct pictures *p, const char *data, const char *id) {
    l3a_context *context = p->report->context;
    l3a_status status = L3A_OK;
    char splits[1024];
    TRY(l3a_dataset_splits(context, data, splits, sizeof splits));
    if (!splits[0]) {
        return open_split(p, data, NULL, id);
    }
    for (char *rest = splits, *split; !p->dataset && (split = strtok_r(rest, " ", &rest));) {
        TRY(open_split(p, data, split, id));
    }
done:
    return status;
}

/* A data set named in the options must exist. If only the run's record names it, the pictures may be gone. */
static l3a_status find_pictures(struct pictures *p, const struct report_run *run, const char *id) {
    l3a_context *context = p->report->context;
    const char *asked = p->report->options->pictures, *data = asked ? asked : run_record(run, "pictures.data");
    const char *split = run_record(run, "pictures.split");
    if (!data[0]) {
        return L3A_OK;
    }
    l3a_event_callback *const listener =
        context->options.on_event; /* not called: extraction already warned of problems with the data set */
    context->options.on_event = NULL;
    const l3a_status status = !asked && split[0] ? open_split(p, data, split, id) : search_splits(p, data, id);
    context->options.on_event = listener;
    return asked || is_serious(status) ? status : L3A_OK;
}

static l3a_status print_thumbnail(struct pictures *p, const struct picture_source *source) {
    l3a_context *context = p->report->context;
    text_builder *page = &p->report->page;
    l3a_status status = L3A_OK;
    l3a_picture picture = {.size = sizeof picture}, small = {.size = sizeof small};
    uint8_t *bytes = NULL;
    TRY(picture_read_source(context, source, NULL, &picture));
    const double scale = fmin(1, fmax((double)WIDE / (double)picture.width, (double)HIGH / (double)picture.height));
    const size_t width = (size_t)fmax(1, fmin(4 * WIDE, round(scale * (double)picture.width)));
    const size_t height = (size_t)fmax(1, fmin(4 * HIGH, round(scale * (double)picture.height)));
    TRY(l3a_picture_resize(context, &picture, width, height, L3A_FILTER_BICUBIC, &small));
    const size_t room = 3 * width * height + 4096;
    TRY(allocate(context, room, 1, &bytes));
    const size_t length = jpeg_encode(small.pixels, width, height, QUALITY, bytes, room);
    html_print(page, "<img alt=\"\" width=\"%zu\" height=\"%zu\" src=\"data:image/jpeg;base64,", width, height);
    html_base64(page, bytes, length);
    html_raw(page, "\">");
    p->width = width;
    p->height = height;
done:
    release(context, bytes);
    l3a_picture_free(context, &picture);
    l3a_picture_free(context, &small);
    return status;
}

static void begin_section(struct pictures *p) {
    section_begin(p->report, "pictures", "Some test pictures",
                  "Test images at regular intervals, not selected by result, after the last phase of the first method.");
    html_raw(&p->report->page,
             "<p class=\"tags\"><span class=\"tag hit\">predicted and present</span> <span class=\"tag missed\">present, "
             "not predicted</span> <span class=\"tag wrong\">predicted, not present</span> with the model’s "
             "score.</p>\n");
    if (p->views > 1) {
        html_raw(&p->report->page,
                 "<p>The box on a picture shows where its first class was seen best: the crop with the highest score "
                 "for it. Point at another class, or tap it, to see the best crop for "
                 "that one.</p>\n");
        p->report->has_boxes = true;
    }
    html_print(&p->report->page, "<div class=\"strip%s\">\n", p->views > 1 ? " boxes" : "");
}

/* Prints the figure of an id, up to its tags; prints nothing if the picture cannot be read. */
static l3a_status begin_figure(struct pictures *p, const char *id, bool *begun) {
    text_builder *page = &p->report->page;
    l3a_status status = L3A_OK;
    const size_t row = text_index_find(&p->rows, id), start = page->length;
    const size_t links = p->report->links.length;
    *begun = false;
    if (row == p->rows.count) {
        return L3A_OK;
    }
    if (!p->shown) {
        begin_section(p);
    }
    html_print(page, "<figure title=\"%s\">", id);
    const struct picture_source source = dataset_source(p->dataset, row);
    status = print_thumbnail(p, &source);
    if (status != L3A_OK) {
        page->length = start;
        p->report->links.length = links;
        return is_serious(status) ? status : L3A_OK;
    }
    html_raw(page, "<figcaption class=\"tags\">");
    p->shown++;
    *begun = true;
    return L3A_OK;
}

struct tag {
    const char *name; /* in the file's text */
    bool there, predicted;
    double score;
    size_t view; /* the crop with the highest score for the class; 0: unknown */
};

/* Classes that are present come first, then the others, each by falling score. */
static int compare_tags(const void *left, const void *right) {
    const struct tag *a = left, *b = right;
    return a->there != b->there   ? b->there - a->there
           : a->score != b->score ? (a->score < b->score ? 1 : -1)
                                  : strcmp(a->name, b->name);
}

/* Where a crop is: "top left". */
static const char *place_of(const double box[4]) {
    static const char *const places[3][3] = {{"top left", "top centre", "top right"},
                                             {"centre left", "centre", "centre right"},
                                             {"bottom left", "bottom centre", "bottom right"}};
    const double left = box[0], right = 1 - box[2], top = box[1], bottom = 1 - box[3];
    return places[fabs(top - bottom) < 0.01 ? 1 : top < bottom ? 0 : 2][fabs(left - right) < 0.01 ? 1 : left < right ? 0 : 2];
}

/* The inner svg cuts off the outer half of each line, so that the box ends where the crop does, even at the edge of the picture. */
static void print_box(const struct pictures *p, const double box[4], const char *words) {
    const double wide = (double)p->width, high = (double)p->height;
    html_print(&p->report->page,
               "<svg class=\"box\" role=\"img\" aria-label=\"%s\" viewBox=\"0 0 %zu %zu\"><svg x=\"%.2f\" y=\"%.2f\" "
               "width=\"%.2f\" height=\"%.2f\"><rect/><rect/><rect/></svg></svg>",
               words, p->width, p->height, box[0] * wide, box[1] * high, (box[2] - box[0]) * wide, (box[3] - box[1]) * high);
}

static void print_tag(const struct pictures *p, const struct tag *tag) {
    text_builder *page = &p->report->page;
    char words[96];
    double box[4];
    const bool boxed = p->views > 1 && tag->view && l3a_view_box(p->views, tag->view, box);
    html_print(page, "<span class=\"tag %s\"", !tag->there ? "wrong" : tag->predicted ? "hit" : "missed");
    if (boxed) {
        snprintf(words, sizeof words, "Seen best here: %s, %.0f %% of each side", place_of(box), 100 * (box[2] - box[0]));
        html_print(page, " tabindex=\"0\" title=\"%s\"", words);
    }
    html_print(page, ">%s <small>%.2f</small>", tag->name, tag->score);
    if (boxed) {
        print_box(p, box, words);
    }
    html_raw(page, "</span> ");
}

static void print_tags(const struct pictures *p, struct tag *tags, size_t count) {
    text_builder *page = &p->report->page;
    size_t wrong = 0;
    qsort(tags, count, sizeof *tags, compare_tags);
    for (size_t i = 0; i < count; i++) {
        const struct tag *tag = &tags[i];
        wrong += !tag->there;
        if (wrong <= WRONG_TAGS) {
            print_tag(p, tag);
        }
    }
    if (wrong > WRONG_TAGS) {
        html_print(page, "<small>and %zu more that are not present</small>", wrong - WRONG_TAGS);
    }
}

/* Reads the lines of one picture, starting with the current line. Stops at the first line of the next picture, or sets *more to
 * false. */
static l3a_status take_tags(struct csv *csv, struct tag *tags, size_t *count, bool *more) {
    l3a_status status = L3A_OK;
    const char *id = csv->fields[0];
    for (*count = 0; *more && strcmp(csv->fields[0], id) == 0;) {
        if ((csv->count == 5 || csv->count == 6) && *count < TAGS) {
            struct tag *tag = &tags[*count];
            uint64_t view = 0;
            const bool known = csv->count == 6 && integer_parse(csv->fields[5], strlen(csv->fields[5]), &view) && view <= SIZE_MAX;
            *tag = (struct tag){.name = csv->fields[1],
                                .there = strcmp(csv->fields[2], "1") == 0,
                                .predicted = strcmp(csv->fields[3], "1") == 0,
                                .view = known ? (size_t)view : 0};
            *count += number_parse(csv->fields[4], strlen(csv->fields[4]), &tag->score);
        }
        TRY(csv_next_row(csv, more));
    }
done:
    return status;
}

static l3a_status print_samples(struct pictures *p, const struct report_run *run, struct csv *csv) {
    l3a_status status = L3A_OK;
    bool more = true;
    TRY(csv_next_row(csv, &more));
    if (more) {
        TRY(find_pictures(p, run, csv->fields[0]));
    }
    while (more && p->dataset) {
        struct tag tags[TAGS];
        const char *id = csv->fields[0];
        size_t count;
        bool begun;
        TRY(begin_figure(p, id, &begun));
        TRY(take_tags(csv, tags, &count, &more));
        if (begun) {
            print_tags(p, tags, count);
            html_raw(&p->report->page, "</figcaption></figure>\n");
        }
    }
    if (p->shown) {
        html_raw(&p->report->page, "</div>\n");
        section_end(p->report);
    }
done:
    return status;
}

/* The views that test images have in a run whose samples have the column `view` and whose crops are known; otherwise 1. */
static size_t views_shown(const struct report_run *run, const char *text, size_t header) {
    static const char column[] = ",view\n";
    const char *scored = run_record(run, "run.score-views"), *recorded = scored[0] ? scored : run_record(run, "run.views");
    const size_t length = sizeof column - 1;
    uint64_t views;
    const bool there = header >= length && strncmp(text + header - length, column, length) == 0 &&
                       integer_parse(recorded, strlen(recorded), &views) && views <= SIZE_MAX && views_known((size_t)views);
    return there ? (size_t)views : 1;
}

l3a_status report_pictures(struct report *report) {
    l3a_context *context = report->context;
    l3a_status status = L3A_OK;
    struct pictures p = {.report = report};
    for (size_t i = 0; i < report->run_count && !p.shown; i++) {
        char *path = NULL, *text = NULL;
        size_t length = 0;
        struct csv csv;
        status =
            tables_read(context, &report->runs[i].results->tables, report->runs[i].folder, "samples.csv", &path, &text, &length);
        if (status == L3A_OK && text && strncmp(text, samples_header, strlen(samples_header)) == 0) {
            const size_t header = strcspn(text, "\n") + (strchr(text, '\n') != NULL);
            p.views = views_shown(&report->runs[i], text, header);
            csv_begin(&csv, context, path, text + header, length - header);
            status = print_samples(&p, &report->runs[i], &csv);
        }
        release(context, text);
        release(context, path);
        text_index_free(context, &p.rows);
        l3a_dataset_free(p.dataset);
        p.dataset = NULL;
        if (status != L3A_OK) {
            break;
        }
    }
    return status;
}
