# A desktop in a container:
#
#   docker build -t deskhand .
#   docker run --rm -p 2468:2468 deskhand

FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
RUN make build VERSION="$VERSION"

FROM debian:bookworm-slim
COPY .ci/install /tmp/install
# curl is for the health check.
RUN /tmp/install run \
 && apt-get install -y --no-install-recommends curl \
 && rm -rf /var/lib/apt/lists/* /tmp/install \
 && useradd --uid 1000 --create-home --shell /bin/bash deskhand
COPY --from=build /src/bin/deskhand /usr/local/bin/deskhand
COPY --from=build /src/LICENSE /src/bin/THIRD_PARTY_NOTICES /usr/local/share/doc/deskhand/

USER deskhand
WORKDIR /home/deskhand
ENV LANG=C.UTF-8
# The API and the viewer; the ports of the live view's media.
EXPOSE 2468/tcp 59050-59070/udp
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["curl", "-fsS", "-o", "/dev/null", "http://127.0.0.1:2468/livez"]
# No init is needed: deskhand reaps what it inherits as process 1.
ENTRYPOINT ["deskhand"]
CMD ["server", "--host", "0.0.0.0"]
