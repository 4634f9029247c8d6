# Herald and its simulator: built with Swift on Debian, run on Debian without it, as a user without rights.
#
#   docker build --target herald -t herald .
#   docker build --target apns-simulator -t apns-simulator .

FROM swift:6.3-bookworm AS build
RUN apt-get update \
  && apt-get install -y --no-install-recommends \
    libhiredis-dev libnghttp2-dev librabbitmq-dev libssl-dev pkg-config \
  && rm -rf /var/lib/apt/lists/*
WORKDIR /herald
# Dependencies first: they change less often than the sources.
COPY Package.swift Package.resolved* ./
RUN swift package resolve
COPY Sources ./Sources
COPY Tests ./Tests
# Swift's own libraries go into the programs, so the runtime image needs none of them.
RUN swift build -c release --static-swift-stdlib --product herald \
  && swift build -c release --static-swift-stdlib --product apns-simulator \
  && install -D "$(swift build -c release --show-bin-path)/herald" /out/herald \
  && install -D "$(swift build -c release --show-bin-path)/apns-simulator" /out/apns-simulator

FROM debian:bookworm-slim AS runtime
RUN apt-get update \
  && apt-get install -y --no-install-recommends \
    ca-certificates libhiredis0.14 libnghttp2-14 librabbitmq4 libssl3 openssl tzdata \
  && rm -rf /var/lib/apt/lists/* \
  && useradd --system --uid 10001 --user-group --no-create-home herald

FROM runtime AS apns-simulator
COPY --from=build /out/apns-simulator /usr/local/bin/apns-simulator
# A volume that is mounted here takes over its owner.
RUN install -d -o herald -g herald -m 700 /simulator
USER herald
ENTRYPOINT ["/usr/local/bin/apns-simulator"]

FROM runtime AS herald
COPY --from=build /out/herald /usr/local/bin/herald
COPY config/herald.yaml /etc/herald/herald.yaml
RUN install -d -o herald -g herald -m 700 /etc/herald/simulator
USER herald
EXPOSE 8080
ENTRYPOINT ["/usr/local/bin/herald"]
CMD ["run"]
