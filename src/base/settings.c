#include "base/settings.h"

#include "common/closest.h"
#include "common/number.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

const struct setting *setting_find(const struct setting_table *table, const char *name) {
    for (size_t i = 0; i < table->count; i++) {
        if (strcmp(table->settings[i].info.name, name) == 0) {
            return &table->settings[i];
        }
    }
    return NULL;
}

static bool in_range(const l3a_option_info *info, double value) {
    return (info->low_open ? value > info->low : value >= info->low) &&
           (info->high_open ? value < info->high : value <= info->high);
}

/* The index of a choice, or -1. */
static int find_choice(const char *choices, const char *value) {
    const size_t length = strlen(value);
    for (int index = 0;; index++) {
        const size_t size = strcspn(choices, "|");
        if (size == length && memcmp(choices, value, length) == 0) {
            return index;
        }
        if (!choices[size]) {
            return -1;
        }
        choices += size + 1;
    }
}

/* Choices are enums, which are all stored as unsigned ints here. */
enum example { EXAMPLE };
_Static_assert(sizeof(enum example) == sizeof(unsigned), "an enum is an unsigned int");

static void store_choice(char *field, int index) {
    const unsigned value = (unsigned)index;
    memcpy(field, &value, sizeof value);
}

static unsigned load_choice(const char *field) {
    unsigned value;
    memcpy(&value, field, sizeof value);
    return value;
}

static void range_text(const l3a_option_info *info, char *text, size_t capacity) {
    char low[NUMBER_TEXT], high[NUMBER_TEXT];
    if (info->high >= DBL_MAX) {
        snprintf(text, capacity, "%s %s", info->low_open ? "above" : "at least", number_format(info->low, low));
    } else {
        snprintf(text, capacity, "%s%s, %s%s", info->low_open ? "in (" : "in [", number_format(info->low, low),
                 number_format(info->high, high), info->high_open ? ")" : "]");
    }
}

static l3a_status fail_value(l3a_context *context, const l3a_option_info *info, const char *value) {
    char range[128], hint[256];
    if (info->type == L3A_OPTION_CHOICE) {
        snprintf(hint, sizeof hint, "choose one of %s", info->choices);
    } else {
        range_text(info, range, sizeof range);
        snprintf(hint, sizeof hint, "%s must be %s%s%s %s; the default is %s", info->name, info->word ? info->word : "",
                 info->word ? " or " : "", info->type == L3A_OPTION_INTEGER ? "a whole number" : "a number", range, info->fallback);
    }
    return fail(context, L3A_ERROR_OPTION, hint, "%s: '%s' is not allowed", info->name, value);
}

static void mark_given(const struct setting_table *table, void *values, const struct setting *setting) {
    uint64_t given;
    memcpy(&given, (char *)values + table->given, sizeof given);
    given |= UINT64_C(1) << (setting - table->settings);
    memcpy((char *)values + table->given, &given, sizeof given);
}

bool setting_is_given(const struct setting_table *table, const void *values, const struct setting *setting) {
    uint64_t given;
    memcpy(&given, (const char *)values + table->given, sizeof given);
    return given >> (setting - table->settings) & 1;
}

l3a_status setting_set(l3a_context *context, const struct setting_table *table, void *values, const struct setting *setting,
                       const char *value) {
    char *field = (char *)values + setting->offset;
    const l3a_option_info *info = &setting->info;
    uint64_t integer;
    double number;
    int choice;
    switch (info->type) {
    case L3A_OPTION_INTEGER:
        if (!integer_parse(value, strlen(value), &integer) || integer > (uint64_t)LARGEST_INTEGER ||
            !in_range(info, (double)integer)) {
            return fail_value(context, info, value);
        }
        memcpy(field, &integer, sizeof integer);
        break;
    case L3A_OPTION_NUMBER:
        if (info->word && strcmp(value, info->word) == 0) {
            number = 0;
        } else if (!number_parse(value, strlen(value), &number) || !in_range(info, number)) {
            return fail_value(context, info, value);
        }
        memcpy(field, &number, sizeof number);
        break;
    case L3A_OPTION_CHOICE:
        choice = find_choice(info->choices, value);
        if (choice < 0) {
            return fail_value(context, info, value);
        }
        store_choice(field, choice);
        break;
    }
    mark_given(table, values, setting);
    return L3A_OK;
}

