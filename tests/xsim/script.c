/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults: at times of their own, and in ambush for a channel that enters a state. Gentle ones are
 * such that every channel must outlive them; harsh ones may end channels.
 */
#include "app.h"

#include <errno.h>
#include <string.h>

static struct {
	enum xr_ch_state ambush;
	unsigned ambushes;
	bool cuts; /* of TCP, and then no long silence with them */
	uint64_t longest_ns;
	unsigned drops; /* hosts that lose messages on purpose */
} script;

static unsigned client(void)
{
	return 1 + sim_below(world.n_clients);
}

static unsigned any_host(void)
{
	return sim_below(1 + world.n_clients);
}

/* ---- the way between two hosts ---- */

static void open_path(void *owner, uint64_t which)
{
	unsigned from = which & 15, to = which >> 4 & 15;
	struct path *p = &hosts[from].to[to];

	if (which & 0x100)
		p->nic_blocked = false;
	if (which & 0x200)
		p->tcp_blocked = false;
	hosts[from].down = false;
	p->loss_per_mille = 0;
	sim_note("path %u to %u opens (%llx)", from, to, (unsigned long long)which >> 8);
}

static uint64_t some_time(void)
{
	return sim_between(10 * USEC, sim_once_in(2) ? 20 * MSEC : script.longest_ns);
}

static void block(unsigned from, unsigned to, unsigned what, uint64_t time)
{
	struct path *p = &hosts[from].to[to];

	if (what & 1)
		p->nic_blocked = true;
	if (what & 2)
		p->tcp_blocked = true;
	sim_note("path %u to %u is blocked (%x) for %llu us", from, to, what,
		 (unsigned long long)time / USEC);
	sim_after(time, open_path, NULL, from | to << 4 | what << 8);
}

static void link_down(void)
{
	unsigned c = client();
	uint64_t time = some_time();

	hosts[c].down = sim_once_in(2);
	block(c, 0, 3, time);
	block(0, c, 3, time);
}

static void one_way_down(void)
{
	unsigned c = client(), what = 1 + sim_below(3);

	if (sim_once_in(2))
		block(c, 0, what, some_time());
	else
		block(0, c, what, some_time());
}

static void nic_or_tcp_down(void)
{
	unsigned c = client(), what = 1 + sim_below(2);
	uint64_t time = some_time();

	block(c, 0, what, time);
	block(0, c, what, time);
}

static void all_down(void)
{
	uint64_t time = some_time();

	for (unsigned c = 1; c <= world.n_clients; c++) {
		block(c, 0, 3, time);
		block(0, c, 3, time);
	}
}

static void loss(void)
{
	unsigned c = client(), per_mille = 1U << sim_below(9);

	hosts[c].to[0].loss_per_mille = hosts[0].to[c].loss_per_mille = per_mille;
	sim_note("%u of 1000 messages are lost", per_mille);
	sim_after(some_time(), open_path, NULL, c);
	sim_after(some_time(), open_path, NULL, c << 4);
}

static void cut(void)
{
	unsigned c = client();
	bool both = !sim_once_in(3);

	if (!script.cuts)
		return;
	world.brief &= both; /* who does not hear of it may learn too late */
	if (sim_once_in(2))
		tcp_cut(c, 0, both);
	else
		tcp_cut(0, c, both);
}

/* ---- processes ---- */

static struct app *some_app(void)
{
	return world.apps[any_host()];
}

static void stall(void)
{
	struct app *app = some_app();

	if (!app)
		return;
	app->busy_until = sim.now + some_time();
	sim_note("host %u is busy", app->proc.host);
}

static void break_one(void)
{
	const struct app *app = some_app();

	if (app)
		nic_break_one(&app->proc);
}

static void filter(const char *const rules[], unsigned n)
{
	struct app *app = some_app();
	const char *rule = rules[sim_below(n)];

	if (!app)
		return;
	if (strstr(rule, "drop"))
		script.drops |= 1U << app->proc.host;
	app_enter(app);
	sim_note("host %u: filter %s", app->proc.host, rule);
	if (xrdma_set(app->ctx, "filter", rule))
		sim_fail("filter: %s", xrdma_last_error());
}

static void gentle_filter(void)
{
	static const char *const rules[] = {
		"delay=700:in:p=0.3:n=9",
		"delay=300:out:p=0.3:n=9",
		"fail=RETRY_EXC:out:n=1",
		"fail=REM_ACCESS:in:n=1",
		"fail=WR_FLUSH:out:n=2",
		"fail=REM_OP:in:n=2",
		"fail=RETRY_EXC:type=ACK:n=1,delay=90:in:n=3",
	};

	world.fails = true;
	filter(rules, sizeof(rules) / sizeof(rules[0]));
}

static void lossy_filter(void)
{
	static const char *const rules[] = {
		"duplicate:out:n=1",     "duplicate:in:n=1",      "corrupt:in:n=1",
		"corrupt:out:n=1",       "drop:out:type=MSG:n=1", "drop:in:type=RSP:n=1",
		"drop:out:type=ACK:n=2",
	};

	world.lossy = sim.keys_refused = true; /* a key may be corrupted, too */
	filter(rules, sizeof(rules) / sizeof(rules[0]));
}

