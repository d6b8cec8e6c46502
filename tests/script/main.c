/* SPDX-License-Identifier: BSD-2-Clause */
#include "script.h"

#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	void (*run)(struct stage *s);
} commands[] = {
	{"cq", cmd_cq},
	{"srq", cmd_srq},
	{"srq_limit", cmd_srq_limit},
	{"qp", cmd_qp},
	{"use", cmd_use},
	{"mr", cmd_mr},
	{"dereg", cmd_dereg},
	{"vanish", cmd_vanish},
	{"fill", cmd_fill},
	{"modify", cmd_modify},
	{"destroy", cmd_destroy},
	{"hold", cmd_hold},
	{"release", cmd_release},
	{"post", cmd_post},
	{"recv", cmd_recv},
	{"srq_recv", cmd_srq_recv},
	{"<", cmd_inject},
	{">", cmd_sent},
	{">*", cmd_sent_after_acks},
	{"wc", cmd_wc},
	{"rwc", cmd_rwc},
	{"arm", cmd_arm},
	{"notify", cmd_notify},
	{"async", cmd_async},
	{"state", cmd_state},
	{"mem", cmd_mem},
	{"counter", cmd_counter},
	{"mw", cmd_mw},
	{"mw_free", cmd_mw_free},
	{"xrc_srq", cmd_xrc_srq},
	{"srq_free", cmd_srq_free},
};

static void run_line(struct stage *s)
{
	const char *word = next_token(s);

	if (word[0] == '+') {
		cmd_elapse(s, word + 1);
	} else {
		size_t i = 0;

		while (i < sizeof(commands) / sizeof(commands[0]) && strcmp(commands[i].name, word))
			i++;
		if (i == sizeof(commands) / sizeof(commands[0]))
			fail(s, "script error: no command %s", word);
		commands[i].run(s);
	}
	if (more(s))
		fail(s, "script error: what is %s?", s->line.token[s->line.at]);
}

/* A script has to account for all that the engine did. */
static void run_epilogue(struct stage *s)
{
	static const char *const lines[] = {">* none", "wc none", "rwc none", "async none"};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		snprintf(s->line.text, sizeof(s->line.text), "%s", lines[i]);
		line_split(&s->line);
		if (s->scq)
			run_line(s);
	}
}

static bool run_script(struct stage *s, FILE *f)
{
	if (setjmp(s->on_failure))
		return false;
	stage_init(s);
	while (fgets(s->line.text, sizeof(s->line.text), f)) {
		s->line.number++;
		s->line.text[strcspn(s->line.text, "\n")] = '\0';
		if (line_split(&s->line))
			run_line(s);
	}
	run_epilogue(s);
	return true;
}

static bool run_file(const char *path)
{
	FILE *f = fopen(path, "r");
	struct stage *s;
	bool ok;

	if (!f) {
		perror(path);
		return false;
	}
	s = calloc(1, sizeof(*s));
	s->line.file = path;
	ok = run_script(s, f);
	stage_fini(s);
	free(s);
	fclose(f);
	return ok;
}

int main(int argc, char **argv)
{
	unsigned failed = 0;

	for (int i = 1; i < argc; i++)
		failed += !run_file(argv[i]);
	printf("%d passed, %u failed\n", argc - 1 - (int)failed, failed);
	return argc < 2 || failed != 0;
}