l3a_status setting_set_number(l3a_context *context, const struct setting_table *table, void *values, const struct setting *setting,
                              double value) {
    char *field = (char *)values + setting->offset, text[NUMBER_TEXT];
    const l3a_option_info *info = &setting->info;
    const bool whole = value >= 0 && value <= LARGEST_INTEGER && value == (double)(uint64_t)value;
    if (info->type == L3A_OPTION_NUMBER ? !in_range(info, value) && !(info->word && value == 0)
                                        : info->type == L3A_OPTION_CHOICE || !whole || !in_range(info, value)) {
        return fail_value(context, info, number_format(value, text));
    }
    if (info->type == L3A_OPTION_NUMBER) {
        memcpy(field, &value, sizeof value);
    } else {
        const uint64_t integer = (uint64_t)value;
        memcpy(field, &integer, sizeof integer);
    }
    mark_given(table, values, setting);
    return L3A_OK;
}

double setting_number(const void *values, const struct setting *setting) {
    const char *field = (const char *)values + setting->offset;
    uint64_t integer = 0;
    double number;
    if (setting->info.type == L3A_OPTION_NUMBER) {
        memcpy(&number, field, sizeof number);
        return number;
    }
    if (setting->info.type == L3A_OPTION_INTEGER) {
        memcpy(&integer, field, sizeof integer);
    }
    return (double)integer;
}

size_t setting_get(const void *values, const struct setting *setting, char *text, size_t capacity) {
    const char *field = (const char *)values + setting->offset;
    const l3a_option_info *info = &setting->info;
    char number[NUMBER_TEXT];
    uint64_t integer;
    double value;
    const char *choice;
    switch (info->type) {
    case L3A_OPTION_INTEGER:
        memcpy(&integer, field, sizeof integer);
        return (size_t)snprintf(text, capacity, "%llu", (unsigned long long)integer);
    case L3A_OPTION_NUMBER:
        memcpy(&value, field, sizeof value);
        return (size_t)snprintf(text, capacity, "%s", info->word && value == 0 ? info->word : number_format(value, number));
    case L3A_OPTION_CHOICE:
        choice = info->choices;
        for (unsigned left = load_choice(field); left && *choice; left--) {
            choice += strcspn(choice, "|");
            choice += *choice == '|';
        }
        return (size_t)snprintf(text, capacity, "%.*s", (int)strcspn(choice, "|"), choice);
    }
    return 0;
}

void settings_default(const struct setting_table *table, void *values) {
    const uint64_t none = 0;
    for (size_t i = 0; i < table->count; i++) {
        setting_set(NULL, table, values, &table->settings[i], table->settings[i].info.fallback);
    }
    memcpy((char *)values + table->given, &none, sizeof none);
}

/* A value is valid if it is one of the choices, or in range. */
static bool is_valid(const void *values, const struct setting *setting) {
    const l3a_option_info *info = &setting->info;
    char text[64];
    if (info->type == L3A_OPTION_CHOICE) {
        return setting_get(values, setting, text, sizeof text) > 0;
    }
    const double number = setting_number(values, setting);
    uint64_t integer = 0;
    if (info->type == L3A_OPTION_INTEGER) {
        memcpy(&integer, (const char *)values + setting->offset, sizeof integer);
    }
    return integer <= (uint64_t)LARGEST_INTEGER && (in_range(info, number) || (info->word && number == 0));
}

l3a_status settings_check(l3a_context *context, const struct setting_table *table, const void *values) {
    for (size_t i = 0; i < table->count; i++) {
        const struct setting *setting = &table->settings[i];
        char text[64];
        if (!is_valid(values, setting)) {
            setting_get(values, setting, text, sizeof text);
            return fail_value(context, &setting->info, text);
        }
    }
    return L3A_OK;
}

l3a_status fail_unknown_setting(l3a_context *context, const struct setting_table *const *tables, size_t count, const char *who,
                                const char *name) {
    const char *names[128];
    size_t known = 0;
    char hint[128];
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < tables[i]->count && known < sizeof names / sizeof names[0]; j++) {
            names[known++] = tables[i]->settings[j].info.name;
        }
    }
    suggest_closest(hint, sizeof hint, name, names, known, "");
    return fail(context, L3A_ERROR_OPTION, hint, "%s no setting '%s'", who, name);
}
