# Thin doors to scripts/; `make` alone says what there is.
.PHONY: help setup demo test sanitize chaos bench format

help:
	@echo "make demo      run real jobs through Herald on this machine: RabbitMQ, Redis and a simulated APNs, all private"
	@echo "make test      format, schemas, build and all tests"
	@echo "make sanitize  the tests that need no servers, under the address and the thread sanitizer (long)"
	@echo "make chaos     kill, pause, cut off and restart everything for half an hour, and audit what became of every job"
	@echo "make bench     measure a release build"
	@echo "make format    format all Swift files"
	@echo "make setup     install what is missing (apt-get); the others do it by themselves"

setup:
	@scripts/setup

demo:
	@scripts/demo

test:
	@scripts/test

sanitize:
	@scripts/sanitize

chaos:
	@scripts/setup
	@scripts/chaos/run --build $(CHAOS)

bench:
	@scripts/bench

format:
	@scripts/format
