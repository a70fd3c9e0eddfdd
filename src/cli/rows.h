/* Rows of values for people and for programs: aligned text, CSV, or JSON. A command has its columns in a table, gives the values of
 * each row once, and a printer writes them in the form that was asked for. What only JSON can say, such as a list within a row, is
 * written with the put_…() functions in between. */
#ifndef L3A_ROWS_H
#define L3A_ROWS_H

#include "cli.h"

enum form { FORM_TABLE, FORM_JSON, FORM_CSV };
/* Of a value of --format. */
enum form form_of(const char *format);

struct printer {
    FILE *to;
    enum form form;
    bool visible; /* CSV is escaped, as on a terminal; otherwise it keeps every byte */
    bool begun;   /* something was written in this row or, as JSON, between the innermost brackets */
    bool broken;  /* what comes next begins a line, with that many blanks */
    int blanks;
};

/* A printer that writes to the standard output. */
struct printer printer_of(const char *format);

struct column {
    const char *name;    /* in CSV and JSON; NULL: only people see the column */
    const char *heading; /* in a table; NULL: only programs see it */
    int width;           /* in a table; negative: aligned left */
    int gap;             /* blanks before it */
    int decimals, exact; /* of numbers: in a table, and in CSV and JSON */
    const char *unit;    /* after a number in a table; may be NULL */
};

/* Makes a column at least as wide as a text. */
void column_widen(struct column *column, const char *text);

enum value_kind { VALUE_NONE, VALUE_TEXT, VALUE_WORD, VALUE_COUNT, VALUE_NUMBER, VALUE_FLAG };

struct value {
    enum value_kind kind;
    union {
        const char *text; /* a word is the program's own: CSV does not need to protect anyone from it */
        uint64_t count;
        double number; /* NaN: unknown, which is "-" in a table, null in JSON, and nothing in CSV */
        bool flag;     /* true or false in JSON, 1 or 0 elsewhere */
    } as;
};

/* Nothing: "-" in a table, no member in JSON, and an empty field in CSV. */
struct value no_value(void);
struct value text_value(const char *text);
struct value word_value(const char *word);
struct value count_value(uint64_t count);
struct value number_value(double number);
struct value flag_value(bool flag);

/* The line of headings; nothing as JSON. */
void print_headings(struct printer *printer, const struct column *columns, size_t count);
/* A line or, as JSON, members of the object that was opened last. */
void print_values(struct printer *printer, const struct column *columns, const struct value *values, size_t count);

/* Members of an object, or items of a list if the name is NULL. */
void put_open(struct printer *printer, const char *name, char bracket);
void put_close(struct printer *printer, char bracket);
void put_text(struct printer *printer, const char *name, const char *text);
void put_count(struct printer *printer, const char *name, uint64_t count);
void put_number(struct printer *printer, const char *name, double number, int decimals);
void put_boolean(struct printer *printer, const char *name, bool value);
void put_null(struct printer *printer, const char *name);
/* What is JSON already. */
void put_json(struct printer *printer, const char *name, const char *json);
/* A mean and its standard deviation, as an object; null if they are unknown. */
void put_spread(struct printer *printer, const char *name, const double value[2]);
/* The chosen tags of a picture, as a list of objects in which `key` names the tag. */
void put_tags(struct printer *printer, const struct tag_choice *choice, const l3a_tags *tags, const char *key);
/* What comes next, or the closing bracket, begins a line with so many blanks. */
void put_break(struct printer *printer, int blanks);

#endif
