/* Draws pictures to train the small backbone on: scenes like those of drawn data sets, but of other things, none of which is a
 * class there.
 *
 * 72 things were drawn by hand; the other 184 are made up from a seed, each of two to five shapes, often mirrored.
 *     draw_training OUT FIRST COUNT SEED
 * writes scenes FIRST … FIRST + COUNT - 1 of the seed's stream to OUT.pictures, 160 x 160 x 3 bytes each, and to OUT.labels, one
 * byte for each of the 256 things. Without arguments it prints their names. cc -O2 -ffp-contract=off -Isrc tools/draw_training.c
 * src/draw/{raster,recipe,scene,things}.c -lm -o draw_training */
#include "draw/scene.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALL = 256, TEXT = 1024 };

static const char *const by_hand[][2] = {
    {"arrow", "a L 18 -80 0 50 0 P 40 -44 94 0 40 44"},
    {"axe", "b L 15 -50 84 20 -70 a B 0 -88 60 -70 84 -10 30 -30 -14 -44"},
    {"balloon", "k C 4 0 44 10 66 -8 80 4 98 a B 0 -94 54 -66 58 -8 0 44 -58 -8 -54 -66 b P -10 52 10 52 0 38"},
    {"banana", "a B -84 -50 -50 20 10 50 80 40 60 70 -10 86 -76 40 -98 -40 k L 10 -90 -48 -86 -62"},
    {"basket", "b O 10 0 -10 60 70 180 360 a P -80 -10 80 -10 58 80 -58 80 c L 7 -70 20 70 20 L 7 -64 50 64 50"},
    {"bed", "b L 14 -88 -40 -88 60 L 14 88 0 88 60 a P -84 10 84 10 84 40 -84 40 w P -78 -16 -30 -16 -30 10 -78 10"},
    {"bee", "w E -14 -44 24 34 E 22 -44 22 32 a E 0 14 70 42 k L 13 -20 -20 -20 48 L 13 14 -24 14 50 E -72 8 20 22"},
    {"bell", "a B 0 -84 36 -66 48 0 80 50 0 60 -80 50 -48 0 -36 -66 b E 0 72 18 16 O 8 0 -88 10 10 0 360"},
    {"bird",
     "a B -70 -20 -30 -50 20 -20 90 20 20 50 -40 40 b B -10 -8 30 -60 60 -50 36 10 c P -68 -24 -98 -12 -66 -6 k E -50 -24 7 7"},
    {"book", "a P -86 -56 0 -40 0 66 -86 50 b P 86 -56 0 -40 0 66 86 50 k L 6 0 -40 0 66 w L 5 -70 -26 -16 -16 L 5 -70 0 -16 10 "
             "L 5 70 -26 16 -16 L 5 70 0 16 10"},
    {"bottle", "a P -16 -94 16 -94 16 -44 40 -10 40 92 -40 92 -40 -10 -16 -44 w P -38 14 38 14 38 56 -38 56 b P -18 -96 18 -96 18 "
               "-78 -18 -78"},
    {"bow", "a P 0 0 -86 -48 -86 48 P 0 0 86 -48 86 48 b E 0 0 20 20 C 12 -6 10 -20 60 -40 90 C 12 6 10 20 60 40 90"},
    {"bulb",
     "a B 0 -92 52 -70 60 -16 24 40 -24 40 -60 -16 -52 -70 b P -24 44 24 44 20 84 -20 84 k C 5 -16 30 -24 -20 0 0 24 -20 16 30"},
    {"bus",
     "a P -94 -50 86 -50 94 0 94 46 -94 46 w P -84 -38 -46 -38 -46 -4 -84 -4 P -38 -38 0 -38 0 -4 -38 -4 P 8 -38 46 -38 46 -4 8 -4 "
     "k E -52 48 20 20 E 52 48 20 20"},
    {"cake",
     "a P -70 0 70 0 70 70 -70 70 w B -76 -8 76 -8 74 18 40 10 10 24 -20 10 -50 22 -76 14 b L 9 0 -10 0 -56 c E 0 -72 9 16"},
    {"candle", "a P -24 -20 24 -20 24 90 -24 90 k L 5 0 -20 0 -40 b B 0 -94 22 -56 0 -32 -22 -56"},
    {"car", "a P -94 10 -60 4 -36 -40 34 -40 62 4 94 12 94 46 -94 46 w P -46 4 -28 -28 -4 -28 -4 4 P 6 4 6 -28 30 -28 48 4 k E -50 "
            "48 22 22 "
            "E 50 48 22 22 w E -50 48 9 9 E 50 48 9 9"},
    {"carrot", "a P -36 -30 36 -30 0 96 b L 12 0 -34 -30 -90 L 12 0 -34 0 -96 L 12 0 -34 30 -90 k L 5 -26 0 4 0 L 5 20 26 -4 26"},
    {"castle", "a P -84 -30 -84 -70 -62 -70 -62 -52 -40 -52 -40 -70 -16 -70 -16 -52 16 -52 16 -70 40 -70 40 -52 62 -52 62 -70 84 "
               "-70 84 80 -84 80 "
               "k B -20 80 -20 30 0 14 20 30 20 80"},
    {"chair", "a L 14 -44 -90 -44 90 L 14 -44 10 50 10 L 14 50 10 50 90 b P -40 -84 -26 -84 -26 0 -40 0 L 10 -44 -60 -10 -60"},
    {"cherry",
     "k C 6 -40 40 -10 -40 30 -84 C 6 44 50 40 -20 30 -84 a E -42 54 32 32 E 46 62 30 30 b B 30 -84 60 -98 92 -70 60 -66"},
    {"cloud", "a B -84 30 -80 -16 -40 -30 -10 -64 40 -50 54 -14 90 0 84 40 0 44"},
    {"comb",
     "a P -90 -40 90 -40 90 -10 -90 -10 L 9 -80 -10 -80 50 L 9 -53 -10 -53 50 L 9 -26 -10 -26 50 L 9 0 -10 0 50 L 9 26 -10 26 50 "
     "L 9 53 -10 53 50 L 9 80 -10 80 50"},
    {"cone", "b P -46 -4 46 -4 0 96 a E 0 -30 50 44 c E -10 -70 26 24 k L 4 -30 6 20 50 L 4 30 6 -20 50"},
    {"crab",
     "a E 0 20 60 40 C 10 -50 0 -86 -20 -70 -60 C 10 50 0 86 -20 70 -60 O 14 -64 -70 18 18 90 350 O 14 64 -70 18 18 190 450 "
     "L 8 -50 50 -84 74 L 8 50 50 84 74 L 8 -30 56 -50 90 L 8 30 56 50 90 w E -20 -10 12 12 E 20 -10 12 12 k E -20 -10 5 5 E 20 "
     "-10 5 5"},
    {"cross", "a P -24 -90 24 -90 24 -24 90 -24 90 24 24 24 24 90 -24 90 -24 24 -90 24 -90 -24 -24 -24"},
    {"crown", "a P -84 60 -92 -50 -44 0 0 -76 44 0 92 -50 84 60 b E -92 -56 10 10 E 0 -82 10 10 E 92 -56 10 10 c E 0 30 14 14"},
    {"diamond", "a P -86 -24 -48 -66 48 -66 86 -24 0 84 b P -30 -24 30 -24 0 84 w L 4 -86 -24 86 -24"},
    {"dice", "a P -72 -72 72 -72 72 72 -72 72 w E -40 -40 15 15 E 40 40 15 15 E 0 0 15 15 E 40 -40 15 15 E -40 40 15 15"},
    {"door", "a P -50 -94 50 -94 50 94 -50 94 b P -34 -76 34 -76 34 -10 -34 -10 P -34 10 34 10 34 80 -34 80 k E 38 2 8 8"},
    {"drum", "b P -76 -30 76 -30 76 60 -76 60 E 0 60 76 24 w E 0 -30 76 24 k L 5 -70 -16 -36 70 L 5 -36 70 0 -4 L 5 0 -4 36 70 L 5 "
             "36 70 70 -16"},
    {"duck", "a B -94 10 -30 30 0 -10 4 -60 46 -70 60 -30 70 30 40 72 -40 72 -80 50 b P 58 -54 98 -44 58 -34 k E 34 -50 7 7"},
    {"egg", "w B -80 0 -60 -56 0 -80 66 -56 84 10 40 70 -30 60 -70 44 a E 4 0 32 30"},
    {"envelope", "a P -90 -58 90 -58 90 58 -90 58 k L 6 -88 -56 0 14 88 -56 b E 0 20 14 14"},
    {"eye", "w B -96 0 -50 -44 0 -56 50 -44 96 0 50 44 0 56 -50 44 a E 0 0 40 40 k E 0 0 18 18 w E 10 -12 8 8"},
    {"fan", "a E 0 -52 24 40 E 46 28 40 24 E -46 28 40 24 b E 0 0 16 16 k L 10 0 16 0 96"},
    {"feather", "a B -70 80 -40 0 20 -70 80 -94 70 -30 20 30 -50 70 k C 5 -90 98 -20 20 70 -84"},
    {"fence",
     "b L 13 -94 -10 94 -10 L 13 -94 40 94 40 a P -84 -50 -66 -74 -48 -50 -48 84 -84 84 P -18 -50 0 -74 18 -50 18 84 -18 84 "
     "P 48 -50 66 -74 84 -50 84 84 48 84"},
    {"flag", "k L 9 -70 -94 -70 96 a B -66 -86 -10 -70 40 -90 92 -76 88 0 40 -16 -10 6 -66 -8"},
    {"fork", "a L 14 0 20 0 94 L 9 -30 -90 -30 -20 L 9 0 -90 0 0 L 9 30 -90 30 -20 C 12 -30 -24 -20 14 0 20 20 14 30 -24"},
    {"ghost", "a B 0 -90 54 -66 66 0 66 80 34 60 0 84 -34 60 -66 80 -66 0 -54 -66 k E -22 -26 11 15 E 22 -26 11 15 E 0 14 10 12"},
    {"glasses", "a O 12 -46 10 36 34 0 360 O 12 46 10 36 34 0 360 C 10 -12 6 0 -4 12 6 L 9 -82 0 -96 -40 L 9 82 0 96 -40"},
    {"guitar",
     "b L 16 10 -10 70 -90 a E -20 20 46 40 E -40 54 50 40 k E -22 26 15 15 L 4 -44 62 76 -96 b P 60 -98 96 -80 84 -60 54 -84"},
    {"hammer", "b L 17 0 -40 0 94 a P -66 -80 50 -80 84 -56 50 -36 -66 -36"},
    {"hat", "a E 0 50 92 22 P -50 -60 50 -60 56 46 -56 46 b P -54 14 54 14 56 40 -56 40"},
    {"heart", "a B 0 -34 30 -76 80 -64 86 -10 44 46 0 88 -44 46 -86 -10 -80 -64 -30 -76"},
    {"hourglass",
     "w P -50 -78 50 -78 6 0 50 78 -50 78 -6 0 b P -38 -40 38 -40 0 0 P -50 78 50 78 0 40 a L 14 -60 -84 60 -84 L 14 -60 84 60 84"},
    {"igloo", "a B -90 60 -80 -10 -40 -60 0 -70 40 -60 80 -10 90 60 k B -24 60 -20 14 0 6 20 14 24 60 w L 4 -80 0 80 0 L 4 0 -68 0 "
              "0 L 4 -50 0 -50 56"},
    {"knife", "b P -94 -8 -20 -8 -20 22 -94 22 a B -16 -20 40 -24 96 10 40 24 -16 22"},
    {"ladder", "a L 11 -36 -94 -36 94 L 11 36 -94 36 94 L 9 -36 -64 36 -64 L 9 -36 -24 36 -24 L 9 -36 16 36 16 L 9 -36 56 36 56"},
    {"lamp", "a P -30 -80 30 -80 70 0 -70 0 k L 9 0 0 0 76 b P -44 70 44 70 50 90 -50 90"},
    {"leaf", "a B -80 80 -70 0 -20 -66 84 -90 70 0 20 60 k C 6 -94 96 -30 30 60 -70 L 4 -20 20 -20 -30 L 4 0 0 44 10"},
    {"lock", "b O 16 0 -24 36 46 180 360 a P -64 -24 64 -24 64 80 -64 80 k E 0 18 13 13 P -8 20 8 20 12 54 -12 54"},
    {"magnet",
     "a O 34 0 -10 56 56 180 360 L 34 -56 -10 -56 40 L 34 56 -10 56 40 w P -74 40 -38 40 -38 80 -74 80 P 38 40 74 40 74 80 38 80"},
    {"octopus",
     "a B 0 -88 56 -60 56 0 30 20 -30 20 -56 0 -56 -60 C 14 -40 10 -60 50 -90 60 C 14 -16 16 -20 60 -40 90 C 14 16 16 20 60 40 90 "
     "C 14 40 10 60 50 90 60 w E -20 -36 12 14 E 20 -36 12 14 k E -20 -34 6 6 E 20 -34 6 6"},
    {"pear", "a B 0 -64 26 -44 30 0 62 40 40 84 0 92 -40 84 -62 40 -30 0 -26 -44 k L 8 0 -64 8 -92 b B 8 -80 36 -98 60 -80 34 -70"},
    {"pencil", "a P -70 34 34 -70 70 -34 -34 70 w P -70 34 -34 70 -94 94 k P -84 70 -70 84 -94 94 b P 34 -70 52 -88 88 -52 70 -34"},
    {"pizza", "a P -70 -60 70 -60 0 94 b L 18 -74 -64 74 -64 c E -24 -26 14 14 E 24 -20 14 14 E 0 30 13 13"},
    {"plane", "a B -94 0 -60 -14 60 -14 96 0 60 14 -60 14 b P -10 -10 -50 -84 -20 -84 40 -10 P -10 10 -50 84 -20 84 40 10 P -70 -8 "
              "-92 -44 -74 -44 -50 -8"},
    {"ring", "a O 15 0 26 56 56 0 360 b P -30 -50 -16 -80 16 -80 30 -50 0 -24"},
    {"robot", "k L 7 0 -70 0 -92 a P -50 -72 50 -72 50 0 -50 0 b P -62 10 62 10 62 90 -62 90 w E -22 -40 13 13 E 22 -40 13 13 k L "
              "8 -24 -14 24 -14 "
              "c E 0 48 16 16"},
    {"rocket", "b P -28 20 -64 70 -24 60 P 28 20 64 70 24 60 c P -18 64 18 64 0 98 a B 0 -96 32 -40 30 30 22 64 -22 64 -30 30 -32 "
               "-40 w E 0 -24 14 14"},
    {"saw",
     "b B -96 -30 -56 -34 -50 20 -90 26 a P -54 -30 94 -10 94 14 78 2 66 18 52 4 40 20 26 6 14 22 0 8 -12 24 -26 10 -38 26 -54 16"},
    {"scissors", "a L 10 -30 20 44 -94 L 10 30 20 -44 -94 b O 12 -36 52 24 30 0 360 O 12 36 52 24 30 0 360"},
    {"shirt", "a P -34 -80 34 -80 92 -36 66 4 44 -14 44 84 -44 84 -44 -14 -66 4 -92 -36 b P -24 -80 24 -80 0 -46"},
    {"shoe",
     "a B -80 -50 -30 -54 -14 -10 50 10 90 40 70 52 -80 52 b P -88 46 92 46 92 64 -88 64 w L 6 -16 -20 -30 0 L 6 4 -8 -8 10"},
    {"sun", "a E 0 0 44 44 L 11 0 -62 0 -94 L 11 0 62 0 94 L 11 -62 0 -94 0 L 11 62 0 94 0 L 11 44 -44 68 -68 L 11 -44 44 -68 68 L "
            "11 44 44 68 68 "
            "L 11 -44 -44 -68 -68"},
    {"table", "a P -92 -40 92 -40 84 -14 -84 -14 b L 12 -70 -14 -70 80 L 12 70 -14 70 80"},
    {"target", "a E 0 0 90 90 w E 0 0 66 66 a E 0 0 44 44 w E 0 0 22 22 b L 7 0 0 70 -84"},
    {"tent", "a P 0 -80 94 76 -94 76 k P 0 -10 26 76 -26 76 b L 6 0 -80 0 -98"},
    {"trophy", "b O 11 -50 -44 26 28 90 270 O 11 50 -44 26 28 -90 90 a B -54 -86 54 -86 48 -20 12 16 12 50 -12 50 -12 16 -48 -20 c "
               "P -44 56 44 56 52 90 -52 90"},
    {"whale",
     "a B -92 30 -60 -40 10 -44 56 0 78 -30 60 -66 96 -50 90 10 40 64 -50 66 w B -84 44 -30 36 20 50 -20 66 -60 62 k E -50 -4 7 7 "
     "b C 7 -30 -50 -34 -80 -60 -86 C 7 -30 -50 -24 -80 0 -86"},
};

