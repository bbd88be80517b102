# Schedulearn as an image. docs/containers.md says how it is run; compose.yaml runs it.
ARG BASE=python:3.11-slim

# Every version is the one of the lock, and every file has one of its hashes.
FROM ${BASE} AS packages
COPY requirements/image.txt /requirements.txt
RUN python -m pip install --no-cache-dir --root-user-action=ignore --require-hashes -r /requirements.txt

FROM packages AS wheel
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY scripts/compiled.py scripts/compiled.py
COPY src src
RUN python -m pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels .

FROM packages
# For servers at ssh://…
RUN command -v ssh >/dev/null || { \
        apt-get update && apt-get install -y --no-install-recommends openssh-client && rm -rf /var/lib/apt/lists/*; }
# The user has a number, so that it is the same in every image and on every volume, and a name, because ssh wants one.
RUN echo 'schedulearn:x:10001:10001::/data:/bin/sh' >>/etc/passwd && echo 'schedulearn:x:10001:' >>/etc/group \
    && mkdir -m 711 /data && chown 10001:10001 /data
COPY --from=wheel /wheels /wheels
RUN python -m pip install --no-cache-dir --root-user-action=ignore --no-deps /wheels/*.whl

USER 10001:10001
WORKDIR /data
ENV SCHEDULEARN_DATA=/data PYTHONUNBUFFERED=1
EXPOSE 7311
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "from schedulearn.client import Client; Client(timeout=4).health()"]
ENTRYPOINT ["schedulearn", "up"]
# Loopback inside of a container is for nobody else: what is published, and where, is said when it is run. For other
# machines: --host 0.0.0.0 --tls.
CMD ["--host", "0.0.0.0", "--insecure"]
