/* A method of your own beside l3a: the mean of each class, in the same phases, with the same measurements, report and resume.
 *
 *     method TRAIN TEST PROTOCOL FOLDER
 *
 * TRAIN and TEST are feature files, PROTOCOL is for example B0-C10, and FOLDER is new, or that of a run that was interrupted. */
#include <l3a/l3a_experiment.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the method keeps: sums of features, of all images and of those that show each class. */
struct means {
    size_t width, classes;
    size_t row;     /* numbers of an image: width, or more if there are views */
    double *sums;   /* [1 + classes x width]; the first row is of all images */
    double *counts; /* [1 + classes] */
};

/* Makes room for more classes. */
static int widen(struct means *means, size_t classes) {
    double *sums = realloc(means->sums, (1 + classes) * means->width * sizeof *sums);
    means->sums = sums ? sums : means->sums;
    double *counts = realloc(means->counts, (1 + classes) * sizeof *counts);
    means->counts = counts ? counts : means->counts;
    if (!sums || !counts) {
        return 1;
    }
    const size_t had = means->classes ? 1 + means->classes : 0;
    memset(sums + had * means->width, 0, (1 + classes - had) * means->width * sizeof *sums);
    memset(counts + had, 0, (1 + classes - had) * sizeof *counts);
    means->classes = classes;
    return 0;
}

static int create(void *user, uint64_t seed, size_t width, void **learner) {
    (void)user, (void)seed; /* nothing here is random */
    struct means *means = calloc(1, sizeof *means);
    if (means) {
        means->width = means->row = width;
    }
    *learner = means;
    return means == NULL;
}

static void add(struct means *means, size_t to, const float *features) {
    for (size_t j = 0; j < means->width; j++) {
        means->sums[to * means->width + j] += (double)features[j];
    }
    means->counts[to]++;
}

/* Some images of a phase, or none at its end. */
static int learn_block(void *learner, const l3a_method_phase *phase, const float *features, const int8_t *labels, size_t images) {
    struct means *means = learner;
    const size_t classes = phase->last - phase->first;
    if (means->classes < phase->last && widen(means, phase->last)) {
        return 1;
    }
    means->row = phase->rows * phase->width;
    for (size_t i = 0; i < images; i++) {
        const float *whole = features + i * means->row; /* its crops come after it */
        add(means, 0, whole);
        for (size_t k = 0; k < classes; k++) {
            if (labels[i * classes + k] == 1) {
                add(means, 1 + phase->first + k, whole);
            }
        }
    }
    return 0;
}

/* How much nearer an image is to the mean of the class than to that of all images. */
static int score(void *learner, const float *features, size_t images, float *scores) {
    const struct means *means = learner;
    for (size_t i = 0; i < images; i++) {
        for (size_t k = 0; k < means->classes; k++) {
            double nearer = 0;
            for (size_t j = 0; j < means->width; j++) {
                const double x = (double)features[i * means->row + j], all = means->sums[j] / means->counts[0],
                             own = means->sums[(1 + k) * means->width + j] / means->counts[1 + k];
                nearer += (x - all) * (x - all) - (x - own) * (x - own);
            }
            scores[i * means->classes + k] = (float)nearer;
        }
    }
    return 0;
}

/* So that a run that was interrupted goes on after its last phase. */
static int save(void *learner, l3a_state *into) {
    const struct means *means = learner;
    const uint64_t shape[] = {1 + means->classes, means->width};
    return l3a_state_put(into, "sums", L3A_NUMBER_FLOAT64, shape, 2, means->sums) ||
           l3a_state_put(into, "counts", L3A_NUMBER_FLOAT64, shape, 1, means->counts);
}

static int load(void *learner, const l3a_state *from) {
    struct means *means = learner;
    uint64_t shape[2], count;
    const void *sums, *counts;
    if (l3a_state_get(from, "sums", L3A_NUMBER_FLOAT64, 2, shape, &sums) ||
        l3a_state_get(from, "counts", L3A_NUMBER_FLOAT64, 1, &count, &counts) || shape[0] < 2 || shape[1] != means->width ||
        count != shape[0] || widen(means, (size_t)count - 1)) {
        return 1;
    }
    memcpy(means->sums, sums, (size_t)(shape[0] * shape[1]) * sizeof *means->sums);
    memcpy(means->counts, counts, (size_t)count * sizeof *means->counts);
    return 0;
}

static void free_means(void *learner) {
    struct means *means = learner;
    free(means->sums);
    free(means->counts);
    free(means);
}

static int run(l3a_context *context, l3a_features *train, l3a_features *test, const char *protocol, const char *folder) {
    const l3a_method means = {.size = sizeof means,
                              .name = "means",
                              .create = create,
                              .learn_block = learn_block,
                              .score = score,
                              .save = save,
                              .load = load,
                              .free = free_means};
    const l3a_method *const own[] = {&means};
    const char *const methods[] = {"l3a", "means"};
    const l3a_experiment_options options = {.size = sizeof options,
                                            .train = train,
                                            .test = test,
                                            .protocol = protocol,
                                            .methods = methods,
                                            .method_count = 2,
                                            .own_methods = own,
                                            .own_method_count = 1,
                                            .folder = folder,
                                            .resume = 1};
    l3a_experiment *experiment = NULL;
    l3a_status status = l3a_experiment_create(context, &options, &experiment);
    status = status == L3A_OK ? l3a_experiment_run(experiment) : status;
    const l3a_results *results = status == L3A_OK ? l3a_experiment_results(experiment, 0) : NULL;
    for (size_t i = 0; results && i < l3a_results_count(results); i++) {
        const l3a_result *row = l3a_results_at(results, i);
        printf("%-6s phase %zu: mAP %.2f\n", row->method, row->phase, row->metrics.mean_ap);
    }
    const char *failure = l3a_experiment_failure(experiment, 0);
    if (failure) {
        fprintf(stderr, "%s\n", failure);
    }
    l3a_experiment_free(experiment);
    return status != L3A_OK || failure;
}

int main(int count, char **arguments) {
    l3a_context *context = NULL;
    l3a_features *train = NULL, *test = NULL;
    int failed = 1;
    if (count != 5) {
        fprintf(stderr, "usage: %s TRAIN TEST PROTOCOL FOLDER\n", arguments[0]);
        return 2;
    }
    if (l3a_context_create(NULL, &context) != L3A_OK) {
        fprintf(stderr, "out of memory\n");
        return 1;
    }
    if (l3a_features_open(context, arguments[1], &train) == L3A_OK && l3a_features_open(context, arguments[2], &test) == L3A_OK) {
        failed = run(context, train, test, arguments[3], arguments[4]);
    }
    if (failed && l3a_error_text(context)[0]) {
        fprintf(stderr, "%s\n", l3a_error_text(context));
    }
    l3a_features_free(train);
    l3a_features_free(test);
    l3a_context_free(context);
    return failed;
}
