# make demo and make test are all one has to type. CONTRIBUTING.md says what the
# targets are for and what they need.

.PHONY: setup demo test race lint cross fuzz bench cover tidy
.PHONY: setup-lab lab test-vm test-mpich test-slurm test-chaos nightly
.NOTPARALLEL:

# gompi looks for Debian's Open MPI on x86_64. Elsewhere the wrapper of the MPI
# that is installed knows (-showme: Open MPI, -compile-info: MPICH). Recursive
# variables, since setup may have to install it first.
ifeq ($(wildcard /usr/lib/x86_64-linux-gnu/openmpi/include/mpi.h),)
ifeq ($(origin CGO_CFLAGS),undefined)
export CGO_CFLAGS = $(shell mpicc --showme:compile 2>/dev/null || mpicc -compile-info 2>/dev/null | cut -d' ' -f2-)
export CGO_LDFLAGS = $(shell mpicc --showme:link 2>/dev/null || mpicc -link-info 2>/dev/null | cut -d' ' -f2-)
endif
endif

# What a program may import: all but the commands, and mpicomm where it needs cgo.
LIBRARY = $$(go list ./mpiguard/... ./chunk/... | grep -v -e /cmd/ -e /mpicomm)

# Tests that need a virtual machine, fake hosts, Slurm or much time.
LAB = ^TestLab

setup:
	@internal/lab/setup.sh mpi

demo: setup
	go run ./internal/demo

test: setup lint cross
	go test -skip '$(LAB)' ./...
	go test -race -skip '$(LAB)' ./...

race: setup
	go test -race ./...

lint:
	go vet ./...
	go test -skip '$(LAB)' ./internal/lint
	@if command -v golangci-lint >/dev/null; then golangci-lint run; fi

# The library builds where there is neither Linux nor cgo.
cross:
	@for target in linux/amd64 linux/386 linux/arm64 darwin/arm64 windows/amd64; do \
		echo "build $$target"; \
		CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/} go build $(LIBRARY) || exit 1; \
	done

FUZZTIME = 10s
fuzz:
	@go list ./... | while read -r package; do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz'); do \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package || exit 1; \
		done; \
	done

# Each operation beside its rivals and the primitive that bounds it, in one run:
# the table of the README.
bench: setup
	go run -C benchmarks/peers .

# Of the library: not of its commands, and not of the tools of its tests.
COVERED = $$(go list ./mpiguard/... ./chunk/... ./internal/... | \
	grep -v -e /cmd/ -e /internal/bare -e /internal/lab -e /internal/lint -e /internal/demo | paste -sd,)
cover: setup
	go test -skip '$(LAB)' -coverprofile coverage.out -coverpkg $(COVERED) ./...
	go tool cover -func coverage.out | tail -1

setup-lab: setup
	@internal/lab/setup.sh lab
	@go run ./internal/lab/cmd/vm -fetch

lab: setup-lab test-mpich fuzz test-vm
	go test -p 1 -timeout 20m -run '$(LAB)' ./...

test-slurm: setup-lab
	go test -p 1 -timeout 20m -run '$(LAB)Slurm' ./...

# What reads or makes cgroups, where they are of version 2. Each package pays the
# boot of a machine, and two machines at a time are too many for two cores. With
# several ranks the emulation is too slow to sample up to the moment of a kill.
IN_VM = go test -p 1 -exec '$(CURDIR)/build/vm -t 9m'
test-vm: setup-lab
	go build -o build/vm ./internal/lab/cmd/vm
	$(IN_VM) -skip '$(LAB)' ./internal/lab/memgroup ./internal/lab/mpirun ./internal/cgroup
	$(IN_VM) -run 'TestHeadroomIsTrueAtTheKill/.*/^1$$' ./mpiguard

test-mpich: export CGO_CFLAGS = $(shell mpicc.mpich -compile-info | cut -d' ' -f2-)
test-mpich: export CGO_LDFLAGS = $(shell mpicc.mpich -link-info | cut -d' ' -f2-)
test-mpich: export MPIGUARD_MPIRUN = mpiexec.mpich
test-mpich: setup-lab
	go test ./mpiguard/mpicomm/...

test-chaos: setup
	go test -timeout 20m -run '$(LAB)Chaos' ./...

# Run it before a claim is written down.
nightly: export MPIGUARD_LAB = require
nightly: export MPIGUARD_LONG = 1
nightly: setup-lab
	go test -p 1 -count 1 -timeout 24h ./...
	$(MAKE) fuzz FUZZTIME=5m
	$(MAKE) cover bench tidy

tidy:
	go mod tidy -diff
