# An image of scalemark with the pinned packages of install.py; docs/install.md says how it is run. For NVIDIA GPUs:
#   docker build --build-arg INSTALL=--cuda -t scalemark:cuda .
ARG PYTHON=3.11
FROM python:${PYTHON}-slim-bookworm

WORKDIR /scalemark
COPY . .
ARG INSTALL=""
RUN --mount=type=cache,target=/root/.cache/pip \
    python3 install.py ${INSTALL:+"$INSTALL"} \
    && python3 -m compileall -q -x '[.]venv' . \
    && useradd --uid 1000 --create-home scalemark \
    && install -d -o scalemark -g scalemark /results \
    && install -d -m 1777 /results/cache

# The caches let any user run it (docker run --user), and what CUDA compiles, probes find and data sets are made of
# stays with the results; by the last two variables the NVIDIA runtime brings the driver along.
ENV PATH=/scalemark/.venv/bin:$PATH \
    MPLCONFIGDIR=/tmp/matplotlib \
    SCALEMARK_CACHE=/results/cache \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 1000
WORKDIR /results
ENTRYPOINT ["scalemark"]
CMD ["--help"]
