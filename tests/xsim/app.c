/* SPDX-License-Identifier: BSD-2-Clause */
#include "app.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct world world;

void app_enter(struct app *app)
{
	sim.running = &app->proc;
}

struct end *end_new(struct app *app, struct xrdma_channel *ch)
{
	struct end *e = sim_new(sizeof(*e));

	if (world.n_ends == MOST_ENDS) {
		sim_fail("more channels than the world has room for");
		return e;
	}
	e->app = app;
	e->ch = ch;
	e->serial = world.n_ends;
	e->ops_left = world.n_ops;
	list_init(&e->ops);
	world.ends[world.n_ends++] = e;
	xrdma_channel_set_user(ch, e);
	return e;
}

struct end *end_of(struct app *app, struct xrdma_channel *ch)
{
	struct end *e = xrdma_channel_user(ch);

	return e ? e : end_new(app, ch);
}

static void dial_again(void *owner, uint64_t arg)
{
	struct app *app = owner;

	if (!app->proc.dead && !world.over)
		app_dial(app);
}

static void on_event(struct xrdma_channel *ch, enum xrdma_event event, int status, void *arg)
{
	struct app *app = arg;
	struct end *e = end_of(app, ch);

	if (app->proc.dead) {
		e->ch = NULL;
		return;
	}
	oracle_event(e, event, status);
	if (event == XRDMA_CLOSED) {
		e->ch = NULL;
		if (e->dialed && !world.over)
			sim_after(sim_between(10 * MSEC, 500 * MSEC), dial_again, app, 0);
	} else if (event == XRDMA_CONNECTED) {
		if (app->region)
			(void)xrdma_region_export(app->region, ch, app->tag);
		traffic_start(e);
		if (world.over)
			app_close_end(e);
	}
}

void app_close_end(struct end *e)
{
	app_enter(e->app);
	e->close_asked = true;
	xrdma_channel_close(e->ch);
}

static const struct xrdma_handlers handlers = {
	.on_msg = app_on_msg, .on_region = app_on_region, .on_event = on_event};

static void set(struct xrdma_conf *conf, const char *name, const char *text)
{
	if (xrdma_conf_set(conf, name, text))
		sim_fail("option %s: %s", name, xrdma_last_error());
}

static void set_number(struct xrdma_conf *conf, const char *name, uint32_t value)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", value);
	set(conf, name, text);
}

static struct xrdma_conf *configure(unsigned host)
{
	static const char *const plain[][2] = {
		{"tls", "off"},
		{"monitor", "off"},
		{"huge", "off"},
		{"log", "error"},
		{"slab_bytes", "2M"},
		{"small_bytes", "512"},
		{"frag_bytes", "4096"},
		{"max_msg", "256K"},
		{"rx_budget_bytes", "8M"},
		{"numa", "auto"},
		{"trim_ms", "3600000"},
		{"max_calls", "64"},
		{"slabs_min", "0"},
		{"keepalive_ms", "1000"},
		{"queue_depth", "64"},
		{"connect_timeout_ms", "3000"},
	};
	char device[16];
	struct xrdma_conf *conf;

	if (xrdma_conf_new(&conf))
		return NULL;
	for (unsigned i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		set(conf, plain[i][0], plain[i][1]);
	snprintf(device, sizeof(device), "sim%u", host);
	set(conf, "device", device);
	set(conf, "srq", world.shared ? "on" : "off");
	set_number(conf, "window", world.window);
	set_number(conf, "control", 4 + sim_below(5));
	set_number(conf, "qp_cache", sim_below(3));
	set_number(conf, "recovery_ms", world.recovery_ms);
	set_number(conf, "timeout", 10 + sim_below(5));
	set_number(conf, "signal_every", 1 + sim_below(16));
	set(conf, "transport", world.mock ? "auto" : "force-rdma");
	set_number(conf, "max_dials", world.max_dials);
	set_number(conf, "mock_after", world.seed / 2 % 4);
	set_number(conf, "mock_back_after", 1 + world.seed / 8 % 3);
	set_number(conf, "mock_probe_ms", 1000 + world.seed * 37 % 3000);
	return conf;
}

void app_new_region(struct app *app)
{
	const struct xrdma_region_attr attr = {.slot_bytes = SLOT_BYTES,
					       .n_slots = SLOTS,
					       .rights = XRDMA_REMOTE_READ | XRDMA_REMOTE_WRITE,
					       .numa_node = -1};
	struct xrdma_region **ret = app->region ? &app->decoy : &app->region;

	if (xrdma_region_new(app->ctx, &attr, ret))
		sim_fail("no region: %s", xrdma_last_error());
	else if (ret == &app->decoy) /* nobody is told of it: nobody may touch it */
		memset(xrdma_region_slot(app->decoy, 0), 0xdd, SLOTS * SLOT_BYTES);
	else
		app->tag = ++world.n_regions;
}

void app_start(unsigned host)
{
	struct app *app = sim_new(sizeof(*app));
	struct xrdma_conf *conf;
	int ret;

	app->proc = (struct proc){.host = host, .serial = world.n_procs++};
	app_enter(app);
	conf = configure(host);
	ret = xrdma_open(conf, &app->ctx);
	xrdma_conf_free(conf);
	if (!ret && host == 0) {
		app_new_region(app);
		ret = xrdma_listen(app->ctx, "127.0.0.1:700", &handlers, app, &app->listener);
	}
	if (ret) {
		sim_fail("a process does not start: %s", xrdma_last_error());
		return;
	}
	sim_note("host %u: process %u starts", host, app->proc.serial);
	app->fd = xrdma_get_event_fd(app->ctx);
	world.apps[host] = app;
	for (uint32_t i = 0; host && i < world.n_lines; i++)
		app_dial(app);
}

void app_dial(struct app *app)
{
	struct xrdma_channel *ch;
	struct end *e;

	app_enter(app);
	if (xrdma_connect(app->ctx, "127.0.0.1:700", &handlers, app, &ch)) {
		sim_note("host %u cannot dial: %s", app->proc.host, xrdma_last_error());
		sim_after(100 * MSEC, dial_again, app, 0);
		return;
	}
	e = end_new(app, ch);
	e->dialed = true;
	sim_note("host %u dials as %u", app->proc.host, e->serial);
}

void app_close(struct app *app)
{
	app_enter(app);
	app->proc.dead = true;
	world.apps[app->proc.host] = NULL;
	sim.closing = true;
	xrdma_close(app->ctx);
	sim.closing = false;
}

void app_kill(unsigned host, bool power)
{
	struct app *app = world.apps[host];

	if (!app)
		return;
	sim_note("host %u: process %u dies%s", host, app->proc.serial, power ? " with it" : "");
	app_enter(app);
	app->proc.dead = true;
	nic_vanish(&app->proc);
	tcp_end(&app->proc, power);
	for (uint32_t i = 0; i < world.n_ends; i++) {
		if (world.ends[i]->app == app)
			world.ends[i]->ch = NULL;
	}
	app_close(app); /* only to have its memory back: nobody hears what it says */
}
