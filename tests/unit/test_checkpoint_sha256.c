/* SHA-256 against the examples of FIPS 180-4 and NIST's vectors, with and without the processor's instructions for it. */
#include "support.h"

#include "common/sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void digest_text(bool plain, const char *bytes, size_t count, size_t step, char text[65]) {
    struct sha256 sha256;
    uint8_t digest[SHA256_BYTES];
    (plain ? sha256_begin_plain : sha256_begin)(&sha256);
    for (size_t at = 0; at < count; at += step) {
        sha256_add(&sha256, bytes + at, count - at < step ? count - at : step);
    }
    sha256_end(&sha256, digest);
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    }
}

static void test_published_examples(void **state) {
    (void)state;
    static const struct {
        const char *message, *digest;
    } examples[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        for (int plain = 0; plain < 2; plain++) {
            char text[65];
            digest_text(plain, examples[i].message, strlen(examples[i].message), 1000, text);
            assert_string_equal(text, examples[i].digest);
        }
    }
}

static void test_a_million_letters_in_parts_of_any_size(void **state) {
    (void)state;
    enum { COUNT = 1000000 };
    static const size_t steps[] = {1, 3, 55, 63, 64, 65, 1000, COUNT};
    char *letters = malloc(COUNT);
    assert_non_null(letters);
    memset(letters, 'a', COUNT);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        for (int plain = 0; plain < 2; plain++) {
            char text[65];
            digest_text(plain, letters, COUNT, steps[i], text);
            assert_string_equal(text, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
        }
    }
    free(letters);
}

static void test_every_length_around_a_block_is_the_same_both_ways(void **state) {
    (void)state;
    char bytes[200], plain[65], fast[65];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (char)(7 * i + 3);
    }
    for (size_t count = 0; count <= sizeof bytes; count++) {
        digest_text(true, bytes, count, 17, plain);
        digest_text(false, bytes, count, 200, fast);
        assert_string_equal(plain, fast);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_examples),
        cmocka_unit_test(test_a_million_letters_in_parts_of_any_size),
        cmocka_unit_test(test_every_length_around_a_block_is_the_same_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
