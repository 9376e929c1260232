# Everything here does its own set-up; a newcomer needs git and make. The build itself is meson's.
#
#   make run         install what is missing, build, run the first example
#   make check       build, run every test that this machine can run          (a few minutes)
#   make check-all   also sanitizers, clang, valgrind, fuzzing, official MCP clients
#   make fuzz        each fuzz target for FUZZ_SECONDS (60)
#   make bench       the figures, one line each
#   make install     into PREFIX (/usr/local); DESTDIR is honoured; make uninstall undoes it
#   make format      clang-format every C file
#   make clean       remove what was built

# Debian's own tools first: a python3 or meson of one's own may lack what was installed.
export PATH := /usr/bin:$(PATH)
export LC_ALL := C.UTF-8

BUILD ?= build
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
PYTHON := /usr/bin/python3

.DEFAULT_GOAL := help
.PHONY: help build run check check-all fuzz bench install uninstall format clean

help:
	@sed -n '3,/^$$/s/^#//p' Makefile

build:
	@tools/setup build
	@tools/build $(BUILD)

run:
	@tools/setup build run
	@tools/build $(BUILD)
	@$(PYTHON) examples/first-run/main.py

check:
	@tools/setup build run test
	@tools/check base

check-all:
	@tools/setup build run test ci
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tools/check base more

fuzz:
	@tools/setup build ci
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tools/check fuzz

bench:
	@tools/setup build run
	@tools/build $(BUILD)
	@$(PYTHON) bench/run.py $(BUILD)

install:
	@tools/setup build
	@tools/build $(BUILD) -Dprefix=$(abspath $(PREFIX))
	@meson install -C $(BUILD) --no-rebuild --quiet
	@echo "Installed: $(DESTDIR)$(abspath $(PREFIX))/bin/scb"

uninstall:
	@ninja -C $(BUILD) uninstall >/dev/null
	@find $(DESTDIR)$(abspath $(PREFIX))/libexec/scb -depth -type d -empty -delete 2>/dev/null || true
	@echo "Removed: $(DESTDIR)$(abspath $(PREFIX))/bin/scb"

format:
	@git ls-files -z '*.c' '*.h' | xargs -0 clang-format -i

clean:
	rm -rf build build-asan build-clang build-fuzz tests/clients/node_modules
