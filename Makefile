# Short names for scripts/; `make` alone lists them.
.PHONY: help setup demo check test sanitize chaos bench format reference documentation

help:
	@echo "make demo            send sample jobs through Herald on this machine: RabbitMQ, Redis and a simulated APNs, all private"
	@echo "make check           everything that needs no build, in less than a minute: format, scripts, rooms, documents, schemas"
	@echo "make test            make check, build and all tests"
	@echo "make test NAME=…     build, and only the tests whose name contains NAME"
	@echo "make sanitize        the tests that need no servers, under the address and the thread sanitizer (long)"
	@echo "make chaos           kill, pause, cut off and restart everything for half an hour, and audit every job"
	@echo "make bench           measure a release build"
	@echo "make format          format all Swift files"
	@echo "make reference       write docs/reference/ from the programs that were built, and from config/herald.yaml"
	@echo "make documentation   build the documentation of the Swift libraries (DocC)"
	@echo "make setup           install what is missing (apt-get); the other targets do it by themselves"

setup:
	@scripts/setup

demo:
	@scripts/demo

check:
	@scripts/check

test:
	@scripts/test $(if $(findstring command line,$(origin NAME)),'$(NAME)')

sanitize:
	@scripts/sanitize

chaos:
	@scripts/setup
	@scripts/chaos/run --build $(CHAOS)

bench:
	@scripts/bench

format:
	@scripts/format

reference:
	@scripts/reference
	@scripts/openapi

documentation:
	@scripts/build
	@scripts/documentation
