# The control plane: rollcall train, watch and the rest, without a GPU. Build from the root of the repository:
#   docker compose --env-file containers/versions.env -f containers/compose.yaml build control
ARG NODE_VERSION
FROM node:${NODE_VERSION}-bookworm-slim AS build
WORKDIR /build
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY . .
RUN npm pack --pack-destination /tmp

FROM node:${NODE_VERSION}-bookworm-slim
COPY --from=build /tmp/rollcall-*.tgz /tmp/rollcall.tgz
RUN npm install --global --omit=dev --ignore-scripts --no-audit --no-fund /tmp/rollcall.tgz && rm /tmp/rollcall.tgz
COPY containers/is-alive.cjs /usr/local/lib/rollcall/is-alive.cjs
# Volumes take the owner of the folder that they cover.
RUN install --directory --owner=1000 --group=1000 /work /weights /home/node/.cache /home/node/.cache/huggingface
# Kernels are compiled where there is a compiler; here the wasm build of them is used.
USER 1000:1000
WORKDIR /work
ENV ROLLCALL_RUN=/work/run
HEALTHCHECK --interval=30s --timeout=10s --start-period=10m CMD ["node", "/usr/local/lib/rollcall/is-alive.cjs"]
ENTRYPOINT ["rollcall"]
CMD ["--help"]
