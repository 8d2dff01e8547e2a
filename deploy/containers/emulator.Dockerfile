# syntax=docker/dockerfile:1
# An emulator worker: torch for the CPU, the emulated device, and a sandbox for tests. Build from the repository's root:
#   docker build -f deploy/containers/emulator.Dockerfile -t crcr-emulator .
# It runs code of unmerged pull requests: no secrets but its own, no way out but relay and broker (deploy/k8s, NetworkPolicy),
# and user namespaces for the sandbox (docs/sandbox.md says what to allow).
FROM python:3.11.14-slim-bookworm@sha256:65a93d69fa75478d554f4ad27c85c1e69fa184956261b4301ebaf6dbb0a3543d AS build
# an index with builds for the CPU alone: the default build is several gigabytes
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY relay relay
COPY selector selector
COPY deploy/requirements/emulator.txt requirements.txt
# every file by its hash; torch alone from its own index, where nothing else is looked for; then our own code
RUN python -m venv /opt/relay \
 && /opt/relay/bin/pip install --no-cache-dir --require-hashes --only-binary :all: --no-deps -r requirements.txt \
 && /opt/relay/bin/pip install --no-cache-dir --no-deps --index-url "$TORCH_INDEX" torch==2.13.0 \
 && /opt/relay/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.11.14-slim-bookworm@sha256:65a93d69fa75478d554f4ad27c85c1e69fa184956261b4301ebaf6dbb0a3543d AS emulator
# g++: torch.compile writes C++
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends g++ \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10002 --no-create-home --home-dir /var/lib/relay-worker --shell /usr/sbin/nologin worker \
 && install -d -o worker -g worker -m 0700 /var/lib/relay-worker
COPY --from=build /opt/relay /opt/relay
ENV PATH=/opt/relay/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 \
    OMP_NUM_THREADS=1 \
    RELAY_WORKER_DIR=/var/lib/relay-worker \
    RELAY_WORKER_TRUST=strict \
    RELAY_WORKER_DRAIN_S=600 \
    RELAY_ALIVE_FILE=/tmp/alive
USER 10002:10002
WORKDIR /var/lib/relay-worker
STOPSIGNAL SIGTERM
ENTRYPOINT ["python", "-m"]
CMD ["relay.worker"]
# longer than the longest shard (shard_timeout_s): while one runs, the loop does not turn
HEALTHCHECK --interval=60s --timeout=5s --start-period=120s --retries=2 \
  CMD ["python", "-m", "relay.alive", "1200"]
