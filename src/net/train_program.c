#include "net/train_program.h"
#include "base/memory.h"
#include "net/places.h"

#include <string.h>

/* ---- Segments ---- */

/* How many values made before a step are read from it on. */
static size_t crossings(const struct train_steps *steps, size_t at) {
    size_t count = 0;
    for (size_t i = 0; i < at; i++) {
        bool crosses = false;
        for (size_t j = at; j < steps->count; j++) {
            crosses =
                crosses || steps->steps[j].input == steps->steps[i].output || steps->steps[j].second == steps->steps[i].output;
        }
        count += crosses;
    }
    return count;
}

size_t train_segments(const struct train_steps *steps, size_t wanted, size_t *starts) {
    size_t all = 0, passed = 0, count = 1;
    starts[0] = 0;
    for (size_t i = 0; i < steps->count; i++) {
        all += layout_size(&steps->layouts[steps->steps[i].output]);
    }
    for (size_t i = 0; i < steps->count && count < wanted; i++) {
        if (i > starts[count - 1] && passed >= all / wanted * count && crossings(steps, i) == 1) {
            starts[count++] = i;
        }
        passed += layout_size(&steps->layouts[steps->steps[i].output]);
    }
    return count;
}

static size_t segment_of(size_t step, const size_t *starts, size_t segments) {
    size_t segment = segments - 1;
    while (starts[segment] > step) {
        segment--;
    }
    return segment;
}

/* ---- The order of steps ---- */

struct plan {
    struct train_program *program;
    const size_t *starts;
    size_t segments;
    bool *kept;                /* of each value: backward finds what forward has made */
    bool *again;               /* of each value: backward needs it, so it is made again */
    struct stretch *stretches; /* of values, of values made again, and of gradients */
    size_t values;
};

/* A value is kept if it is made in the last segment, or read in another one than that in which it is made. */
static void find_kept(const struct plan *plan) {
    const struct train_steps *steps = plan->program->steps;
    plan->kept[PICTURE] = true;
    for (size_t i = 0; i < steps->count; i++) {
        const value made = steps->steps[i].output;
        const size_t segment = segment_of(i, plan->starts, plan->segments);
        plan->kept[made] = segment == plan->segments - 1;
        for (size_t j = i; j < steps->count; j++) {
            const bool reads = steps->steps[j].input == made || steps->steps[j].second == made;
            plan->kept[made] |= reads && segment_of(j, plan->starts, plan->segments) != segment;
        }
    }
}

static void find_again(const struct plan *plan) {
    const struct train_steps *steps = plan->program->steps;
    for (size_t i = steps->count; i-- > 0;) {
        const struct train_step *step = &steps->steps[i];
        plan->again[step->input] |= step->backward && step->keeps_input;
        plan->again[step->second] |= step->backward && step->keeps_second;
        plan->again[step->output] |= step->backward && step->keeps_output;
        if (plan->again[step->output] && !plan->kept[step->output]) {
            plan->again[step->input] = plan->again[step->second] = true;
        }
    }
}

static void add_event(struct train_places *places, size_t step, enum train_pass pass) {
    places->events[places->count++] = (struct train_event){step, pass};
}

static void order_events(const struct plan *plan, struct train_places *places, bool training) {
    const struct train_steps *steps = plan->program->steps;
    for (size_t i = 0; i < steps->count; i++) {
        add_event(places, i, PASS_FORWARD);
    }
    for (size_t segment = plan->segments; training && segment-- > 0;) {
        const size_t end = segment + 1 < plan->segments ? plan->starts[segment + 1] : steps->count;
        for (size_t i = plan->starts[segment]; i < end; i++) {
            const value made = steps->steps[i].output;
            if (plan->again[made] && !plan->kept[made]) {
                add_event(places, i, PASS_AGAIN);
            }
        }
        for (size_t i = end; i-- > plan->starts[segment];) {
            if (steps->steps[i].backward) {
                add_event(places, i, PASS_BACKWARD);
            }
        }
    }
}

/* ---- Places ---- */

size_t train_value_floats(const struct train_program *program, value made) {
    const struct layout *layout = &program->steps->layouts[made];
    const size_t numbers = program->pictures * layout_size(layout);
    return train_aligned(layout->type == NUMBER_FLOAT32 ? numbers : (numbers + 1) / 2);
}

static void touch(const struct plan *plan, size_t which, value touched, size_t event) {
    struct stretch *stretch = &plan->stretches[which * plan->values + touched];
    if (touched == NOTHING) {
        return;
    }
    if (!stretch->size) {
        *stretch = (struct stretch){.size = train_value_floats(plan->program, touched), .first = event};
    }
    stretch->last = event;
}

static void touch_value(const struct plan *plan, value touched, size_t event, enum train_pass pass) {
    touch(plan, pass == PASS_FORWARD || plan->kept[touched] ? 0 : 1, touched, event);
}

/* Marks what a step reads and writes. */
static void touch_step(const struct plan *plan, const struct train_event *event, size_t at) {
    const struct train_steps *steps = plan->program->steps;
    const struct train_step *step = &steps->steps[event->step];
    const bool all = event->pass != PASS_BACKWARD;
    if (all || step->keeps_input) {
        touch_value(plan, step->input, at, event->pass);
    }
    if (all || step->keeps_second) {
        touch_value(plan, step->second, at, event->pass);
    }
    if (all || step->keeps_output) {
        touch_value(plan, step->output, at, event->pass);
    }
    if (!all) {
        touch(plan, 2, steps->gradients[step->output], at);
        touch(plan, 2, step->wants_input ? steps->gradients[step->input] : NOTHING, at);
        touch(plan, 2, step->wants_second ? steps->gradients[step->second] : NOTHING, at);
    }
}

