/* SPDX-License-Identifier: BSD-2-Clause */
/* Build tool: a manual page (conf_doc FILE) with the table of options at the line @OPTIONS@. */
#include "xrdma/conf.h"

#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	FILE *in = argc == 2 ? fopen(argv[1], "re") : NULL;
	char *line = NULL;
	size_t size = 0;

	if (!in) {
		fprintf(stderr, "usage: conf_doc FILE\n");
		return 1;
	}
	while (getline(&line, &size, in) > 0) {
		if (strcmp(line, "@OPTIONS@\n") == 0)
			xr_conf_print(stdout, XR_CONF_SCDOC);
		else
			fputs(line, stdout);
	}
	free(line);
	fclose(in);
	return fflush(stdout) != 0;
}
