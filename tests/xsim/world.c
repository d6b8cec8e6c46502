/* SPDX-License-Identifier: BSD-2-Clause */
/* A run: set up, faults and traffic, quiet, the end. */
#include "../sim/runner.h"
#include "app.h"

#include <string.h>

enum {
	TURNS_AT_ONCE = 2000,
	SETTLE_S = 1,
	IDLE_S = 4,
	IDLE_TURNS = 8 * IDLE_S * N_HOSTS, /* keepalives, and what they bring */
	MOCKED_TURNS = 16 * IDLE_S,
};

static void look_at_ends(void)
{
	for (uint32_t i = 0; i < world.n_ends; i++) {
		struct end *e = world.ends[i];

		if (!e->ch || e->ch->state == e->seen)
			continue;
		e->seen = e->ch->state;
		e->our_token = e->ch->rec.our_token;
		e->their_token = e->ch->rec.their_token;
		script_state_changed(e);
	}
}

static void turn(struct app *app)
{
	app_enter(app);
	world.turns++;
	app->again = false;
	if (sim_once_in(3)) {
		for (unsigned i = 1 + sim_below(40); i && !sim.failed; i--)
			(void)xrdma_poll(app->ctx);
		app->again = true;
	} else {
		(void)xrdma_process_event(app->ctx);
	}
	look_at_ends();
	sim_expect(tcp_unanswered(&app->proc) <= world.max_dials, "host %u dials %u at once",
		   app->proc.host, tcp_unanswered(&app->proc));
}

static bool wants(const struct app *app)
{
	return app && app->busy_until <= sim.now && (app->again || epoll_has(app->fd));
}

/* One that has something to do. */
static struct app *choose(void)
{
	unsigned from = sim_below(N_HOSTS);

	for (unsigned i = 0; i < N_HOSTS; i++) {
		struct app *app = world.apps[(from + i) % N_HOSTS];

		if (wants(app))
			return app;
	}
	return NULL;
}

static uint64_t next_due(void)
{
	uint64_t due = sim_next();

	for (unsigned i = 0; i < N_HOSTS; i++) {
		const struct app *app = world.apps[i];
		uint64_t at;

		if (!app)
			continue;
		at = epoll_due(app->fd);
		if (app->busy_until > sim.now && (at < app->busy_until || epoll_has(app->fd)))
			at = app->busy_until;
		if (at < due)
			due = at;
	}
	return due;
}

/* Until the condition holds, or it is `until`. */
static bool go(bool (*condition)(void), uint64_t until)
{
	unsigned at_once = 0;

	while (!sim.failed && !(condition && condition())) {
		struct app *app = choose();
		uint64_t due;

		if (app && ++at_once < TURNS_AT_ONCE) {
			turn(app);
			continue;
		}
		if (app) {
			sim_fail("host %u has always something to do", app->proc.host);
			break;
		}
		due = next_due();
		if (due > until) {
			sim.now = until;
			return false;
		}
		at_once = due > sim.now ? 0 : at_once + 1;
		if (due > sim.now)
			sim.now = due;
		sim_fire_due();
	}
	return !sim.failed;
}

static bool all_done(void)
{
	for (uint32_t i = 0; i < world.n_ends; i++) {
		if (!traffic_done(world.ends[i]))
			return false;
	}
	for (unsigned i = 1; i <= world.n_clients; i++) {
		bool connected = false;

		for (uint32_t k = 0; k < world.n_ends; k++)
			connected |= world.ends[k]->app == world.apps[i] && world.ends[k]->ch;
		if (!connected)
			return false;
	}
	return true;
}

/* Also those that no application has heard of. */
static bool all_closed(void)
{
	for (unsigned i = 0; i < N_HOSTS; i++) {
		if (world.apps[i] && world.apps[i]->ctx->n_channels)
			return false;
	}
	return true;
}

