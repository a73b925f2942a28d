# deskhand in a container: one base, three targets.
#
#   slim      X server, window manager, D-Bus, xterm
#   desktop   Chromium, OpenGL, sound, fonts, ffmpeg, git and Node.js too (the default)
#   full      Claude Code, Codex, OpenCode and Pi too
#
#   docker build -t deskhand .
#   docker run --rm -p 2468:2468 deskhand
#
# How to run it: docs/deploy/docker.md.

ARG GO_IMAGE=golang:1.26-trixie
ARG NODE_IMAGE=node:22-trixie-slim
ARG BASE_IMAGE=debian:trixie-slim
# An image that has /out, in place of the stage that compiles what is in it.
ARG BINARIES=compiled

# The Go compiler runs on the builder's own architecture and cross-compiles.
FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod GOMODCACHE=/go/pkg/mod go mod download
COPY . .
ARG VERSION=unknown TARGETOS=linux TARGETARCH TARGETVARIANT NPM_CONFIG_REGISTRY
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    export GOMODCACHE=/go/pkg/mod GOOS="$TARGETOS" GOARCH="$TARGETARCH" GOARM="${TARGETVARIANT#v}" \
 && make build VERSION="$VERSION" \
 && CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-s -w' -o /out/sbom ./internal/sbom \
 && cp httpapi/libs.lock /out/ \
 && mkdir -p /out/root/usr/local/bin /out/root/usr/local/share/doc/deskhand \
 && CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-s -w' -o /out/root/usr/local/libexec/deskhand-entry ./internal/entry \
 && cp bin/deskhand /out/root/usr/local/bin/ \
# A program that others cannot read is never dumpable: nobody reads its environment, not even while it starts.
 && chmod 0711 /out/root/usr/local/bin/deskhand /out/root/usr/local/libexec/deskhand-entry \
 && ln -s deskhand /out/root/usr/local/bin/sandbox-agent \
 && cp LICENSE bin/THIRD_PARTY_NOTICES /out/root/usr/local/share/doc/deskhand/

FROM scratch AS compiled
COPY --from=build /out /out

FROM ${BINARIES} AS binaries

FROM ${NODE_IMAGE} AS node

# What all targets have in common but the packages.
FROM ${BASE_IMAGE} AS base
COPY deploy/image/dpkg.cfg /etc/dpkg/dpkg.cfg.d/deskhand
# Group 0 owns the home, so that any uid of that group can use the image.
RUN useradd --uid 1000 --gid 0 --home-dir /home/sandbox --create-home --shell /bin/bash sandbox \
 && cd /home/sandbox \
 && mkdir -p .cache .config .local/share .local/state/deskhand \
 && chown -R 1000:0 . && chmod -R g=u . && chmod 0770 . && chmod 0700 .local/state/deskhand \
# A user without a name gets one there, from the server; see docs/deploy/docker.md.
 && mkdir -p /var/lib/extrausers && ln -s /tmp/.deskhand-passwd /var/lib/extrausers/passwd
ENV HOME=/home/sandbox LANG=C.UTF-8
WORKDIR /home/sandbox
# The API and the viewer; the media of the live view, if they go by UDP.
EXPOSE 2468/tcp 59050/udp
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["deskhand", "health"]
# The first program opens the port of the server before it becomes deskhand. No init
# is needed: deskhand reaps what it inherits as process 1.
ENTRYPOINT ["/usr/local/libexec/deskhand-entry", "/usr/local/bin/deskhand"]
CMD ["server", "--host", "0.0.0.0"]
LABEL org.opencontainers.image.title="deskhand" \
      org.opencontainers.image.description="Virtual Linux desktops for computer-use agents" \
      org.opencontainers.image.source="https://github.com/deskhand/deskhand" \
      org.opencontainers.image.licenses="Apache-2.0"

FROM base AS slim
COPY deploy/image/dpkg-slim.cfg /etc/dpkg/dpkg.cfg.d/deskhand-slim
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      ca-certificates dbus fonts-dejavu-core libnss-extrausers openbox xauth xterm xvfb \
 && sed -i 's/^passwd:.*/& extrausers/' /etc/nsswitch.conf \
# With su, a program could become any user that it writes to the file of names.
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} + \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/debconf/*-old /var/log/*
COPY --from=binaries /out/root /
RUN --mount=type=bind,from=binaries,source=/out,target=/tmp/out /tmp/out/sbom -libs /tmp/out/libs.lock /usr/local/share/doc/deskhand/sbom.cdx.json
ARG VERSION=unknown
LABEL org.opencontainers.image.version="$VERSION"
USER 1000:0

FROM base AS desktop-files
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      ca-certificates dbus fonts-dejavu-core libnss-extrausers openbox xauth xterm xvfb \
      at-spi2-core chromium curl ffmpeg fonts-noto-cjk fonts-noto-color-emoji git less procps pulseaudio x11-xserver-utils xdg-utils \
 && sed -i 's/^passwd:.*/& extrausers/' /etc/nsswitch.conf \
# With su, a program could become any user that it writes to the file of names.
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} + \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/debconf/*-old /var/log/*
COPY deploy/image/chromium /etc/chromium.d/deskhand
COPY --from=node /usr/local/bin/node /usr/local/bin/node
COPY --from=node /usr/local/lib/node_modules/npm /usr/local/lib/node_modules/npm
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm \
 && ln -s ../lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx
COPY --from=binaries /out/root /

FROM desktop-files AS full
# Outside the home, so that a volume there does not hide them.
RUN for agent in claude codex opencode pi; do \
      HOME=/tmp/home XDG_DATA_HOME=/usr/local/share deskhand install-agent "$agent" || exit 1; \
    done \
 && rm -rf /tmp/home
RUN --mount=type=bind,from=binaries,source=/out,target=/tmp/out /tmp/out/sbom -libs /tmp/out/libs.lock /usr/local/share/doc/deskhand/sbom.cdx.json "node=$(node --version)"
ARG VERSION=unknown
LABEL org.opencontainers.image.version="$VERSION"
USER 1000:0

FROM desktop-files AS desktop
RUN --mount=type=bind,from=binaries,source=/out,target=/tmp/out /tmp/out/sbom -libs /tmp/out/libs.lock /usr/local/share/doc/deskhand/sbom.cdx.json "node=$(node --version)"
ARG VERSION=unknown
LABEL org.opencontainers.image.version="$VERSION"
USER 1000:0
