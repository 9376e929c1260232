/* glob.h: patterns of file names.
 *
 * As fnmatch(3) has them (POSIX.1-2017, XCU 2.13), the same in broker and agent: "*", "?", sets
 * "[a-z]", "[!a-z]" or
 * "[^a-z]" with the classes of ASCII ("[[:digit:]]"), and "\" before what stands for itself. A
 * character is one of UTF-8, or a byte that belongs to none. No collating symbols or equivalence
 * classes ("[.a.]", "[=a=]"). musl's fnmatch would bring tables of all the world's letters into the
 * agent. Time is at most the product of both lengths. */
#pragma once

#include <stdbool.h>

/* path: no "*", "?" or set stands for a "/". */
bool glob_match(const char *pattern, const char *text, bool path);
