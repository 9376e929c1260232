/* build.h: which build this is, for whoever speaks with it. In an object of its own: the tests link
 * the program once more as another build. */
#pragma once

struct build {
	const char *version;
	/* The front protocol, that is what messages and their order mean: the lowest and the
	 * highest that it speaks. */
	unsigned front_min, front_max;
};

extern const struct build build;