static void start_again(void *owner, uint64_t host)
{
	if (!world.apps[host])
		app_start((unsigned)host);
}

static void kill_one(void)
{
	unsigned host = any_host();

	app_kill(host, sim_once_in(4));
	sim_after(sim_between(0, sim_once_in(2) ? 5 * MSEC : SEC), start_again, NULL, host);
}

static void close_one(void)
{
	struct end *e = world.n_ends ? world.ends[sim_below(world.n_ends)] : NULL;

	if (!e || !e->ch)
		return;
	sim_note("end %u is closed by its owner", e->serial);
	app_close_end(e);
}

/* Keys that peers have are to die, and their numbers may become another's. */
static void new_region(void)
{
	struct app *app = world.apps[0];

	if (!app || !app->region)
		return;
	world.rights = true;
	app_enter(app);
	if (world.revokes) {
		sim.keys_refused = true;
		(void)xrdma_region_revoke(app->region, NULL);
	}
	if (xrdma_region_free(app->region))
		return; /* in use */
	sim_note("a region is freed, and registered again");
	app->region = NULL;
	app_new_region(app);
	if (!app->decoy)
		app_new_region(app);
	for (uint32_t i = 0; i < world.n_ends; i++) {
		if (world.ends[i]->app == app && world.ends[i]->ch && world.ends[i]->connected)
			(void)xrdma_region_export(app->region, world.ends[i]->ch, app->tag);
	}
}

/* A second time: no channel may suffer from that. */
static void decoy(void)
{
	struct app *app = world.apps[0];

	if (!app)
		return;
	if (app->decoy) {
		new_region();
		return;
	}
	app_enter(app);
	app_new_region(app);
}

/* Who has a channel by then has to bring one up again. */
static void refuse(void)
{
	static const int errors[] = {EADDRINUSE, ENODEV, EIO, EPROTO};
	unsigned host = any_host(), state = sim_below(4);
	/* Without TCP to take over a device's EPROTO ends a channel as the peer's does. */
	int error = errors[sim_below(world.mock ? 4 : 3)];
	uint64_t time = some_time();

	sim_note("host %u refuses state %u for %llu us: %d", host, state,
		 (unsigned long long)time / USEC, error);
	nic_refuse(host, state, error, sim.now + time);
	if (sim_once_in(2))
		break_one();
}

/* ---- */

static void strike(void *owner, uint64_t arg)
{
	static void (*const gentle[])(void) = {
		link_down, one_way_down, nic_or_tcp_down, all_down,      loss, cut,
		cut,       stall,        break_one,       gentle_filter, decoy};
	static void (*const harsh[])(void) = {kill_one, kill_one, close_one, lossy_filter,
					      new_region};

	if (world.quiet)
		return;
	if (world.refuses && (world.calm || sim_once_in(3)))
		refuse();
	else if (world.harsh && sim_once_in(3))
		harsh[sim_below(sizeof(harsh) / sizeof(harsh[0]))]();
	else
		gentle[sim_below(sizeof(gentle) / sizeof(gentle[0]))]();
}

void script_state_changed(struct end *e)
{
	sim_note("end %u: %s", e->serial, xr_channel_state_name(e->ch->state));
	if (script.ambushes == 0 || e->ch->state != script.ambush || sim_once_in(3))
		return;
	script.ambushes--;
	sim_after(sim_between(0, sim_once_in(2) ? 0 : 100 * USEC), strike, NULL, 0);
}

void script_start(void)
{
	unsigned n = 1 + sim_below(6);

	script.ambush = (enum xr_ch_state)sim_below(XR_CH_BREAKING + 2);
	script.ambushes = sim_below(4);
	script.drops = 0;
	script.cuts = world.harsh || sim_once_in(2);
	script.longest_ns = world.harsh   ? 2 * world.recovery_ms * (uint64_t)MSEC
			    : script.cuts ? 100 * MSEC
					  : 4 * SEC;
	world.brief = !world.harsh && script.cuts;
	while (n--)
		sim_after(USEC << sim_below(22), strike, NULL, 0);
	if (world.refuses)
		refuse(); /* of the first channels, too */
}

void script_end(void)
{
	world.quiet = true;
	/* Nobody misses the last message of a channel if it is dropped there: that never comes to
	 * rest. */
	for (unsigned i = 0; i < N_HOSTS; i++) {
		if (script.drops & 1U << i)
			app_kill(i, false);
	}
	for (unsigned i = 0; i < N_HOSTS; i++) {
		struct app *app = world.apps[i];

		nic_refuse(i, 0, 0, 0);
		for (unsigned k = 0; k < N_HOSTS; k++)
			open_path(NULL, i | k << 4 | 0x300);
		if (i > world.n_clients)
			continue;
		if (!app) {
			app_start(i);
			continue;
		}
		app->busy_until = 0;
		app_enter(app);
		if (xrdma_set(app->ctx, "filter", ""))
			sim_fail("no filter: %s", xrdma_last_error());
	}
}
