# Everything here does its own set-up; a newcomer needs git and make. The build itself is meson's.
#
#   make run         install what is missing, build, run the first example, show a dashboard
#   make check       build, run every test that this machine can run          (some ten minutes)
#   make check-all   also sanitizers, clang, valgrind, fuzzing, official MCP clients, a virtual machine
#   make fuzz        each fuzz target for FUZZ_SECONDS (60)
#   make conformance  MCP's own conformance suite against scb and against its library (from npm)
#   make bench       the figures beside a Jupyter kernel's and another MCP server's (BENCH=NAME: one group)
#   make soak        a mix of calls for SOAK_MINUTES (2); SOAK=cycles: 1,000 sandboxes made and
#                    destroyed; SOAK=output: one job that prints 10 GiB; SOAK=sessions: 1,000 live at
#                    once; SOAK=steps, SOAK=chance: brokers killed at every step (SOAK_ON=docker-root: of
#                    Docker's alone), 300 times by chance;
#                    SOAK=dashboards: 10,000 random scripts beside whole runs;
#                    SOAK=docker: 200 containers of an engine one after the other, 50 at once
#   make install     into PREFIX (/usr/local); DESTDIR is honoured; make uninstall undoes it
#   make format      clang-format every C file
#   make clean       remove what was built

# Debian's own tools first: a python3 or meson of one's own may lack what was installed.
export PATH := /usr/bin:$(PATH)
export LC_ALL := C.UTF-8

BUILD ?= build
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
SOAK ?= mix
SOAK_MINUTES ?= 2
PYTHON := /usr/bin/python3

.DEFAULT_GOAL := help
.PHONY: help build run check check-all conformance fuzz bench soak install uninstall format clean

help:
	@sed -n '3,/^$$/s/^#//p' Makefile

build:
	@tools/setup build ui
	@tools/build $(BUILD)

run:
	@tools/setup build ui run
	@tools/build $(BUILD)
	@$(PYTHON) examples/first-run/main.py
	@if [ -t 0 ] && [ -t 1 ]; then $(BUILD)/scb demo; \
	else echo "A dashboard in your browser, until Ctrl-C: $(BUILD)/scb demo"; fi

check:
	@tools/setup build ui run test
	@tools/check base

check-all:
	@tools/setup build ui run test ci engines browser
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tools/check base more guest

conformance:
	@tools/setup build ui run test ci browser
	@tools/build $(BUILD) -Dtests=true
	@tests/conformance/run $(BUILD) $(BUILD)/tests/conformance/conformance-fixture

fuzz:
	@tools/setup build ci
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tools/check fuzz

bench:
	@tools/setup build ui run bench
	@tools/build $(BUILD)
	@$(PYTHON) bench/run.py $(BUILD)

soak:
	@tools/setup build ui run test $(if $(filter docker steps,$(SOAK)),engines)
	@tools/build $(BUILD)
	@SCB_BUILD=$(BUILD) SOAK_MINUTES=$(SOAK_MINUTES) $(PYTHON) tests/soak/soak.py $(SOAK)

# Where it goes. Each of these folders, or the nearest that is there already, must be writable.
PLACE := $(DESTDIR)$(abspath $(PREFIX))
WRITABLE = for d in $(PLACE)/bin $(PLACE)/libexec/scb; do \
		while [ ! -e "$$d" ]; do d=$$(dirname "$$d"); done; \
		[ -w "$$d" ] || { echo "make $@: $$d cannot be written: use sudo make $@," \
			"or make $@ PREFIX=\$$HOME/.local" >&2; exit 1; }; \
	done

install:
	@$(WRITABLE)
	@tools/setup build ui
	@tools/build $(BUILD) -Dprefix=$(abspath $(PREFIX))
	@meson install -C $(BUILD) --no-rebuild --quiet
	@echo "Installed: $(PLACE)/bin/scb"

uninstall:
	@if [ ! -e $(PLACE)/bin/scb ] && [ ! -e $(PLACE)/libexec/scb ]; then \
		echo "Nothing is installed in $(PLACE)"; exit 0; fi; \
	$(WRITABLE); \
	rm -rf $(PLACE)/bin/scb $(PLACE)/libexec/scb && echo "Removed: $(PLACE)/bin/scb, $(PLACE)/libexec/scb"

format:
	@git ls-files -z '*.c' '*.h' | xargs -0 clang-format -i

clean:
	rm -rf build build-asan build-clang build-fuzz ui/node_modules
