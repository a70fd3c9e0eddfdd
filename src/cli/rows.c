#include "rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum form form_of(const char *format) {
    return strcmp(format, "json") == 0 ? FORM_JSON : strcmp(format, "csv") == 0 ? FORM_CSV : FORM_TABLE;
}

struct printer printer_of(const char *format) {
    return (struct printer){.to = stdout, .form = form_of(format), .visible = isatty(STDOUT_FILENO)};
}

void column_widen(struct column *column, const char *text) {
    const int width = display_width(text);
    if (width > abs(column->width)) {
        column->width = column->width < 0 ? -width : width;
    }
}

struct value no_value(void) {
    return (struct value){.kind = VALUE_NONE};
}

struct value text_value(const char *text) {
    return (struct value){VALUE_TEXT, {.text = text}};
}

struct value word_value(const char *word) {
    return (struct value){VALUE_WORD, {.text = word}};
}

struct value count_value(uint64_t count) {
    return (struct value){VALUE_COUNT, {.count = count}};
}

struct value number_value(double number) {
    return (struct value){VALUE_NUMBER, {.number = number}};
}

struct value flag_value(bool flag) {
    return (struct value){VALUE_FLAG, {.flag = flag}};
}

/* ---- JSON ---- */

static void break_line(struct printer *printer) {
    if (printer->broken) {
        fprintf(printer->to, "\n%*s", printer->blanks, "");
    }
}

/* Before a member or an item. */
static void introduce(struct printer *printer, const char *name) {
    fputs(!printer->begun ? "" : printer->broken ? "," : ", ", printer->to);
    break_line(printer);
    printer->begun = true;
    printer->broken = false;
    if (name) {
        write_json_string(printer->to, name);
        fputs(": ", printer->to);
    }
}

void put_open(struct printer *printer, const char *name, char bracket) {
    introduce(printer, name);
    fputc(bracket, printer->to);
    printer->begun = false;
}

void put_close(struct printer *printer, char bracket) {
    break_line(printer);
    fputc(bracket, printer->to);
    printer->begun = true;
    printer->broken = false;
}

void put_text(struct printer *printer, const char *name, const char *text) {
    introduce(printer, name);
    write_json_string(printer->to, text);
}

void put_count(struct printer *printer, const char *name, uint64_t count) {
    introduce(printer, name);
    fprintf(printer->to, "%" PRIu64, count);
}

void put_json(struct printer *printer, const char *name, const char *json) {
    introduce(printer, name);
    fputs(json, printer->to);
}

void put_null(struct printer *printer, const char *name) {
    put_json(printer, name, "null");
}

void put_number(struct printer *printer, const char *name, double number, int decimals) {
    if (isnan(number)) {
        put_null(printer, name);
    } else {
        introduce(printer, name);
        fprintf(printer->to, "%.*f", decimals, number);
    }
}

void put_boolean(struct printer *printer, const char *name, bool value) {
    put_json(printer, name, value ? "true" : "false");
}

void put_spread(struct printer *printer, const char *name, const double value[2]) {
    if (isnan(value[0])) {
        put_null(printer, name);
    } else {
        put_open(printer, name, '{');
        put_number(printer, "mean", value[0], 6);
        put_number(printer, "deviation", value[1], 6);
        put_close(printer, '}');
    }
}

void put_break(struct printer *printer, int blanks) {
    printer->broken = true;
    printer->blanks = blanks;
}

static void print_member(struct printer *printer, const struct column *column, struct value value) {
    switch (value.kind) {
    case VALUE_NONE: break;
    case VALUE_TEXT:
    case VALUE_WORD: put_text(printer, column->name, value.as.text); break;
    case VALUE_COUNT: put_count(printer, column->name, value.as.count); break;
    case VALUE_NUMBER: put_number(printer, column->name, value.as.number, column->exact); break;
    case VALUE_FLAG: put_boolean(printer, column->name, value.as.flag); break;
    }
}

/* ---- CSV ---- */

static void print_field(struct printer *printer, const struct column *column, struct value value) {
    fputs(printer->begun ? "," : "", printer->to);
    printer->begun = true;
    switch (value.kind) {
    case VALUE_NONE: break;
    case VALUE_TEXT: write_csv_field(printer->to, value.as.text, printer->visible); break;
    case VALUE_WORD: fprintf(printer->to, "%s", value.as.text); break;
    case VALUE_COUNT: fprintf(printer->to, "%" PRIu64, value.as.count); break;
    case VALUE_NUMBER:
        if (!isnan(value.as.number)) {
            fprintf(printer->to, "%.*f", column->exact, value.as.number);
        }
        break;
    case VALUE_FLAG: fputs(value.as.flag ? "1" : "0", printer->to); break;
    }
}

/* ---- Tables ---- */

/* The value as a table shows it; numbers are written to `text`. */
static const char *cell_text(const struct column *column, struct value value, char *text, size_t capacity) {
    switch (value.kind) {
    case VALUE_NONE: return "-";
    case VALUE_TEXT:
    case VALUE_WORD: return value.as.text;
    case VALUE_COUNT: snprintf(text, capacity, "%" PRIu64, value.as.count); break;
    case VALUE_NUMBER:
        if (isnan(value.as.number)) {
            return "-";
        }
        snprintf(text, capacity, "%.*f%s", column->decimals, value.as.number, column->unit ? column->unit : "");
        break;
    case VALUE_FLAG: return value.as.flag ? "1" : "0";
    }
    return text;
}

static void print_cell(struct printer *printer, const struct column *column, struct value value) {
    char text[64];
    fprintf(printer->to, "%*s%*s", printer->begun ? column->gap : 0, "", column->width,
            cell_text(column, value, text, sizeof text));
    printer->begun = true;
}

/* ---- Rows ---- */

static void print_value(struct printer *printer, const struct column *column, struct value value) {
    if (printer->form == FORM_TABLE && column->heading) {
        print_cell(printer, column, value);
    } else if (printer->form == FORM_CSV && column->name) {
        print_field(printer, column, value);
    } else if (printer->form == FORM_JSON && column->name) {
        print_member(printer, column, value);
    }
}

static void end_row(struct printer *printer) {
    if (printer->form != FORM_JSON) {
        fputs("\n", printer->to);
        printer->begun = false;
    }
}

void print_headings(struct printer *printer, const struct column *columns, size_t count) {
    if (printer->form == FORM_JSON) {
        return;
    }
    fprintf(printer->to, "%s", printer->form == FORM_TABLE ? style(printer->to, STYLE_BOLD) : "");
    for (size_t i = 0; i < count; i++) {
        print_value(printer, &columns[i], word_value(printer->form == FORM_TABLE ? columns[i].heading : columns[i].name));
    }
    fprintf(printer->to, "%s", printer->form == FORM_TABLE ? style(printer->to, STYLE_PLAIN) : "");
    end_row(printer);
}

void print_values(struct printer *printer, const struct column *columns, const struct value *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        print_value(printer, &columns[i], values[i]);
    }
    end_row(printer);
}
