/* An experiment: points that learn in teams, for every seed, through every phase.
 *
 *   experiment.c   the options, the folder, and the order of the work
 *   points.c       the points and their teams
 *   plan.c         what the work needs
 *   job.c          one team and one seed: learns and measures each phase
 *   run_folder.c, grid_folder.c: what the folder of a run and of a grid keep, and how they resume
 *   record.c       run.json and sweep.json */
#ifndef L3A_EXPERIMENT_H
#define L3A_EXPERIMENT_H

#include "learn/group.h"
#include "measure/evaluate.h"
#include "method/method.h"
#include "report/results.h"

/* A method with settings. */
struct point {
    const struct method *method;
    l3a_options settings; /* including those that the method prescribes; the seed is set when its team learns */
    text_list values;     /* one per axis */
    char *label;
    char *folder; /* NULL: nothing is written */
    l3a_results *results;
};

/* Points that learn together. A team of one can be of any method; the points of a larger one form a group (learn/group.h). */
struct team {
    size_t *points;
    size_t count;
};

struct l3a_experiment {
    l3a_context *context;
    l3a_experiment_options options; /* complete, except that there may be no folder */
    l3a_options settings;
    const struct layout *layout;
    size_t classes, phases;
    const char **names; /* in the experiment's order */
    size_t *order;      /* of the training table's columns */
    size_t *test_order; /* of the test table's columns */
    size_t *bounds;
    l3a_protocol_phase *lessons, all; /* of each phase, and of all classes at once */
    struct point *points;
    size_t point_count;
    struct team *teams;
    size_t team_count;
    struct tables tables; /* of a grid's own folder */
    char *model_path, *partial_path;
};

/* A team and a seed. */
struct job {
    const struct team *team;
    uint64_t seed;
    size_t phases;
    bool first, first_seed; /* the experiment's first job; its team's first seed */
    /* What the team has learned: a group, or the state of one learner. */
    struct group *group;
    void *state;
};

/* A phase that a team has just learned. */
struct lesson_result {
    l3a_result row;
    struct class_details details;
    uint64_t learned;   /* images with a weight above 0 */
    uint64_t corrected; /* rows on which the point disagreed with the one before it in its team */
};

/* How the folder of a run differs from that of a grid. Where there is no folder, the functions do what remains to be done. */
struct layout {
    const char *kind;      /* for messages */
    const char *record;    /* the name of its record */
    const char *consumers; /* for a warning about settings: "no method of this run" */
    bool detailed;         /* counts labels of each class, and measures stages */
    /* Checks that nothing in the folder would be overwritten; exists: it has a record. */
    l3a_status (*check)(l3a_experiment *experiment, bool exists);
    /* Reads the tables of a folder that is resumed. */
    l3a_status (*read)(l3a_experiment *experiment);
    /* Prepares the folder for the jobs; NULL: nothing to do. */
    l3a_status (*begin)(l3a_experiment *experiment);
    /* Finds how many phases of a job are done, and restores its state if there are more to come. */
    l3a_status (*resume)(const l3a_experiment *experiment, struct job *job, size_t *done);
    /* Looks at the scores after phase t; NULL: does not. */
    l3a_status (*look)(const l3a_experiment *experiment, const struct job *job, size_t t, const struct evaluation *evaluation,
                       const double *thresholds, struct class_details *details);
    /* Saves phase t of a job, which is in the results already; NULL: does not. */
    l3a_status (*keep_phase)(const l3a_experiment *experiment, const struct job *job, size_t t, const l3a_result *row);
    /* A job has done its last phase. */
    l3a_status (*keep_job)(l3a_experiment *experiment, const struct job *job);
    /* All jobs are done. */
    l3a_status (*finish)(l3a_experiment *experiment);
};

extern const struct layout run_layout, grid_layout;

/* points.c. Checks the names and the axes; then, when the classes are known, lays out the points and their teams. */
l3a_status check_methods(l3a_context *context, const l3a_experiment_options *options);
l3a_status check_axes(l3a_context *context, const l3a_experiment_options *options, const l3a_options *settings);
l3a_status make_points(l3a_experiment *experiment);
l3a_status make_teams(l3a_experiment *experiment);
void points_free(l3a_experiment *experiment);
/* The settings of a team's points, with the seed filled in. */
void team_settings(const l3a_experiment *experiment, const struct team *team, uint64_t seed, l3a_options *settings);

static inline struct point *team_point(const l3a_experiment *experiment, const struct team *team, size_t index) {
    return &experiment->points[team->points[index]];
}

static inline size_t phases_of(const l3a_experiment *experiment, const struct method *method) {
    return method->plan == BY_PHASE ? experiment->phases : 1;
}

/* plan.c. Counts the images of every phase. A phase in which no image has a label is an error: no method can learn from it. */
l3a_status count_images(l3a_experiment *experiment);
/* Checks that the plan fits into memory. */
l3a_status make_plan(const l3a_experiment *experiment, l3a_workload *plan);
/* Bytes that a team of several points needs. */
uint64_t team_memory(const l3a_experiment *experiment, const l3a_options *settings, size_t count);

/* job.c. Learns the phases of a job that are missing. */
l3a_status run_job(l3a_experiment *experiment, struct job *job);

#endif
