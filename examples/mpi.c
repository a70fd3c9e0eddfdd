/* Learns and measures with several processes, in a program that has an MPI communicator of its own.
 *
 *   mpicc mpi.c $(pkg-config --cflags --libs l3a) -o mpi
 *   mpirun -n 4 ./mpi
 *
 * All processes make the same calls with the same table, and each learns its part of the rows. The table here is in memory; of one
 * that is in a file, each process reads its part. */
#include <l3a/l3a.h>

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

/* Every process must get the same bits, so this is not MPI_Allreduce(). */
static int add_up(void *values, size_t count, l3a_sum_type type, void *user) {
    MPI_Comm *processes = user;
    const MPI_Datatype number = type == L3A_SUM_FLOAT64 ? MPI_DOUBLE : MPI_UINT64_T;
    int process;
    MPI_Comm_rank(*processes, &process);
    MPI_Reduce(process ? values : MPI_IN_PLACE, values, (int)count, number, MPI_SUM, 0, *processes);
    return MPI_Bcast(values, (int)count, number, 0, *processes);
}

static void check(const l3a_context *context, l3a_status status) {
    if (status != L3A_OK) {
        fprintf(stderr, "error: %s\nhint: %s\n", l3a_error_text(context), l3a_error_hint(context));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

enum { ROWS = 1000, WIDTH = 4, CLASSES = 2 };

/* Rows of pseudo-random numbers; class 0 is present where the first of them is large, class 1 where the second is. */
static void make_rows(float *features, int8_t *labels) {
    uint32_t state = 1;
    for (int i = 0; i < ROWS * WIDTH; i++) {
        state = state * 1664525 + 1013904223;
        features[i] = (float)(state >> 8) / (float)(1 << 24);
    }
    for (int i = 0; i < ROWS * CLASSES; i++) {
        labels[i] = features[i / CLASSES * WIDTH + i % CLASSES] > 0.5F;
    }
}

int main(int count, char **texts) {
    static const char *const classes[CLASSES] = {"first", "second"};
    static float features[ROWS * WIDTH];
    static int8_t labels[ROWS * CLASSES];
    MPI_Comm processes = MPI_COMM_WORLD;
    int process, size;
    l3a_context *context = NULL;
    l3a_options *settings = NULL;
    l3a_features *table = NULL;
    l3a_model *model = NULL;
    l3a_metrics metrics = {.size = sizeof metrics};

    MPI_Init(&count, &texts);
    MPI_Comm_rank(processes, &process);
    MPI_Comm_size(processes, &size);
    const l3a_context_options options = {.size = sizeof options,
                                         .threads = 1,
                                         .sum = add_up,
                                         .sum_user = &processes,
                                         .process = (size_t)process,
                                         .processes = (size_t)size,
                                         .divide = 1};
    check(NULL, l3a_context_create(&options, &context));

    make_rows(features, labels);
    check(context, l3a_features_wrap(context, features, labels, ROWS, 1, WIDTH, classes, CLASSES, &table));
    check(context, l3a_options_create(context, &settings));
    check(context, l3a_options_set_integer(context, settings, "dim", 64));
    check(context, l3a_model_create(context, WIDTH, settings, &model));
    check(context, l3a_model_learn(model, table, classes, 1));
    check(context, l3a_model_learn(model, table, classes + 1, 1));
    check(context, l3a_model_evaluate(model, table, NULL, &metrics, NULL));
    if (process == 0) {
        printf("%zu images, mAP %.2f\n", metrics.images, metrics.mean_ap);
    }

    l3a_model_free(model);
    l3a_options_free(settings);
    l3a_features_free(table);
    l3a_context_free(context);
    MPI_Finalize();
    return 0;
}