/* Places stretches in the order in which they begin. */
static l3a_status place_stretches(const struct plan *plan, struct train_places *places) {
    l3a_context *context = plan->program->steps->context;
    struct stretch *placed = NULL;
    size_t count = 0;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, 3 * plan->values, sizeof *placed, &placed));
    for (size_t event = 0; event < places->count; event++) {
        for (size_t i = 0; i < 3 * plan->values; i++) {
            struct stretch *stretch = &plan->stretches[i];
            if (stretch->size && stretch->first == event) {
                stretch->start = places_lowest(placed, count, stretch);
                placed[count++] = *stretch;
                places->scratch =
                    stretch->start + stretch->size > places->scratch ? stretch->start + stretch->size : places->scratch;
            }
        }
    }
    for (value v = 0; v < plan->values; v++) {
        places->values[v] = plan->stretches[v].start;
        places->again[v] = plan->stretches[plan->kept[v] ? v : plan->values + v].start;
        places->gradients[v] = plan->stretches[2 * plan->values + plan->program->steps->gradients[v]].start;
    }
done:
    release(context, placed);
    return status;
}

static void release_places(l3a_context *context, struct train_places *places) {
    release(context, places->events);
    release(context, places->values);
    release(context, places->again);
    release(context, places->gradients);
    *places = (struct train_places){0};
}

static l3a_status make_places(const struct plan *plan, struct train_places *places, bool training) {
    const struct train_program *program = plan->program;
    l3a_context *context = program->steps->context;
    l3a_status status = L3A_OK;
    release_places(context, places);
    TRY(allocate_zeroed(context, 3 * program->steps->count, sizeof *places->events, &places->events));
    TRY(allocate_zeroed(context, plan->values, sizeof *places->values, &places->values));
    TRY(allocate_zeroed(context, plan->values, sizeof *places->again, &places->again));
    TRY(allocate_zeroed(context, plan->values, sizeof *places->gradients, &places->gradients));
    memset(plan->stretches, 0, 3 * plan->values * sizeof *plan->stretches);
    order_events(plan, places, training);
    for (size_t i = 0; i < places->count; i++) {
        touch_step(plan, &places->events[i], i);
    }
    TRY(place_stretches(plan, places));
    places->arena = places->scratch;
    for (size_t i = 0; i < program->steps->count; i++) {
        const size_t needed = places->scratch + program->scratch[i];
        places->arena = needed > places->arena ? needed : places->arena;
    }
done:
    return status;
}

l3a_status train_program_divide(struct train_program *program, const size_t *starts, size_t segments) {
    l3a_context *context = program->steps->context;
    struct plan plan = {.program = program,
                        .starts = starts ? starts : &(size_t){0},
                        .segments = starts ? segments : 1,
                        .values = program->steps->network->value_count};
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, plan.values, sizeof *plan.kept, &plan.kept));
    TRY(allocate_zeroed(context, plan.values, sizeof *plan.again, &plan.again));
    TRY(allocate_zeroed(context, 3 * plan.values, sizeof *plan.stretches, &plan.stretches));
    find_kept(&plan);
    find_again(&plan);
    TRY(make_places(&plan, &program->training, true));
    TRY(make_places(&plan, &program->running, false));
done:
    release(context, plan.kept);
    release(context, plan.again);
    release(context, plan.stretches);
    return status;
}

/* ---- Preparing steps ---- */

/* The room for gradients that are added to others. */
static size_t apart_floats(const struct train_program *program, const struct train_step *step) {
    return (step->input_apart ? train_value_floats(program, step->input) : 0) +
           (step->second_apart ? train_value_floats(program, step->second) : 0);
}

static l3a_status prepare_step(struct train_program *program, size_t index) {
    const struct train_preparer *preparer = &program->preparer;
    size_t more = 0;
    l3a_status status = L3A_OK;
    TRY(preparer->prepare(preparer->owner, program, index, &more, &program->operations[index]));
    program->scratch[index] = apart_floats(program, &program->steps->steps[index]) + train_aligned(more);
done:
    return status;
}

l3a_status train_program_open(const struct train_steps *steps, const struct train_preparer *preparer, size_t pictures,
                              const size_t *starts, size_t segments, struct train_program *program) {
    l3a_status status = L3A_OK;
    *program = (struct train_program){.steps = steps, .preparer = *preparer, .pictures = pictures};
    TRY(allocate_zeroed(steps->context, steps->count, sizeof *program->operations, &program->operations));
    TRY(allocate_zeroed(steps->context, steps->count, sizeof *program->scratch, &program->scratch));
    for (size_t i = 0; i < steps->count; i++) {
        TRY(prepare_step(program, i));
    }
    TRY(train_program_divide(program, starts, segments));
done:
    if (status != L3A_OK) {
        train_program_close(program);
    }
    return status;
}

void train_program_close(struct train_program *program) {
    if (!program->steps) {
        return;
    }
    l3a_context *context = program->steps->context;
    for (size_t i = 0; program->operations && i < program->steps->count; i++) {
        if (program->operations[i]) {
            program->preparer.release(program->operations[i]);
        }
    }
    release_places(context, &program->training);
    release_places(context, &program->running);
    release(context, program->operations);
    release(context, program->scratch);
    *program = (struct train_program){0};
}
