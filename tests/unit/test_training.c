/* Training on the processor (training_checks.h). */
#include "training_checks.h"

int main(void) {
    return _cmocka_run_group_tests("training", training_checks, training_check_count, NULL, NULL);
}