static void close_all(void)
{
	unsigned who = sim_below(3); /* dialed, or accepted, or both */

	world.over = true;
	for (uint32_t i = 0; i < world.n_ends; i++) {
		struct end *e = world.ends[i];

		if (!e->ch || e->app->proc.dead || (who != 2 && e->dialed != (who == 0)))
			continue;
		app_close_end(e);
	}
}

static void complain(const char *what)
{
	for (uint32_t i = 0; i < world.n_ends; i++) {
		const struct end *e = world.ends[i];

		if (e->ch && !e->app->proc.dead)
			sim_note("end %u on host %u is %s", e->serial, e->app->proc.host,
				 xr_channel_state_name(e->ch->state));
	}
	sim_fail("%s", what);
}

/* Who goes by TCP asks now and then whether RDMA works again: each such question takes turns. */
static uint64_t turns_allowed(void)
{
	uint64_t n = IDLE_TURNS * world.n_lines;

	for (uint32_t i = 0; i < world.n_ends; i++) {
		const struct end *e = world.ends[i];

		n += e->mocked && !e->closed ? MOCKED_TURNS : 0;
	}
	return n;
}

/* With nothing to do there is little to do. */
static void expect_idle(void)
{
	uint64_t before, allowed;

	(void)go(NULL, sim.now + SETTLE_S * SEC);
	before = world.turns;
	allowed = turns_allowed();
	(void)go(NULL, sim.now + IDLE_S * SEC);
	sim_expect(world.turns - before <= allowed, "%llu turns in %d s with nothing to do",
		   (unsigned long long)(world.turns - before), IDLE_S);
}

static void set_up(uint64_t seed)
{
	static const uint32_t windows[] = {1, 2, 4, 8, 16};

	world = (struct world){
		.harsh = sim_once_in(2),
		.reuse = sim_once_in(2),
		.shared = sim_once_in(4),
		.n_clients = 1 + sim_once_in(3),
		.window = windows[sim_below(5)],
		.recovery_ms = 20000,
		.n_ops = 10 + sim_below(60),
		.seed = (uint32_t)seed,
		.revokes = seed % 3 == 0,
		.mock = seed % 5 == 1,        /* none of seeds.txt that is older than the mock */
		.refuses = seed % 7 % 6 == 0, /* nor any of those */
		.n_lines = seed % 16 == 3 ? 4 : 1, /* nor of those */
		.max_dials = 1 + seed / 16 % 2,
	};
	world.calm = world.refuses && seed % 2;
	if (world.harsh)
		world.recovery_ms = 1000 + sim_below(4000);
	sim_note("%s, %u clients, %u channels each, window %u, keys %s, receives %s%s",
		 world.harsh ? "harsh" : "gentle", world.n_clients, world.n_lines, world.window,
		 world.reuse ? "reused" : "fresh", world.shared ? "shared" : "own",
		 world.mock ? ", or TCP" : "");
	nic_begin(world.reuse, seed / 4 % 2);
	script_start();
	for (unsigned i = 0; i <= world.n_clients; i++)
		app_start(i);
}

bool world_run(uint64_t seed, bool trace, uint64_t *ret_hash)
{
	sim_begin(seed, trace);
	set_up(seed);
	(void)go(NULL, sim.now + (sim_once_in(4) ? 8 : 2) * SEC);
	script_end();
	/* Whatever happened: those that still wait for a dead peer may wait until recovery_ms. */
	if (!sim.failed && !go(all_done, sim.now + world.recovery_ms * (uint64_t)MSEC + 20 * SEC))
		complain("it does not come to rest");
	expect_idle();
	close_all();
	if (!sim.failed && !go(all_closed, sim.now + world.recovery_ms * (uint64_t)MSEC + 10 * SEC))
		complain("channels do not close");
	(void)go(NULL, sim.now + SEC);
	if (!sim.failed)
		oracle_end_of_run();
	for (unsigned i = 0; i < N_HOSTS; i++) {
		if (world.apps[i])
			app_close(world.apps[i]);
	}
	if (!sim.failed)
		oracle_nothing_left();
	nic_end();
	*ret_hash = sim.hash;
	sim_end();
	return !sim.failed;
}
