/* main.c: `scb`: hands over to the command line (src/cli). */
#include "cli/cli.h"

int main(int argc, char **argv)
{
	return cli_main(argc, argv);
}
