/* What methods have in common that KRT's program runs (Dong et al. 2023): the tables of its paper, and of later ones, were made
 * with it. It has settings for COCO and for VOC; all other data sets get those of VOC. */
#ifndef L3A_METHOD_PUBLISHED_H
#define L3A_METHOD_PUBLISHED_H

#include "method/head.h"

/* How each of them trains: the asymmetric loss, 20 epochs in batches of 64, and one rate for the whole network, which in later
 * phases is that of choose_later_rate(). */
extern const struct trained_tuning published_tuning;

bool learns_coco(const struct head *head);
/* Sets the rate of later phases, unless the settings have done so: on COCO, it is 1e-4 after 4e-5. */
void choose_later_rate(struct head *head);
/* √(h / m), for h classes so far of which m are new in the phase: what is kept of the network before weighs the more, the more has
 * been learned. */
double share_of_old(const struct head *head);
/* Adds to the gradient that of weight · (1 − cos(a, b)) by a. Both are [rows x columns]; a row of `now` and of the gradient has
 * `stride` numbers, of which the first `columns` count. */
void add_away_from(size_t rows, size_t columns, size_t stride, const float *now, const float *before, double weight,
                   float *gradient);

#endif