enum { BY_HAND = sizeof by_hand / sizeof *by_hand };

static char names[ALL][16], drawings[ALL][TEXT];
static struct recipe recipes[ALL];

static int number(struct stream *stream, int low, int high) {
    return low + (int)draw_below(stream, (size_t)(high - low + 1));
}

/* Appends one shape around (x, y); mirrored: also its mirror image. */
static void add_shape(struct stream *stream, char *text, int x, int y, int size, bool mirrored) {
    static const char letters[] = "PBELCO", colours[] = "aabck w";
    const struct stream before = *stream;
    for (int side = 1; side >= (mirrored ? -1 : 1); side -= 2) {
        char part[256];
        size_t length = 0;
        *stream = before;
        const char letter = letters[draw_below(stream, 6)], colour = colours[draw_below(stream, 7)];
        const int count = number(stream, 3, 6), width = number(stream, 8, 18), across = number(stream, size / 3, size),
                  down = number(stream, size / 3, size), from = number(stream, 0, 3) * 90, span = number(stream, 1, 4) * 90;
        length += (size_t)snprintf(part + length, sizeof part - length, " %c %c", colour, letter);
        if (letter == 'E') {
            snprintf(part + length, sizeof part - length, " %d %d %d %d", side * x, y, across, down);
        } else if (letter == 'O') {
            snprintf(part + length, sizeof part - length, " %d %d %d %d %d %d %d", width, side * x, y, across, down,
                     side > 0 ? from : 180 - from - span, side > 0 ? from + span : 180 - from);
        } else {
            length += letter == 'P' || letter == 'B' ? 0 : (size_t)snprintf(part + length, sizeof part - length, " %d", width);
            for (int i = 0; i < count; i++) {
                const double turns = (double)i / count + draw_between(stream, 0, 0.5 / count), reach = draw_between(stream, 0.4, 1);
                length += (size_t)snprintf(part + length, sizeof part - length, " %d %d",
                                           side * (x + (int)(size * reach * cosine(turns))), y + (int)(size * reach * sine(turns)));
            }
        }
        strncat(text, part, TEXT - strlen(text) - 1);
    }
}

