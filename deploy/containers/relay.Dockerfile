# syntax=docker/dockerfile:1
# The relay's own processes: one image, one command each. Build from the repository's root:
#   docker build -f deploy/containers/relay.Dockerfile -t crcr-relay .
# Nothing in it needs root, a shell or a compiler at run time; the file system may be read-only but for /var/lib/relay and /tmp.
FROM python:3.11.14-slim-bookworm@sha256:65a93d69fa75478d554f4ad27c85c1e69fa184956261b4301ebaf6dbb0a3543d AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY relay relay
COPY selector selector
COPY deploy/requirements/relay.txt requirements.txt
# every file by its hash, then our own code, for which nothing else is fetched
RUN python -m venv /opt/relay \
 && /opt/relay/bin/pip install --no-cache-dir --require-hashes --only-binary :all: --no-deps -r requirements.txt \
 && /opt/relay/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.11.14-slim-bookworm@sha256:65a93d69fa75478d554f4ad27c85c1e69fa184956261b4301ebaf6dbb0a3543d AS relay
# git: the mirror of upstream
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends git ca-certificates \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --no-create-home --home-dir /var/lib/relay --shell /usr/sbin/nologin relay \
 && install -d -o relay -g relay -m 0750 /var/lib/relay
COPY --from=build /opt/relay /opt/relay
COPY test_configs /opt/relay/test_configs
ENV PATH=/opt/relay/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    RELAY_DATA_DIR=/var/lib/relay \
    RELAY_CONFIGS_DIR=/opt/relay/test_configs/spyre \
    RELAY_HOST=0.0.0.0 \
    RELAY_ALIVE_FILE=/tmp/alive
USER 10001:10001
WORKDIR /var/lib/relay
EXPOSE 8460
STOPSIGNAL SIGTERM
ENTRYPOINT ["python", "-m"]
# also: relay.pump; relay.queue.tasks route,outbox --concurrency 6; relay.queue.tasks select; relay.cli COMMAND
CMD ["relay.web"]
# of the web process; compose and Kubernetes say what the others are asked
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8460/healthz', timeout=4)"]
