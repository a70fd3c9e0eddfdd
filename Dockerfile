# l3a in a container:
#   docker build -t l3a .
#   docker run --rm -v "$PWD":/data l3a tag pets.l3a photos
# It has no plug-ins: docs/installing.md says what that means. packaging/try-dockerfile runs these lines without Docker.
FROM debian:12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends \
    gcc libc6-dev cmake make pkg-config libopenblas-openmp-dev libxxhash-dev libexpat1-dev libsqlite3-dev libjpeg62-turbo-dev \
    libpng-dev libwebp-dev libheif-dev libdnnl-dev libmicrohttpd-dev
COPY . /source
RUN cmake -S /source -B /build -DL3A_CUDA=OFF -DL3A_MPI=OFF -DL3A_FIGURE=OFF -DL3A_WEBP=ON -DL3A_HEIF=ON -DL3A_ONEDNN=ON -DL3A_SERVE=ON
RUN cmake --build /build -j "$(nproc)"
RUN cmake --install /build --strip --prefix /install

FROM debian:12-slim
RUN apt-get update && apt-get install -y --no-install-recommends \
    libopenblas0-openmp libxxhash0 libexpat1 libsqlite3-0 libjpeg62-turbo libpng16-16 libwebp7 libwebpdemux2 libheif1 libdnnl2 \
    libmicrohttpd12 && \
    rm -rf /var/lib/apt/lists/*
COPY --from=build /install/bin/l3a /usr/local/bin/
COPY --from=build /install/lib/libl3a.so.* /usr/local/lib/
COPY packaging/healthcheck /usr/local/bin/l3a-healthcheck
RUN useradd --create-home --uid 1000 l3a && mkdir /data && chown l3a /data
USER l3a
WORKDIR /data
HEALTHCHECK --interval=30s --timeout=10s --start-period=10s CMD ["l3a-healthcheck"]
ENTRYPOINT ["l3a"]
CMD ["help"]
