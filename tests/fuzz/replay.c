/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs a fuzz target over the files and directories given, for compilers without libFuzzer. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static int replay_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	struct stat st;
	uint8_t *data;
	size_t len;

	if (!f || fstat(fileno(f), &st)) {
		perror(path);
		return 1;
	}
	data = malloc((size_t)st.st_size + 1);
	len = data ? fread(data, 1, (size_t)st.st_size, f) : 0;
	fclose(f);
	/* Exactly as long as the input: so a sanitizer sees what is read beyond it. */
	data = realloc(data, len ? len : 1);
	if (!data)
		return 1;
	fprintf(stderr, "%s\n", path);
	LLVMFuzzerTestOneInput(data, len);
	free(data);
	return 0;
}

/* Returns the number of failures. */
static int replay(const char *path)
{
	struct dirent **names;
	int n = scandir(path, &names, NULL, alphasort), failed = 0;

	if (n < 0)
		return replay_file(path);
	for (int i = 0; i < n; i++) {
		char child[4096];

		snprintf(child, sizeof(child), "%s/%s", path, names[i]->d_name);
		if (names[i]->d_name[0] != '.')
			failed += replay_file(child);
		free(names[i]);
	}
	free(names);
	return failed;
}

int main(int argc, char **argv)
{
	int failed = argc < 2;

	for (int i = 1; i < argc; i++)
		failed += replay(argv[i]);
	return failed != 0;
}
