# Short names for what meson does. `make help` lists them.
PREFIX ?= /usr/local
BUILD ?= build
MAKEFLAGS += --no-print-directory

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD)

$(BUILD)/build.ninja:
	meson setup $(BUILD) --prefix=$(abspath $(PREFIX)) >/dev/null

.PHONY: all