static void make_up(struct stream *stream, char *text) {
    const int shapes = number(stream, 2, 5);
    const bool symmetric = draw_chance(stream, 0.6);
    const int height = number(stream, -20, 20), largest = number(stream, 50, 85);
    add_shape(stream, text, 0, height, largest, false);
    for (int i = 1; i < shapes; i++) {
        const int size = number(stream, 18, 50), x = number(stream, 0, 60), y = number(stream, -60, 60);
        add_shape(stream, text, x, y, size, symmetric && x > 12);
    }
}

static void prepare(void) {
    struct stream stream = {2025, 0};
    for (size_t i = 0; i < ALL; i++) {
        if (i < BY_HAND) {
            snprintf(names[i], sizeof names[i], "%s", by_hand[i][0]);
            snprintf(drawings[i], TEXT, "%s", by_hand[i][1]);
        } else {
            snprintf(names[i], sizeof names[i], "made up %zu", i - BY_HAND + 1);
            make_up(&stream, drawings[i]);
        }
        recipes[i] = (struct recipe){.name = names[i], .frequency = 1, .drawing = drawings[i]};
        for (size_t j = 0; j < 3; j++) {
            recipes[i].hues[j] = number(&stream, 0, 359);
        }
    }
}

static void write_scenes(FILE *pictures, FILE *labels, uint64_t first, uint64_t count, uint64_t seed) {
    static uint8_t pixels[SCENE_BYTES];
    for (uint64_t i = first; i < first + count; i++) {
        struct scene scene;
        uint8_t shown[ALL] = {0};
        scene_plan(recipes, ALL, ALL, random_bits(seed, i), &scene);
        scene_draw(recipes, &scene, pixels);
        for (size_t j = 0; j < scene.count; j++) {
            shown[scene.things[j].recipe] = 1;
        }
        fwrite(pixels, 1, sizeof pixels, pictures);
        fwrite(shown, 1, sizeof shown, labels);
    }
}

static FILE *create(const char *stem, const char *ending) {
    char path[512];
    snprintf(path, sizeof path, "%s.%s", stem, ending);
    FILE *file = fopen(path, "wb");
    if (!file) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    return file;
}

int main(int count, char **arguments) {
    prepare();
    if (count != 5) {
        for (size_t i = 0; i < ALL; i++) {
            printf("%s\n", names[i]);
        }
        return count == 1 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    FILE *pictures = create(arguments[1], "pictures"), *labels = create(arguments[1], "labels");
    write_scenes(pictures, labels, strtoull(arguments[2], NULL, 10), strtoull(arguments[3], NULL, 10),
                 strtoull(arguments[4], NULL, 10));
    return fclose(pictures) | fclose(labels) ? EXIT_FAILURE : EXIT_SUCCESS;
}
