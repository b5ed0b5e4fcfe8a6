# The pipeline in a container, on a project in the current folder: docker build -t rlver . and, for a project's own
# paths and owner (docs/deployments.md): docker run --rm -it -v "$PWD:$PWD" -w "$PWD" -u "$(id -u):$(id -g)" -e HOME=/tmp rlver run
# An empty folder becomes a project by `rlver init .` in the same way. On Linux pip takes PyTorch with CUDA; for the smaller one without,
# name its index in PIP_EXTRA_INDEX_URL (docker build --build-arg PIP_EXTRA_INDEX_URL=…).
FROM python:3.11-slim
RUN apt-get update && apt-get install --yes --no-install-recommends git && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home rlver && mkdir /work && chown rlver /work && git config --system --add safe.directory /work
ARG PIP_EXTRA_INDEX_URL
COPY . /source
RUN pip install --no-cache-dir -c /source/constraints.txt '/source[all]'
USER rlver
WORKDIR /work
ENTRYPOINT ["rlver"]
