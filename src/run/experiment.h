/* An experiment: points that learn in teams, for every class order and seed, through every phase.
 *
 *   experiment.c   the options, the folder, and the order of the work
 *   points.c       the points and their teams
 *   plan.c         what the work needs
 *   job.c          one team, class order and seed: learns and measures each phase
 *   run_folder.c, grid_folder.c: what the folders of a run and of a grid keep, and how they resume
 *   saving.c       when a run saves
 *   record.c       run.json and sweep.json */
#ifndef L3A_EXPERIMENT_H
#define L3A_EXPERIMENT_H

#include "learn/model_group.h"
#include "measure/compare.h"
#include "measure/evaluate.h"
#include "method/method.h"
#include "method/state.h"
#include "measure/results.h"
#include "run/saving.h"
#include "l3a/l3a_experiment.h"

/* The classes in the order in which they are learned. */
struct class_order {
    const char *name; /* as it was asked for: "shuffle:1"; of a file, without the folders */
    const char **names;
    size_t *columns, *test_columns;   /* of the classes, in the training table and in the test table */
    l3a_protocol_phase *lessons, all; /* of each phase, and of all classes at once */
};

/* A method with settings. */
struct point {
    const struct method *method;
    l3a_options settings; /* including those that the method prescribes; the seed is set when its team learns */
    text_list values;     /* one per axis */
    char *label;
    char threshold[THRESHOLD_TEXT];
    char *folder;         /* NULL: nothing is written */
    l3a_results *results; /* of all points, in a run */
};

/* Points that learn together. A team of one can be of any method; the points of a larger one form a group (learn/model_group.h). */
struct team {
    size_t *points;
    size_t count;
};

struct l3a_experiment {
    l3a_context *context;
    l3a_experiment_options options; /* complete, except that there may be no folder */
    l3a_options settings;
    const struct layout *layout;
    bool begun;
    size_t classes, phases;
    struct class_order *orders;
    size_t order_count;
    size_t *bounds;
    struct point *points;
    size_t point_count;
    struct team *teams;
    size_t team_count;
    l3a_method *callbacks;      /* of the program's own methods … */
    struct method *own_methods; /* … and what they make */
    size_t own_count;
    text_list failures;               /* of these */
    struct tables tables;             /* of a grid's own folder */
    struct saving saving;             /* of a run */
    struct training_source *training; /* of methods that train the backbone; NULL: there are none */
};

/* A team, a class order and a seed. */
struct job {
    const struct team *team;
    const struct method *method; /* of the first point, and in a larger team like that of the others */
    const struct class_order *order;
    uint64_t seed;
    size_t phases;
    size_t number; /* from 1 */
    bool first_of_team;
    /* What the team has learned: a group, or the state of one learner. */
    struct group *group;
    void *state;
    struct saving *saving; /* of the experiment */
};

/* How a run differs from a grid, mostly in what its folder keeps. */
struct layout {
    const char *kind, *record; /* what messages call it, and the name of its record */
    const char *obstacle;      /* a file that must not be in the folder, unless a run is resumed … */
    const char *complaint;     /* … and what to say then, about the folder %s */
    const char *consumers;     /* for a warning about settings: "no method of this run" */
    bool detailed;             /* every team is one point, of which classes are counted and stages are timed */
    /* Opens a folder that has a record; resumed: it is not a new one. */
    l3a_status (*open)(l3a_experiment *experiment, bool resumed);
    /* Finds how many phases of a job are done, and restores its state if there are more to come. */
    l3a_status (*resume)(const l3a_experiment *experiment, struct job *job, size_t *done);
    /* Looks at the scores after the last phase; *curves is allocated if they are wanted. NULL: does not. */
    l3a_status (*look)(const l3a_experiment *experiment, const struct job *job, const struct evaluation *evaluation,
                       const double *thresholds, float **curves);
    /* Where a learner that trains the backbone keeps what it has done of a phase; *path and *owner are the caller's to free. NULL:
     * nowhere. */
    l3a_status (*progress)(const l3a_experiment *experiment, const struct job *job, char **path, struct state_owner *owner);
    /* Phase t of a job is finished, and in the results: saves it, unless that can wait. NULL: waits for the job. */
    l3a_status (*keep_phase)(const l3a_experiment *experiment, const struct job *job, size_t t, const l3a_result *row);
    /* The program stops right after that: saves the phase if it is not saved yet. Not called if several processes divide the rows:
     * they do not stop at the same phase. */
    l3a_status (*leave_phase)(const l3a_experiment *experiment, const struct job *job, size_t t, const l3a_result *row);
    /* A job has done its last phase; all jobs are done, in an experiment with a folder. */
    l3a_status (*keep_job)(l3a_experiment *experiment, const struct job *job);
    /* A job has failed, but the others go on; NULL: what it has is saved already. */
    l3a_status (*leave_job)(l3a_experiment *experiment, const struct job *job);
    l3a_status (*finish)(l3a_experiment *experiment);
};

extern const struct layout run_layout, grid_layout;
/* What a model records of its class order, if the experiment has several. */
extern const char order_record[];

/* points.c. Checks the names and the axes; then, when the classes are known, lays out the points and their teams. */
l3a_status check_methods(l3a_experiment *experiment);
/* The method of a name that was checked. */
const struct method *experiment_method(const l3a_experiment *experiment, const char *name);
l3a_status check_axes(l3a_context *context, const l3a_experiment_options *options, const l3a_options *settings);
l3a_status make_points(l3a_experiment *experiment);
l3a_status make_teams(l3a_experiment *experiment);
void points_free(l3a_experiment *experiment);
/* The model's settings of a team's points, with the seed filled in. */
void team_settings(const l3a_experiment *experiment, const struct team *team, uint64_t seed, struct model_options *settings);

static inline struct point *team_point(const l3a_experiment *experiment, const struct team *team, size_t index) {
    return &experiment->points[team->points[index]];
}

static inline size_t phases_of(const l3a_experiment *experiment, const struct method *method) {
    return method->plan == BY_PHASE ? experiment->phases : 1;
}

/* The trial of a job and one of its methods, as results know it. */
static inline struct trial trial_of(const l3a_experiment *experiment, const struct job *job, const struct method *method) {
    return (struct trial){method->info.name, job->seed, (size_t)(job->order - experiment->orders)};
}

/* plan.c. Counts the images of every phase. A phase in which no image has a label is an error: no method can learn from it. */
l3a_status count_images(l3a_experiment *experiment);
/* The training images of a method's lesson t; for joint-masked, each counts in every phase it belongs to. */
uint64_t lesson_images(const l3a_experiment *experiment, const struct class_order *order, const struct method *method, size_t t);
/* Bytes that a team of several points needs. */
void team_memory(const l3a_experiment *experiment, const struct model_options *settings, size_t count, struct footprint *need);

/* job.c. Makes the state of a job's learner, or the group of its team, which have learned nothing. */
l3a_status job_create_state(const l3a_experiment *experiment, struct job *job);
/* Learns the phases of a job that are missing. */
l3a_status run_job(l3a_experiment *experiment, struct job *job);
/* Scores images for every point of the job's team: scores[i] is [images x classes learned so far] of point i. */
l3a_status job_score(const struct job *job, const float *features, size_t images, float *const *scores);

#endif
